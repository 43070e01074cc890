package output

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"sync"

	"leat/apply/internal/jobspec"
	"leat/apply/internal/spool"
	"leat/apply/outcome"
	"leat/block"
	"leat/internal/overview"
	"leat/internal/tiffwrite"
	"leat/internal/units"
	"leat/ndarray"
	"leat/raster"
	"leat/timing"
)

// Writer writes an output: it spools blocks and lays out the finished file. In a worker process it
// only encodes blocks.
type Writer struct {
	Output // Begin sets what only the first block shows
	// File is the file of the spool; nil in a worker process.
	File *spool.File
	// Begin sets Layout, Chooser and Spool; Spool stays nil in a worker process.
	Layout  *spool.Layout
	Chooser *spool.Chooser
	Spool   *spool.Spool

	grid        raster.Grid
	blocks      block.Plan
	budgetBytes int64
	workers     int
	timings     *timing.Recorder
	log         *slog.Logger
	start       func(w *Writer) error

	mu         sync.Mutex
	started    bool
	firstBlock int
}

// Options are what a Writer needs of a run's plan.
type Options struct {
	Grid        raster.Grid
	Blocks      block.Plan
	BudgetBytes int64
	Workers     int
	Timings     *timing.Recorder
	Log         *slog.Logger
	// Start is called once by Begin before the first record is spooled. It writes the spool's
	// header unless there is one.
	Start func(w *Writer) error
}

// NewWriter returns the writer of an output. In a worker process Start is nil.
func NewWriter(o *Output, opts Options) *Writer {
	return &Writer{Output: *o, grid: opts.Grid, blocks: opts.Blocks, budgetBytes: opts.BudgetBytes,
		workers: opts.Workers, timings: opts.Timings, log: opts.Log, start: opts.Start, firstBlock: -1}
}

// Begin sets type and bands with the first block, and returns an error for a later block that
// differs.
func (w *Writer) Begin(number int, t ndarray.DType, bands int) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.Type.Valid() && w.Type != t || w.Bands > 0 && w.Bands != bands {
		what := "the output is declared as"
		if w.started && w.Spec.Type != w.Type {
			what = fmt.Sprintf("block %d gave", w.firstBlock)
		}
		return jobspec.Errorf("Output.Type", "output %s: block %d gives %s of %v, but %s %s of %v",
			w.Name, number, units.Count(bands, "band"), t, what, units.Count(max(w.Bands, 1), "band"), w.Type)
	}
	if w.started {
		return nil
	}
	w.Type, w.Bands, w.firstBlock = t, bands, number
	if err := w.SetNodata(); err != nil {
		return fmt.Errorf("output %s: %w", w.Name, err)
	}
	if err := w.CheckType(); err != nil {
		return fmt.Errorf("output %s: %w", w.Name, err)
	}
	if err := w.Sample(context.Background(), w.grid); err != nil {
		return err
	}
	if err := w.open(); err != nil {
		return err
	}
	w.started = true
	return nil
}

// open makes the layout of the records and, unless this is a worker process, the spool. The caller
// holds w.mu.
func (w *Writer) open() error {
	file := tiffwrite.FileSpec{Path: w.Spec.Label(), Width: w.grid.Width, Height: w.grid.Height, Bands: w.Bands,
		Type: w.Type, TileWidth: w.TileWidth, TileHeight: w.TileHeight,
		PixelInterleave: w.Spec.PixelInterleave && w.Bands > 1,
		Grid:            w.format.grid(w.grid), Nodata: w.Nodata, BigTIFF: w.Spec.BigTIFF}
	for _, f := range w.Factors {
		file.Levels = append(file.Levels,
			raster.Size{Width: overview.Reduced(w.grid.Width, f), Height: overview.Reduced(w.grid.Height, f)})
	}
	candidates, err := w.Candidates(w.Type)
	if err != nil {
		return err
	}
	w.Layout, err = spool.NewLayout(spool.Spec{Output: w.Name, File: file, Blocks: w.blocks, Candidates: candidates,
		Factors: w.Factors, Method: w.Method, Alpha: w.AlphaBand(),
		Statistics: !w.Spec.NoStatistics, Histogram: !w.Spec.NoHistogram, NoPixels: w.Spec.Table != nil})
	if err != nil {
		return err
	}
	w.Chooser = spool.NewChooser(w.Layout, w.File)
	if w.start == nil {
		return nil
	}
	if err := w.start(w); err != nil {
		return err
	}
	w.Spool = spool.New(w.File, w.Layout, w.Chooser, w.timings)
	return nil
}

// NewEncoder returns an encoder, after Begin. Its timings have this lane.
func (w *Writer) NewEncoder(lane string) *spool.Encoder {
	return spool.NewEncoder(w.Layout, w.Chooser, w.timings, lane)
}

// Choice returns the text of the chosen coding, and false before the choice.
func (w *Writer) Choice() (string, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.Chooser == nil {
		return "", false
	}
	return w.Chooser.Choice()
}

// Follow applies the coordinator's choice of a coding, after Begin; before, it does nothing.
func (w *Writer) Follow(choice string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.started {
		w.Chooser.Follow(choice)
	}
}

// Finished is an output that is laid out and has no name yet.
type Finished interface {
	Result() *outcome.OutputResult
	// Publish gives the output its name. Upload writes it to its store.
	Publish() error
	Upload(ctx context.Context, store Store) error
	// Keep gives the finished file a local name after an error, if it is Keepable, and replaces
	// nothing. It returns fs.ErrClosed if the file is published or uploaded.
	Keepable() bool
	Keep() (path string, err error)
	// Discard removes the output unless it is published or kept.
	Discard() error
}

// LayOut completes the tiles and writes the finished output, without its name yet. All blocks have
// been spooled.
func (w *Writer) LayOut(ctx context.Context) (Finished, error) { return w.format.layOut(ctx, w) }

// describeBands returns the names, colours, statistics and metadata of the file's bands, which
// BeforeClose may have changed.
func (w *Writer) describeBands(res *outcome.OutputResult) (*raster.Info, error) {
	info := &raster.Info{Path: w.Spec.Label(), Driver: w.Spec.FormatName(), Grid: w.Layout.File.Grid,
		Metadata: maps.Clone(w.Spec.Metadata)}
	if info.Metadata == nil {
		info.Metadata = map[string]string{}
	}
	for i := range w.Bands {
		b := w.bandInfo(i)
		br := outcome.BandResult{Name: b.Name, Scaling: w.Scaling(i)}
		if !w.Spec.NoStatistics && !w.Type.IsComplex() {
			m := w.Spool.Moments(i)
			setMoments(&br, &m)
			statisticsItems(b.Metadata, &br)
			if !w.Spec.NoHistogram && m.Valid > 0 {
				totals := w.Spool.Totals(i)
				br.Histogram = outcome.Histogram(w.format.bins(&w.Output, totals.Bins(m)))
				br.Median, br.Mode = totals.Quantile(0.5, m), totals.Mode(m)
				histogramItems(b.Metadata, &br)
			}
		}
		info.Bands = append(info.Bands, b)
		res.Bands = append(res.Bands, br)
	}
	if w.Spec.BeforeClose != nil {
		if err := w.Spec.BeforeClose(info); err != nil {
			return nil, fmt.Errorf("output %s: before closing: %w", w.Name, err)
		}
		if len(info.Bands) != w.Bands {
			return nil, fmt.Errorf("output %s: the hook before closing changed the number of bands", w.Name)
		}
	}
	return info, nil
}
