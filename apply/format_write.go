package apply

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

	"leat/apply/internal/resolve"

	"golang.org/x/sys/unix"

	"leat/block"
	"leat/internal/fault"
	"leat/internal/gdal"
	"leat/internal/tempfile"
	"leat/internal/units"
	"leat/ndarray"
	"leat/raster"
	"leat/raster/stats"
)

// gdalFile describes a file in one of GDAL's formats, except for its pixels.
type gdalFile struct {
	spec    gdal.Spec
	bands   []BandResult // with the statistics and histograms to store
	method  string
	factors []int
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
	return fmt.Sprintf("%v: the disk of %s is full: free some space", e.err, e.dir)
}
func (e *diskFullError) Unwrap() error { return e.err }

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
func (s *gdalFile) compareOnDisk(notes *gdalOutput, w *gdal.Writer, dir string, exact bool) error {
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
	if b.Moments.Valid == 0 {
		return nil
	}
	// Metadata items have all digits. GDAL's own call keeps 14 of them, and is for formats that
	// drop such items.
	items, err := w.Items(ctx, i+1)
	if err != nil {
		return err
	}
	if items["STATISTICS_MINIMUM"] == "" {
		m := &b.Moments
		// compare finds what the format can't hold.
		err := w.SetStatistics(ctx, i+1,
			gdal.Statistics{Lowest: m.Min, Highest: m.Max, Mean: m.Mean, Deviation: m.StdDev()})
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
func gdalHistogram(b *BandResult) *gdal.Histogram {
	if b.Bins.Counts == nil {
		return nil
	}
	h := &gdal.Histogram{Lowest: b.Bins.Min, Highest: b.Bins.Max, Counts: b.Bins.Counts}
	if b.Bins.Direct {
		h.Lowest, h.Highest = h.Lowest-0.5, h.Highest+0.5
	}
	return h
}

// fromZero makes the bins of bytes and classes begin with the value 0: ERDAS Imagine keeps
// histogram and colours in one table, whose rows are values.
func (o *output) fromZero(b stats.Bins) stats.Bins {
	if !b.Direct || b.Min < 0 || o.typ != ndarray.Uint8 && !o.spec.Thematic {
		return b
	}
	whole := stats.Bins{Max: b.Max, Direct: true}
	if o.typ == ndarray.Uint8 {
		whole.Max = 255
	}
	whole.Counts = make([]uint64, int(whole.Max)+1)
	copy(whole.Counts[int(b.Min):], b.Counts)
	return whole
}

// layOutGDAL writes the finished output, without its name yet.
func (o *output) layOutGDAL(ctx context.Context) (*OutputResult, *tempfile.File, error) {
	defer o.run.timings.Start("writing by GDAL", "main", -1).Stop()
	if _, err := o.spool.Finish(ctx, o.run.plan.Workers); err != nil {
		return nil, nil, err
	}
	res := &OutputResult{Name: o.name, Path: o.spec.label(), Type: o.typ, Nodata: o.nodata, Format: o.spec.Format,
		Options: o.spec.Options, Coding: strings.Join(append([]string{o.spec.Format}, o.spec.Options...), " ")}
	info, err := o.describeBands(res)
	if err != nil {
		return nil, nil, err
	}
	if os.Getenv("GDAL_CACHEMAX") == "" {
		if err := gdal.SetCacheBytes(formatCache(o.layoutBudget())); err != nil {
			return nil, nil, err
		}
	}
	s := &gdalFile{spec: o.formatSpec(), bands: res.Bands, method: gdalMethods[o.spec.OverviewMethod],
		factors: o.gdal.factors}
	s.spec.BandInfo, s.spec.Metadata, s.spec.Domains = info.Bands, info.Metadata, info.Domains
	w, err := s.write(ctx, o.spec.identity(), func(w *gdal.Writer) error { return o.feed(ctx, w) })
	if errors.As(err, new(*overviewsError)) && !errors.As(err,
		new(*diskFullError)) && ctx.Err() == nil && o.spec.Overviews == nil {
		o.gdal.note(fmt.Sprintf("it has no overviews: %v", err))
		s.factors = nil
		w, err = s.write(ctx, o.spec.identity(), func(w *gdal.Writer) error { return o.feed(ctx, w) })
	}
	if err != nil {
		if ctx.Err() != nil {
			return nil, nil, context.Cause(ctx)
		}
		return nil, nil, fmt.Errorf("output %s: %w", o.name, err)
	}
	o.gdal.writer = w
	if err := s.compareOnDisk(&o.gdal, w, filepath.Dir(o.spec.identity()), true); err != nil {
		return nil, nil, fmt.Errorf("output %s: %w", o.name, inPlaceOf(err, w.StagingPath(), o.spec.label()))
	}
	res.Warnings = append(res.Warnings, o.gdalNotes()...)
	if res.Files, res.Bytes, err = w.FileNames(); err != nil {
		return nil, nil, fmt.Errorf("output %s: %w", o.name, err)
	}
	res.Tiles = o.spool.Tiles()
	res.Overviews = s.made
	return res, nil, nil
}

// discardGDAL removes an output that was laid out and not published.
func (o *output) discardGDAL() {
	if w := o.gdal.writer; w != nil {
		o.gdal.writer = nil
		if err := w.Discard(); err != nil {
			o.run.log.Warn("removing what was laid out", "output", o.name, "error", err)
		}
	}
}

// publishGDAL publishes the finished output.
func (o *output) publishGDAL(_ *tempfile.File, res *OutputResult) error {
	if err := o.checkSidecars(res.Files); err != nil {
		return err
	}
	path, real := resolve.Absolute(o.spec.Path), o.spec.identity()
	if path != real { // the writer removes the sidecars of the file itself
		for _, ext := range sidecarSuffixes {
			if err := os.Remove(path + ext); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return fmt.Errorf("output %s: %s belongs to the old file and can't be removed: %w", o.name, path+ext,
					err)
			}
		}
	}
	err := o.gdal.writer.Close(context.Background())
	if errors.Is(err, fs.ErrExist) && o.spec.NoClobber {
		return o.clobbers()
	}
	if err != nil {
		return fmt.Errorf("output %s: %w", o.name, err)
	}
	return nil
}

// formatSpec returns the description of the output for GDAL, without its bands.
func (o *output) formatSpec() gdal.Spec {
	return gdal.Spec{Driver: o.spec.Format, Options: o.formatOptions(), Grid: o.run.plan.Grid, Bands: o.bands,
		Type: o.typ, Nodata: o.nodata, NoClobber: o.spec.NoClobber}
}

// freeBlocks frees the memory of blocks, which is not needed any more: GDAL allocates its own,
// which Go's runtime does not see.
func (r *run) freeBlocks() {
	r.buffers = nil
	debug.FreeOSMemory()
}

// libraryBytes estimates the memory of GDAL itself: the library and the tables of its formats.
const libraryBytes = 80 << 20

// formatCache returns GDAL's cache size while an output is laid out, and formatWindow how many
// bytes leat decodes at once then: parts of the budget that blocks no longer use.
func formatCache(budget int64) int64 {
	return min(256<<20, max(8<<20, (budget-baseBytes-libraryBytes)/3))
}

func formatWindow(budget int64) int64 {
	return min(128<<20, max(2<<20, (budget-baseBytes-libraryBytes)/8))
}

// copyBytes is what GDAL's COG driver takes for its overviews in addition to its cache. pcidskBytes
// is the size of the zeros with which PCIDSK fills each new file unless it is tiled. Nothing bounds
// either.
const (
	copyBytes   = 32 << 20
	pcidskBytes = 256 << 20
)

// layoutBudget returns the memory available to laying the output out.
func (o *output) layoutBudget() int64 {
	if o.spec.Format == "COG" {
		return o.run.plan.BudgetBytes - copyBytes
	}
	return o.run.plan.BudgetBytes
}

// zeros returns the memory that the format takes whenever it creates a file, a sample too; it is
// freed before pixels are written.
func (o *output) zeros() int64 {
	tiled := slices.ContainsFunc(o.spec.Options,
		func(s string) bool { return strings.EqualFold(s, "INTERLEAVING=TILED") })
	if o.spec.Format == "PCIDSK" && !tiled {
		return pcidskBytes
	}
	return 0
}

// addLayoutMemory adds to the plan the memory for laying outputs out through GDAL.
func (p *Plan) addLayoutMemory(outs []*output) {
	var need, zeros int64
	for _, o := range outs {
		if !o.spec.usesGDAL() {
			continue
		}
		own := int64(0)
		if o.spec.Format == "COG" {
			own = copyBytes
		}
		need = max(need, baseBytes+libraryBytes+own+formatCache(p.BudgetBytes-own)+2*formatWindow(p.BudgetBytes-own))
		if z := o.zeros(); z > 0 {
			zeros = baseBytes + libraryBytes + z
		}
	}
	if need == 0 {
		return
	}
	remedy := ""
	if zeros > p.BudgetBytes {
		remedy = fmt.Sprintf(": %s of that are PCIDSK's, which takes less with --co INTERLEAVING=TILED",
			units.FormatSize(pcidskBytes))
	}
	if most := max(need, zeros); most > p.BudgetBytes {
		p.Notes = append(p.Notes, fmt.Sprintf("GDAL, which writes the outputs, takes about %s with leat, more than the memory allowed (%s)%s", units.FormatSize(most), units.FormatSize(p.BudgetBytes), remedy))
	}
	p.MemoryBytes = max(p.MemoryBytes, min(need, p.layoutMost(outs)), zeros)
}

// layoutMost returns the most that laying out takes when the outputs are small.
func (p *Plan) layoutMost(outs []*output) int64 {
	var most int64
	for _, o := range outs {
		if o.spec.usesGDAL() {
			most = max(most, int64(p.Grid.Width)*int64(p.Grid.Height)*int64(max(o.bands, 1)*max(o.typ.Size(), 4)))
		}
	}
	return baseBytes + libraryBytes + 3*most
}

// feed writes the pixels from the spool.
func (o *output) feed(ctx context.Context, w *gdal.Writer) error {
	g := o.run.plan.Grid
	bw, bh := w.BlockSize()
	ww, wh := layWindow(g.Width, g.Height, o.tileH, bw, bh, int64(o.bands*o.typ.Size()), formatWindow(o.layoutBudget()))
	store := ndarray.New(o.typ, o.bands, min(wh, g.Height), min(ww, g.Width)).Raw()
	var a *ndarray.Array
	d := o.spool.NewReader()
	for row := 0; row < g.Height; row += wh {
		for col := 0; col < g.Width; col += ww {
			at := block.Window{Col: col, Row: row, Width: min(ww, g.Width-col), Height: min(wh, g.Height-row)}
			a = ndarray.FromBytes(o.typ, store, o.bands, at.Height, at.Width)
			if err := d.Read(ctx, at, a); err != nil {
				return err
			}
			if err := w.WriteBlock(ctx, at, a); err != nil {
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
	if h = lcm(bh, tileH); h > 4*tileH {
		h = roundUp(tileH, bh)
	}
	w = width
	for int64(w)*int64(h)*pixelBytes > most {
		switch {
		case bw < width && w > max(bw, tileH):
			w = max(bw, roundUp((w+1)/2, bw))
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
	return plainError{strings.ReplaceAll(err.Error(), other, path), err}
}
