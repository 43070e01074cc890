package apply

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"leat/block"
	"leat/internal/units"
	"leat/objstore"
	"leat/raster"
)

// Remote is a raster in a store. Job.Open may return one; package apply/remote implements it. A run
// reads it piece by piece if it needs less than half of it, and otherwise stages the whole file on
// local disk before the first block that needs it.
type Remote interface {
	raster.Source
	raster.RangeLister
	// Version returns the store's description of the version that all reads return.
	Version() objstore.Info
	// Fetch starts to fetch pieces, see raster.Prefetcher.
	Fetch(ranges []raster.Range) (release func())
	// Pieces returns why the file can't be read piece by piece, Staging why it can't be staged; nil
	// if it can.
	Pieces() error
	Staging() error
	// Here reports whether the whole file is on local disk.
	Here() bool
	// Stage starts to stage the file and returns at once; false means that it is read in pieces
	// instead. Wait waits until staging is done; later reads are local.
	Stage() (bool, error)
	Wait(ctx context.Context) error
	// Done is called after the last read.
	Done() error
}

// Filed is a [Remote] that can be staged as a local file: GDAL, which warps rasters on other grids,
// opens files.
type Filed interface {
	// StageFile is like Stage and makes LocalPath valid, from when Wait has returned until Done.
	StageFile() (bool, error)
	LocalPath() (string, error)
}

// Store writes outputs whose Path is a URL. Errors name the URL without secrets.
type Store interface {
	// Check returns why nothing can be written there, as far as that can be found without writing.
	Check(ctx context.Context, url string) error
	// Exists reports whether the object exists. If the store does not reveal that, the error is
	// fs.ErrPermission.
	Exists(ctx context.Context, url string) (bool, error)
	// Upload writes size bytes of r as an object: completely or not at all.
	Upload(ctx context.Context, url string, r io.ReaderAt, size int64, o objstore.UploadOptions) error
}

// readMode is how a run reads a file.
type readMode uint8

const (
	accessLocal  readMode = iota // it is a local file
	accessNone                   // nothing of it is needed
	accessPieces                 // pieces are fetched ahead
	accessWhole                  // it is staged first
)

func (a readMode) String() string { return [...]string{"local", "not read", "in pieces", "staged"}[a] }

// manyAtOnce bounds the concurrent requests to stores while a job is prepared: each takes long and
// little work.
const manyAtOnce = 16

// Opener opens an input by its name.
type Opener = func(ctx context.Context, path string) (raster.Source, error)

// OpenLocal is the Opener of jobs that have none.
func OpenLocal(_ context.Context, path string) (raster.Source, error) {
	if objstore.IsURL(path) {
		return nil, fmt.Errorf("%s: the job has no way to open URLs (Job.Open)", objstore.Redact(path))
	}
	return Open(path)
}

// chooseAccess decides how each remote file is read on the job's grid.
func (in *inputs) chooseAccess(ctx context.Context, grid raster.Grid, overlap int) error {
	var g errgroup.Group
	g.SetLimit(manyAtOnce)
	errs := make([]error, len(in.files))
	for i, f := range in.files {
		if f.remote != nil {
			g.Go(func() error {
				errs[i] = f.chooseAccess(ctx, grid, overlap)
				return nil
			})
		}
	}
	_ = g.Wait()
	return errors.Join(errs...)
}

func (f *inputFile) chooseAccess(ctx context.Context, grid raster.Grid, overlap int) error {
	ranges, err := f.rangesOf(ctx, block.Window{Width: grid.Width, Height: grid.Height}.Grow(overlap))
	if err != nil {
		return fmt.Errorf("input %s: %w", f.input, err)
	}
	f.bytesNeeded = raster.RangeBytes(ranges)
	share := units.FormatSize(f.bytesNeeded) + " of " + units.FormatSize(f.info.FileBytes)
	noPieces := f.remote.Pieces()
	mixed := !f.remote.Version().Versioned() // pieces may be of several versions, which nothing would detect
	switch {
	case f.bytesNeeded == 0 && len(ranges) == 0:
		f.mode, f.readReason = accessNone, "nothing of it is needed"
		return nil
	case noPieces == nil && f.bytesNeeded < f.info.FileBytes/2 && !mixed && f.remote.Here():
		f.mode, f.readReason = accessWhole, "the job needs "+share+", and it is on the local disk already"
		return nil
	case noPieces == nil && f.bytesNeeded < f.info.FileBytes/2 && !mixed:
		f.mode, f.readReason = accessPieces, "the job needs "+share
		return nil
	}
	noStage := f.remote.Staging()
	switch {
	case noStage == nil && f.warp != nil:
		f.mode, f.readReason = accessWhole, "it is warped from the local disk"
	case noStage == nil && noPieces != nil:
		f.mode, f.readReason = accessWhole, fmt.Sprintf("the job needs %s, and its server gives no parts", share)
	case noStage == nil && mixed:
		f.mode, f.readReason = accessWhole,
			fmt.Sprintf("the job needs %s, and its server reports no version of it", share)
	case noStage == nil:
		f.mode, f.readReason = accessWhole, "the job needs "+share
	case noPieces == nil:
		f.mixed = mixed
		f.mode, f.readReason = accessPieces, fmt.Sprintf("the job needs %s, and it can't be staged: %v", share, noStage)
	default:
		return fmt.Errorf("input %s: %w, and it can't be brought to local disk: %w", f.input, noPieces, noStage)
	}
	return nil
}

// maxNotes is how many files are named in warnings of the same kind.
const maxNotes = 3

// warnings returns what the files themselves are warned of, such as georeferencing that is not
// read.
func (in *inputs) warnings() []string {
	var list []string
	odd := 0
	for _, f := range in.files {
		if len(f.info.Warnings) == 0 {
			continue
		}
		if odd++; odd <= maxNotes {
			list = append(list, fmt.Sprintf("input %s (%s): %s", f.input, f.path, strings.Join(f.info.Warnings, "; ")))
		}
	}
	if odd > maxNotes {
		list = append(list, fmt.Sprintf("%s more have warnings: see leat info", units.Count(odd-maxNotes, "file")))
	}
	return list
}

// notes returns notes on how the files are read.
func (in *inputs) notes() []string {
	var mixed []*inputFile
	for _, f := range in.files {
		if f.mixed {
			mixed = append(mixed, f)
		}
	}
	switch len(mixed) {
	case 0:
		return nil
	case 1:
		return []string{fmt.Sprintf("%s is read in pieces, and its server reports no version of it: if it is replaced meanwhile, that may go unnoticed; a stage would help (--stage-dir)", mixed[0].path)}
	}
	return []string{fmt.Sprintf("%d inputs, %s the first of them, are read in pieces, and their servers report no versions of them: if one is replaced meanwhile, that may go unnoticed; a stage would help (--stage-dir)", len(mixed), mixed[0].path)}
}

// rangesOf returns the pieces of the file that contain window w of the job's grid.
func (f *inputFile) rangesOf(ctx context.Context, w block.Window) ([]raster.Range, error) {
	have := w.Intersect(f.extent())
	if have.Empty() || len(f.layers) == 0 {
		return nil, nil
	}
	bands := f.layers
	if f.alpha > 0 {
		bands = append(slices.Clone(bands), f.alpha)
	}
	return f.remote.Ranges(ctx, bands, have.Shift(f.colOffset, f.rowOffset), f.readsMask())
}

// needed reports whether a block contains pixels of the file.
func (f *inputFile) needed(b block.Block, p block.Plan) bool {
	return len(f.layers) > 0 && !b.Window.Grow(p.Overlap).Intersect(f.extent()).Empty()
}

// stage starts to stage the files that are read as a whole, in the order in which blocks need them,
// and counts the blocks that need each remote file. reads yields the blocks that need a rectangle
// of the grid, count returns their number.
func (in *inputs) stage(reads func(block.Window) iter.Seq[int], count func(block.Window) int) error {
	type staging struct {
		f     *inputFile
		first int // first block that needs it
	}
	var order []staging
	for _, f := range in.files {
		if f.remote == nil || len(f.layers) == 0 {
			continue
		}
		first := -1 // first block that needs it
		for n := range reads(f.extent()) {
			first = n
			break
		}
		if first < 0 {
			continue
		}
		f.pendingBlocks.Store(int64(count(f.extent())))
		if f.mode == accessWhole {
			order = append(order, staging{f, first})
		}
	}
	slices.SortStableFunc(order, func(a, b staging) int { return a.first - b.first })
	for _, s := range order {
		ok, err := s.f.remote.Stage()
		if err != nil {
			return fmt.Errorf("input %s: %s can't be staged: %w", s.f.input, s.f.path, err)
		}
		if !ok {
			s.f.mode = accessPieces
		}
	}
	return nil
}

// wait waits until the files that a block needs are staged.
func (in *inputs) wait(ctx context.Context, b block.Block, p block.Plan) error {
	for _, f := range in.files {
		if f.mode == accessWhole && f.needed(b, p) {
			if err := f.remote.Wait(ctx); err != nil {
				return fmt.Errorf("input %s: %w", f.input, err)
			}
		}
	}
	return nil
}

// done calls Done of the remote files that no later block needs.
func (in *inputs) done(b block.Block, p block.Plan) error {
	var errs []error
	for _, f := range in.files {
		if f.remote != nil && f.needed(b, p) && f.pendingBlocks.Add(-1) == 0 {
			errs = append(errs, f.remote.Done())
		}
	}
	return errors.Join(errs...)
}

// waits reports whether any file is staged before it is read.
func (in *inputs) waits() bool {
	return slices.ContainsFunc(in.files, func(f *inputFile) bool { return f.mode == accessWhole })
}
