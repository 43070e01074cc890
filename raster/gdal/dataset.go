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

	"leat/raster"
)

// Options of [Open]. Nil and zero fields are the defaults.
type Options struct {
	// OpenOptions are those of the format's driver, as KEY=VALUE.
	OpenOptions []string
	// Drivers that may open the file, by GDAL's short names; default: all.
	Drivers []string
	// Handles bounds the reads that go on at once, each of which needs the raster opened once more; further ones wait. Default: twice the
	// processors, at least 4.
	Handles int
}

// File is a raster that is open through GDAL: a raster.Source, Masker and Leveled. It may be used by many goroutines at once. A dataset of GDAL's
// may not, so that the file is opened once for each that reads at the same time, and stays open so often until Close.
type File struct {
	info    raster.Info
	name    string // as GDAL calls it
	drivers []string
	options []string
	plain   os.FileInfo // where the name is that of a plain file
	masks   []int32     // bands whose masks ReadMask takes together
	sub     []Subdataset
	files   []string // where GDAL would not name all of them

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
	_ raster.Source  = (*File)(nil)
	_ raster.Masker  = (*File)(nil)
	_ raster.Leveled = (*File)(nil)
)

// Flags of GDALOpenEx.
const (
	openRaster  = 0x02
	openVerbose = 0x40
)

// Open opens the raster that GDAL calls path: a file or folder, a name like NETCDF:"a.nc":b, a path below /vsizip/ and the like, or a
// URL (s3://, gs://, azblob://, http://). The error wraps raster.ErrFormat where GDAL does not know the format or the file is damaged,
// raster.ErrUnsupported, fs.ErrNotExist, or [ErrAbsent]. A file that holds several rasters and none of its own is an error that lists them.
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
	f := &File{name: raster.GDALName(path), drivers: opt.Drivers, options: opt.OpenOptions}
	if st, err := os.Stat(path); err == nil {
		// Opening a pipe would wait for its other end.
		if !st.Mode().IsRegular() && !st.IsDir() {
			return nil, fmt.Errorf("%s: is neither a plain file nor a folder (%w)", path, raster.ErrFormat)
		}
		f.plain = st
	}
	f.info.Path = path
	if err := f.start(opt.handles()); err != nil {
		return nil, err
	}
	return f, nil
}

func (o *Options) validate(path string) error {
	errs := []error{checkText(path, "name", path), checkText(path, "open option", o.OpenOptions...), checkText(path, "driver", o.Drivers...)}
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

// start opens the first handle and describes the raster with it.
func (f *File) start(limit int) error {
	h, err := f.openHandle()
	if err != nil {
		if absent(f.info.Path) {
			return fmt.Errorf("%s: %w", f.info.Path, fs.ErrNotExist)
		}
		return err
	}
	if err := f.describe(h); err != nil {
		closeDataset(h)
		return err
	}
	f.idle, f.closed = make(chan hDataset, limit), make(chan struct{})
	f.opened, f.limit = 1, limit
	f.idle <- h
	return nil
}

// absent reports whether a path can only be that of a file, and there is none.
func absent(path string) bool {
	_, err := os.Stat(path)
	return errors.Is(err, fs.ErrNotExist) && !strings.Contains(path, ":") && !strings.HasPrefix(path, "/vsi")
}

// openHandle opens the file as gdalinfo does: a failure that GDAL notes and gets over, of a file beside it, say, does not count. In reads it does.
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

// errChanged: the file at the path is another one than at opening.
var errChanged = errors.New("it was replaced or changed while open")

// acquire returns a handle that nobody else uses.
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
		h, err := f.another()
		if err == nil {
			return h, nil
		}
		f.mu.Lock()
		f.opened--
		// Too many open files, say: those that there are do.
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

// another opens the file once more and makes sure that it is the same one.
func (f *File) another() (hDataset, error) {
	if f.plain != nil {
		st, err := os.Stat(f.info.Path)
		if err != nil || !os.SameFile(st, f.plain) || st.Size() != f.plain.Size() || !st.ModTime().Equal(f.plain.ModTime()) {
			return 0, fmt.Errorf("%s: %w; run again", f.info.Path, errChanged)
		}
	}
	h, err := f.openHandle()
	if err != nil {
		return 0, err
	}
	if int(c.GDALGetRasterXSize(h)) != f.info.Grid.Width || int(c.GDALGetRasterYSize(h)) != f.info.Grid.Height || int(c.GDALGetRasterCount(h)) != len(f.info.Bands) {
		closeDataset(h)
		return 0, fmt.Errorf("%s: %w; run again", f.info.Path, errChanged)
	}
	return h, nil
}

func (f *File) release(h hDataset) { f.idle <- h }

// Info describes the raster. FileBytes counts the plain files that it consists of, up to a thousand of them, and is 0 where there are none.
func (f *File) Info() *raster.Info { return &f.info }

// Close closes all handles. Closing an overview does nothing: it is closed with its raster.
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

// Overviews implements raster.Leveled.
func (f *File) Overviews() []raster.Size { return slices.Clone(f.info.Overviews) }

// Overview implements raster.Leveled.
func (f *File) Overview(i int) (raster.Source, error) {
	if i < 0 || i >= len(f.levels) {
		return nil, fmt.Errorf("%s: overview %d asked for, it has %d", f.info.Path, i, len(f.levels))
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

// FileNames returns the files that the raster consists of, as GDAL knows them, and those that a VRT's sources consist of; none for those that are no files. A source
// that is no file, such as one in a store, stands there by its name.
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
	if f.info.Driver == "VRT" {
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
