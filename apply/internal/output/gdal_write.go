package output

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"leat/apply/outcome"
	"leat/block"
	"leat/internal/fault"
	"leat/internal/gdal"
	"leat/internal/localpath"
	"leat/ndarray"
	"leat/raster"
)

// gdalFile describes a file in one of GDAL's formats, except for its pixels.
type gdalFile struct {
	spec    gdal.Spec
	bands   []outcome.BandResult // with the statistics and histograms to store
	method  string
	factors []int
	inherit bool          // whether scales and offsets are inherited
	interp  bool          // whether the job asks for colour interpretations
	made    []raster.Size // overviews that compare found
}

// overviewsError is returned when only the overviews could not be made.
type overviewsError struct{ err error }

func (e *overviewsError) Error() string { return e.err.Error() }
func (e *overviewsError) Unwrap() error { return e.err }

// write makes the complete file under a temporary name. feed writes the pixels.
func (s *gdalFile) write(ctx context.Context, path string, feed func(w *gdal.Writer) error) (_ *gdal.Writer,
	err error) {
	w, err := gdal.Create(path, &s.spec)
	if err != nil {
		return nil, diskFull(filepath.Dir(path), err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(diskFull(filepath.Dir(path), err), w.Discard())
		}
	}()
	if err := feed(w); err != nil {
		return nil, err
	}
	if len(s.factors) > 0 {
		if err := w.BuildOverviews(ctx, s.method, s.factors); err != nil {
			return nil, &overviewsError{err}
		}
	}
	for i := range s.bands {
		if err := s.describe(ctx, w, i); err != nil {
			return nil, err
		}
	}
	return w, w.Finish(ctx)
}

// diskFullError is returned when a disk is full.
type diskFullError struct {
	err error
	dir string
}

func (e *diskFullError) Error() string {
	return fmt.Sprintf("%v: the disk of %s is full", e.err, e.dir)
}
func (e *diskFullError) Unwrap() []error { return []error{e.err, unix.ENOSPC} }

// diskFull returns err, as a diskFullError if the disk is full now: GDAL's errors often don't
// mention it.
func diskFull(dir string, err error) error {
	if freeBelow(dir, 1<<20) {
		return &diskFullError{err, dir}
	}
	return err
}

// freeBelow reports whether less than n bytes are free on the disk of a directory.
func freeBelow(dir string, n uint64) bool {
	var st unix.Statfs_t
	return unix.Statfs(dir, &st) == nil && uint64(st.Bavail)*uint64(st.Bsize) < n
}

// compareOnDisk is like compare, but returns an error if something is missing and the disk is full:
// GDAL does not always report that it could not write a sidecar.
func (s *gdalFile) compareOnDisk(notes *gdalFormat, w *gdal.Writer, dir string, exact bool) error {
	known := len(notes.dropped)
	if err := s.compare(notes, w.StagingPath(), exact); err != nil || len(notes.dropped) == known {
		return err
	}
	if freeBelow(dir, 64<<10) {
		return &diskFullError{errors.New("GDAL could not write all its files"), dir}
	}
	return nil
}

// describe stores the statistics and the histogram of a band, counted from 0.
func (s *gdalFile) describe(ctx context.Context, w *gdal.Writer, i int) error {
	b := &s.bands[i]
	if b.Valid == 0 {
		return nil
	}
	// Metadata items have all digits. GDAL's own call keeps 14 of them, and is for formats that
	// drop such items.
	items, err := w.Items(ctx, i+1)
	if err != nil {
		return err
	}
	if items["STATISTICS_MINIMUM"] == "" {
		// compare finds what the format can't hold.
		err := w.SetStatistics(ctx, i+1,
			gdal.Statistics{Lowest: b.Min, Highest: b.Max, Mean: b.Mean, Deviation: b.StdDev})
		if err != nil && !errors.Is(err, raster.ErrUnsupported) {
			return err
		}
	}
	if h := gdalHistogram(b); h != nil {
		if err := w.SetHistogram(ctx, i+1, *h); err != nil && !errors.Is(err, raster.ErrUnsupported) {
			return err
		}
	}
	return nil
}

// gdalHistogram returns a band's histogram in GDAL's form: between the edges of the first and the
// last bin.
func gdalHistogram(b *outcome.BandResult) *gdal.Histogram {
	if b.Histogram.Counts == nil {
		return nil
	}
	h := &gdal.Histogram{Lowest: b.Histogram.Min, Highest: b.Histogram.Max, Counts: b.Histogram.Counts}
	if b.Histogram.Direct {
		h.Lowest, h.Highest = h.Lowest-0.5, h.Highest+0.5
	}
	return h
}

func (f *gdalFormat) layOut(ctx context.Context, w *Writer) (Finished, error) {
	defer w.timings.Start("writing by GDAL", "main", -1).Stop()
	debug.FreeOSMemory() // the memory of blocks: GDAL allocates its own, which Go's runtime does not see
	if _, err := w.Spool.Finish(ctx, w.workers); err != nil {
		return nil, err
	}
	done := &finishedGDAL{w: w, res: outcome.OutputResult{Name: w.Name, Path: w.Spec.Label(), Type: w.Type,
		Nodata: w.Nodata, Format: w.Spec.Format, Options: w.Spec.Options,
		Coding: strings.Join(append([]string{w.Spec.Format}, w.Spec.Options...), " ")}}
	info, err := w.describeBands(&done.res)
	if err != nil {
		return nil, err
	}
	if os.Getenv("GDAL_CACHEMAX") == "" {
		if err := gdal.SetCacheBytes(formatCache(w.layoutBudget(w.budgetBytes))); err != nil {
			return nil, err
		}
	}
	s := &gdalFile{spec: gdal.Spec{Driver: w.Spec.Format, Options: w.formatOptions(), Grid: w.grid, Bands: w.Bands,
		Type: w.Type, Nodata: w.Nodata, NoClobber: w.Spec.NoClobber, BandInfo: info.Bands, Metadata: info.Metadata,
		Domains: info.Domains},
		bands: done.res.Bands, method: gdalMethods[w.Method], factors: f.factors,
		inherit: w.inheritsScale(), interp: w.Spec.ColorInterp != nil}
	feed := func(file *gdal.Writer) error { return w.feed(ctx, file) }
	file, err := s.write(ctx, w.Spec.Identity(), feed)
	if errors.As(err, new(*overviewsError)) && !errors.As(err, new(*diskFullError)) && ctx.Err() == nil &&
		w.Spec.Overviews == nil {
		f.note(outcome.Note{Text: fmt.Sprintf("it has no overviews: %v", err)})
		s.factors = nil
		file, err = s.write(ctx, w.Spec.Identity(), feed)
	}
	if err != nil {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		return nil, fmt.Errorf("output %s: %w", w.Name, err)
	}
	done.file = file
	if err := s.compareOnDisk(f, file, filepath.Dir(w.Spec.Identity()), true); err != nil {
		return nil, errors.Join(fmt.Errorf("output %s: %w", w.Name, inPlaceOf(err, file.StagingPath(), w.Spec.Label())),
			done.Discard())
	}
	done.res.Warnings = append(done.res.Warnings, f.notes()...)
	if done.res.Files, done.res.Bytes, err = file.FileNames(); err != nil {
		return nil, errors.Join(fmt.Errorf("output %s: %w", w.Name, err), done.Discard())
	}
	done.res.Tiles, done.res.Overviews = w.Spool.Tiles(), s.made
	return done, nil
}

// finishedGDAL is an output under a hidden name.
type finishedGDAL struct {
	w    *Writer
	file *gdal.Writer // nil after Publish and Discard
	res  outcome.OutputResult
}

func (f *finishedGDAL) Result() *outcome.OutputResult { return &f.res }

func (f *finishedGDAL) Publish() error {
	w := f.w
	if err := w.CheckSidecars(f.res.Files); err != nil {
		return err
	}
	path, real := localpath.Absolute(w.Spec.Path), w.Spec.Identity()
	if path != real { // the writer removes the sidecars of the file itself
		for _, ext := range sidecarSuffixes {
			if err := os.Remove(path + ext); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return fmt.Errorf("output %s: %s belongs to the old file and can't be removed: %w", w.Name, path+ext,
					err)
			}
		}
	}
	err := f.file.Close(context.Background())
	if errors.Is(err, fs.ErrExist) && w.Spec.NoClobber {
		return w.clobbers()
	}
	if err != nil {
		return fmt.Errorf("output %s: %w", w.Name, err)
	}
	return nil
}

func (f *finishedGDAL) Upload(context.Context, Store) error { return errors.ErrUnsupported }

// Keepable returns false: the files refer to each other by name and can't be renamed.
func (f *finishedGDAL) Keepable() bool { return false }

func (f *finishedGDAL) Keep() (string, error) { return "", errors.ErrUnsupported }

func (f *finishedGDAL) Discard() error {
	if err := f.file.Discard(); err != nil {
		return fmt.Errorf("output %s: %w", f.w.Name, err)
	}
	return nil
}

// BaseBytes estimates the memory of the process without buffers: runtime, code, tables.
const BaseBytes = 24 << 20

// libraryBytes estimates the memory of GDAL itself: the library and the tables of its formats.
const libraryBytes = 80 << 20

// formatCache returns GDAL's cache size while an output is laid out, and formatWindow how many
// bytes leat decodes at once then: parts of the budget that blocks no longer use.
func formatCache(budget int64) int64 {
	return min(256<<20, max(8<<20, (budget-BaseBytes-libraryBytes)/3))
}

func formatWindow(budget int64) int64 {
	return min(128<<20, max(2<<20, (budget-BaseBytes-libraryBytes)/8))
}

// copyBytes is what GDAL's COG driver takes for its overviews in addition to its cache. pcidskBytes
// is the size of the zeros with which PCIDSK fills each new file unless it is tiled. Nothing bounds
// either.
const (
	copyBytes   = 32 << 20
	pcidskBytes = 256 << 20
)

// layoutBudget returns how much of a budget is available to laying the output out.
func (o *Output) layoutBudget(budget int64) int64 {
	if o.Spec.Format == "COG" {
		return budget - copyBytes
	}
	return budget
}

func (*gdalFormat) memory(o *Output, grid raster.Grid, budget int64) memory {
	left := o.layoutBudget(budget)
	pixels := int64(grid.Width) * int64(grid.Height) * int64(max(o.Bands, 1)*max(o.Type.Size(), 4))
	m := memory{bytes: BaseBytes + libraryBytes + budget - left + formatCache(left) + 2*formatWindow(left),
		most: BaseBytes + libraryBytes + 3*pixels}
	tiled := slices.ContainsFunc(o.Spec.Options,
		func(s string) bool { return strings.EqualFold(s, "INTERLEAVING=TILED") })
	if o.Spec.Format == "PCIDSK" && !tiled { // a sample takes it too; it is freed before pixels are written
		m.zeros = BaseBytes + libraryBytes + pcidskBytes
	}
	return m
}

// pixelWriter takes the pixels of a raster: see gdal.Writer.
type pixelWriter interface {
	BlockSize() (width, height int)
	WriteBlock(ctx context.Context, win raster.Window, a *ndarray.Array) error
}

// feed writes the pixels from the spool.
func (w *Writer) feed(ctx context.Context, file pixelWriter) error {
	g := w.grid
	bw, bh := file.BlockSize()
	ww, wh := layWindow(g.Width, g.Height, w.TileHeight, bw, bh, int64(w.Bands*w.Type.Size()),
		formatWindow(w.layoutBudget(w.budgetBytes)))
	store := ndarray.New(w.Type, w.Bands, min(wh, g.Height), min(ww, g.Width)).Raw()
	var a *ndarray.Array
	d := w.Spool.NewReader()
	for row := 0; row < g.Height; row += wh {
		for col := 0; col < g.Width; col += ww {
			at := block.Window{Col: col, Row: row, Width: min(ww, g.Width-col), Height: min(wh, g.Height-row)}
			a = ndarray.FromBytes(w.Type, store, w.Bands, at.Height, at.Width)
			if err := d.Read(ctx, at, a); err != nil {
				return err
			}
			if err := file.WriteBlock(ctx, at, a); err != nil {
				return err
			}
			fault.Point("apply.laying")
		}
	}
	fault.Point("apply.laid")
	// GDAL may now allocate memory to copy into the format or to build overviews.
	a, store, d = nil, nil, nil
	debug.FreeOSMemory()
	return nil
}

// layWindow returns the size of the windows in which a raster with pixels of pixelBytes is written,
// in blocks of bw x bh pixels, from tiles of tileH rows. A window is a union of whole blocks of at
// most `most` bytes, in which each tile is decoded once if possible.
func layWindow(width, height, tileH, bw, bh int, pixelBytes, most int64) (w, h int) {
	bw, bh = max(1, min(bw, width)), max(1, min(bh, height))
	if bh > 4*tileH { // one block for the whole raster, say: GDAL has to keep it
		bh = 1
	}
	if h = LCM(bh, tileH); h > 4*tileH {
		h = RoundUp(tileH, bh)
	}
	w = width
	for int64(w)*int64(h)*pixelBytes > most {
		switch {
		case bw < width && w > max(bw, tileH):
			w = max(bw, RoundUp((w+1)/2, bw))
		case h > bh:
			h = max(bh, h/2/bh*bh)
		default:
			return w, h
		}
	}
	return w, h
}

// inPlaceOf replaces a file's name in an error's text by the name that the user knows.
func inPlaceOf(err error, other, path string) error {
	return renamedError{strings.ReplaceAll(err.Error(), other, path), err}
}

type renamedError struct {
	text string
	err  error
}

func (e renamedError) Error() string { return e.text }
func (e renamedError) Unwrap() error { return e.err }

// LCM returns the least common multiple.
func LCM(a, b int) int {
	x, y := a, b
	for y != 0 {
		x, y = y, x%y
	}
	return a / x * b
}
