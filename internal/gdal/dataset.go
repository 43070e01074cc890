package gdal

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"leat/internal/driver"
	"leat/internal/regular"
	"leat/raster"
)

// Options configure [Open]. nil and zero fields mean the defaults.
type Options struct {
	// OpenOptions are options of the format's driver, as KEY=VALUE.
	OpenOptions []string
	// Drivers lists the drivers that may open the file by GDAL's short names; default: all.
	Drivers []string
	// Handles bounds the concurrent reads, each of which opens the raster once more; further reads
	// wait. Default: twice the number of processors, at least 4.
	Handles int
	// Name is the name of a source of vectors in errors, where the path is a copy. Default: the
	// path.
	Name string
}

// File is a raster that is open through GDAL. It implements raster.Source, raster.Masker and
// raster.OverviewSource, and is safe for concurrent use. Since GDAL's datasets are not, it opens
// the file once for each concurrent read, and keeps these handles until Close.
type File struct {
	info    raster.Info
	name    string // GDAL's name
	drivers []string
	options []string
	plain   os.FileInfo // set if the name is that of a plain file
	masks   []int32     // bands whose masks ReadMask combines
	sub     []Subdataset
	files   []string // set if GDAL would not list all of them
	sources []string // of a VRT, including itself

	idle   chan hDataset
	closed chan struct{}
	mu     sync.Mutex
	opened int
	limit  int

	parent *File
	levels []int // GDAL's numbers of the overviews that Info lists
	over   map[int]*File
}

var (
	_ raster.Source         = (*File)(nil)
	_ raster.Masker         = (*File)(nil)
	_ raster.OverviewSource = (*File)(nil)
)

// Flags of GDALOpenEx.
const (
	openRaster  = 0x02
	openVerbose = 0x40
)

// Open opens the raster that GDAL calls path: a file or directory, a name like NETCDF:"a.nc":b, a
// path below /vsizip/ and the like, or a URL (s3://, gs://, azblob://, http://). The error wraps
// raster.ErrFormat if GDAL does not know the format or the file is damaged, raster.ErrUnsupported,
// fs.ErrNotExist, or [ErrNotInstalled]. A file that holds several rasters but none of its own gives
// a *SubdatasetsError.
func Open(path string, opt *Options) (*File, error) {
	if opt == nil {
		opt = &Options{}
	}
	if err := opt.validate(path); err != nil {
		return nil, err
	}
	if err := load(); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	f := &File{name: driver.GDALName(path), drivers: opt.Drivers, options: opt.OpenOptions}
	if err := checkKind(path); err != nil {
		return nil, err
	}
	if st, err := os.Stat(path); err == nil {
		f.plain = st
	}
	f.info.Path = path
	if err := f.collectSources(); err != nil {
		return nil, err
	}
	if err := f.start(opt.handles()); err != nil {
		return nil, err
	}
	return f, nil
}

// checkKind returns an error if path or one of its sidecars is a special file such as a pipe, on
// which GDAL would block without reacting to signals. Names that are not files are left to GDAL.
func checkKind(path string) error {
	special, err := regular.FindSpecial(path)
	switch {
	case err != nil:
		return fmt.Errorf("%s: %w", path, err)
	case special != "":
		return fmt.Errorf("%s: %w (%w)", special, regular.ErrSpecial, raster.ErrFormat)
	}
	return nil
}

// collectSources applies checkKind to the files that a VRT refers to, before GDAL opens them.
func (f *File) collectSources() error {
	if f.plain == nil || vrtText(f.info.Path) == nil {
		return nil
	}
	f.sources = sources([]string{f.info.Path})
	for _, name := range f.sources {
		if err := checkKind(name); err != nil {
			return fmt.Errorf("%s: its source %w", f.info.Path, err)
		}
	}
	return nil
}

func (o *Options) validate(path string) error {
	errs := []error{checkText(path, "name", path), checkText(path, "open option", o.OpenOptions...),
		checkText(path, "driver", o.Drivers...)}
	if path == "" {
		errs = append(errs, errors.New("no name of a raster to open"))
	}
	for _, s := range o.OpenOptions {
		if key, _, ok := strings.Cut(s, "="); !ok || key == "" {
			errs = append(errs, fmt.Errorf("%s: the open option %q is not KEY=VALUE", path, s))
		}
	}
	if o.Handles < 0 {
		errs = append(errs, fmt.Errorf("%s: %d handles", path, o.Handles))
	}
	return errors.Join(errs...)
}

func (o *Options) handles() int {
	if o.Handles > 0 {
		return o.Handles
	}
	return max(4, 2*runtime.GOMAXPROCS(0))
}

// start opens the first handle and describes the raster.
func (f *File) start(limit int) error {
	h, err := f.openHandle()
	if err != nil {
		if absent(f.info.Path) {
			return fmt.Errorf("%s: %w", f.info.Path, unix.ENOENT)
		}
		return err
	}
	if err = f.describe(h); err == nil {
		err = f.checkWhole()
	}
	if err != nil {
		closeDataset(h)
		return err
	}
	f.idle, f.closed = make(chan hDataset, limit), make(chan struct{})
	f.opened, f.limit = 1, limit
	f.idle <- h
	return nil
}

// absent reports whether path can only be the path of a file and that file does not exist.
func absent(path string) bool {
	_, err := os.Stat(path)
	return errors.Is(err, fs.ErrNotExist) && !strings.Contains(path, ":") && !strings.HasPrefix(path, "/vsi")
}

// openHandle opens the file as gdalinfo does: it ignores failures from which GDAL recovers, such as
// one in a sidecar. Read does not ignore them.
func (f *File) openHandle() (h hDataset, err error) {
	err = try(f.info.Path, "open", func() bool {
		if h = c.GDALOpenEx(f.name, openRaster|openVerbose, cStrings(f.drivers), cStrings(f.options), nil); h != 0 {
			c.CPLErrorReset()
		}
		return h != 0
	})
	return h, err
}

func closeDataset(h hDataset) { onThread(func() { c.GDALClose(h) }) }

// errChanged is returned when the file at the path is not the one that was opened.
var errChanged = errors.New("replaced or changed while open")

// acquire returns a handle for exclusive use.
func (f *File) acquire(ctx context.Context) (hDataset, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	select {
	case h := <-f.idle:
		return h, nil
	default:
	}
	f.mu.Lock()
	more := f.opened < f.limit
	if more {
		f.opened++
	}
	f.mu.Unlock()
	if more {
		h, err := f.reopen()
		if err == nil {
			return h, nil
		}
		f.mu.Lock()
		f.opened--
		// The limit of open files may be reached: continue with the handles that are open.
		f.limit = min(f.limit, f.opened)
		f.mu.Unlock()
		if errors.Is(err, errChanged) {
			return 0, err
		}
	}
	select {
	case h := <-f.idle:
		return h, nil
	case <-f.closed:
		return 0, fmt.Errorf("%s: %w", f.info.Path, fs.ErrClosed)
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}

// reopen opens the file once more and checks that it has not changed.
func (f *File) reopen() (hDataset, error) {
	if f.plain != nil {
		st, err := os.Stat(f.info.Path)
		if err != nil || !os.SameFile(st,
			f.plain) || st.Size() != f.plain.Size() || !st.ModTime().Equal(f.plain.ModTime()) {
			return 0, fmt.Errorf("%s: %w; run again", f.info.Path, errChanged)
		}
	}
	h, err := f.openHandle()
	if err != nil {
		return 0, err
	}
	if int(c.GDALGetRasterXSize(h)) != f.info.Grid.Width || int(c.GDALGetRasterYSize(h)) != f.info.Grid.Height ||
		int(c.GDALGetRasterCount(h)) != len(f.info.Bands) {
		closeDataset(h)
		return 0, fmt.Errorf("%s: %w; run again", f.info.Path, errChanged)
	}
	return h, nil
}

func (f *File) release(h hDataset) { f.idle <- h }

// Info describes the raster. FileBytes is the total size of its plain files, of at most a thousand,
// and 0 if there are none.
func (f *File) Info() *raster.Info { return &f.info }

// Close closes all handles. Closing an overview does nothing: closing its raster closes it.
func (f *File) Close() error {
	if f.parent != nil {
		return nil
	}
	return f.closeHandles()
}

func (f *File) closeHandles() error {
	f.mu.Lock()
	select {
	case <-f.closed:
		f.mu.Unlock()
		return nil
	default:
	}
	close(f.closed)
	n := f.opened
	f.limit = 0
	over := f.over
	f.mu.Unlock()
	var errs []error
	for _, o := range over {
		errs = append(errs, o.closeHandles())
	}
	for range n {
		h := <-f.idle
		errs = append(errs, try(f.info.Path, "close", func() bool { c.GDALClose(h); return true }))
	}
	return errors.Join(errs...)
}

// Overviews implements raster.OverviewSource.
func (f *File) Overviews() []raster.Size { return slices.Clone(f.info.Overviews) }

// Overview implements raster.OverviewSource.
func (f *File) Overview(i int) (raster.Source, error) {
	if i < 0 || i >= len(f.levels) {
		return nil, fmt.Errorf("%s: overview %d out of range (has %d)", f.info.Path, i, len(f.levels))
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if o := f.over[i]; o != nil {
		return o, nil
	}
	select {
	case <-f.closed:
		return nil, fmt.Errorf("%s: %w", f.info.Path, fs.ErrClosed)
	default:
	}
	o := &File{name: f.name, drivers: f.drivers, plain: f.plain, parent: f}
	o.options = append(slices.Clone(f.options), fmt.Sprintf("OVERVIEW_LEVEL=%d", f.levels[i]))
	o.info.Path = f.info.Path
	if err := o.start(cap(f.idle)); err != nil {
		return nil, err
	}
	if f.over == nil {
		f.over = map[int]*File{}
	}
	f.over[i] = o
	return o, nil
}

// FileNames returns the files of the raster, as GDAL lists them, and those of a VRT's sources. It
// returns none for a raster without files. A source that is not a file, such as an object in a
// store, is listed by its name.
func (f *File) FileNames() ([]string, error) {
	if f.files != nil {
		return slices.Clone(f.files), nil
	}
	h, err := f.acquire(context.Background())
	if err != nil {
		return nil, err
	}
	defer f.release(h)
	names := fileNames(h)
	switch {
	case f.sources != nil:
		var all nameSet
		for _, name := range names {
			all.add(fileIn(name, ""))
		}
		for _, name := range f.sources {
			all.add(name)
		}
		names = all.names
	case f.info.Driver == "VRT":
		names = sources(names)
	}
	return names, nil
}

func fileNames(h hDataset) (names []string) {
	onThread(func() {
		list := c.GDALGetFileList(h)
		names = goStrings(list)
		c.CSLDestroy(list)
	})
	return names
}
