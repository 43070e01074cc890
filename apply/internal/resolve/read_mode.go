package resolve

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"leat/apply/internal/jobspec"
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
	// CheckRanges returns why the file can't be read piece by piece, CheckStaging why it can't be
	// staged; nil if it can.
	CheckRanges() error
	CheckStaging() error
	// Local reports whether the whole file is on local disk.
	Local() bool
	// Stage starts to stage the file and returns at once; false means that it is read in pieces
	// instead. Wait waits until staging is done; later reads are local.
	Stage() (bool, error)
	Wait(ctx context.Context) error
	// Done is called after the last read.
	Done() error
}

// FileStager is a [Remote] that can be staged as a local file: GDAL, which warps rasters on other
// grids, opens files.
type FileStager interface {
	// StageFile is like Stage and makes LocalPath valid, from when Wait has returned until Done.
	StageFile() (bool, error)
	LocalPath() (string, error)
}

// ManyAtOnce bounds the concurrent requests to stores while a job is prepared: each takes long and
// little work.
const ManyAtOnce = 16

// Opener opens an input by its name.
type Opener = func(ctx context.Context, path string) (raster.Source, error)

// OpenLocal is the Opener of jobs that have none.
func OpenLocal(_ context.Context, path string) (raster.Source, error) {
	if objstore.IsURL(path) {
		return nil, fmt.Errorf("%s: the job has no way to open URLs (Job.Open)", objstore.Redact(path))
	}
	return OpenRaster(path)
}

// chooseModes decides how each remote file is read on the job's grid.
func (in *Inputs) chooseModes(ctx context.Context, grid raster.Grid, overlap int) error {
	var g errgroup.Group
	g.SetLimit(ManyAtOnce)
	errs := make([]error, len(in.Files))
	for i, f := range in.Files {
		if f.Remote != nil {
			g.Go(func() error {
				errs[i] = f.chooseMode(ctx, grid, overlap)
				return nil
			})
		}
	}
	_ = g.Wait()
	return errors.Join(errs...)
}

func (f *File) chooseMode(ctx context.Context, grid raster.Grid, overlap int) error {
	ranges, err := f.RangesOf(ctx, block.Window{Width: grid.Width, Height: grid.Height}.Grow(overlap))
	if err != nil {
		return fmt.Errorf("input %s: %w", f.Name, err)
	}
	f.BytesNeeded = raster.RangeBytes(ranges)
	share := units.FormatSize(f.BytesNeeded) + " of " + units.FormatSize(f.Info.FileBytes)
	noPieces := f.Remote.CheckRanges()
	mixed := !f.Remote.Version().Versioned() // pieces may be of several versions, which nothing would detect
	switch {
	case f.BytesNeeded == 0 && len(ranges) == 0:
		f.Mode, f.ReadReason = jobspec.ReadNone, "nothing of it is needed"
		return nil
	case noPieces == nil && f.BytesNeeded < f.Info.FileBytes/2 && !mixed && f.Remote.Local():
		f.Mode, f.ReadReason = jobspec.ReadStaged, "the job needs "+share+", and it is on the local disk already"
		return nil
	case noPieces == nil && f.BytesNeeded < f.Info.FileBytes/2 && !mixed:
		f.Mode, f.ReadReason = jobspec.ReadPieces, "the job needs "+share
		return nil
	}
	noStage := f.Remote.CheckStaging()
	switch {
	case noStage == nil && f.Warp != nil:
		f.Mode, f.ReadReason = jobspec.ReadStaged, "it is warped from the local disk"
	case noStage == nil && noPieces != nil:
		f.Mode, f.ReadReason = jobspec.ReadStaged, fmt.Sprintf("the job needs %s, and its server gives no parts", share)
	case noStage == nil && mixed:
		f.Mode, f.ReadReason = jobspec.ReadStaged,
			fmt.Sprintf("the job needs %s, and its server reports no version of it", share)
	case noStage == nil:
		f.Mode, f.ReadReason = jobspec.ReadStaged, "the job needs "+share
	case noPieces == nil:
		f.mixed = mixed
		f.Mode, f.ReadReason = jobspec.ReadPieces, fmt.Sprintf("the job needs %s, and it can't be staged: %v", share, noStage)
	default:
		return fmt.Errorf("input %s: %w, and it can't be brought to local disk: %w", f.Name, noPieces, noStage)
	}
	return nil
}

// maxNotes is how many files are named in warnings of the same kind.
const maxNotes = 3

// warnings returns what the files themselves are warned of, such as georeferencing that is not
// read.
func (in *Inputs) warnings() []string {
	var list []string
	odd := 0
	for _, f := range in.Files {
		if len(f.Info.Warnings) == 0 {
			continue
		}
		if odd++; odd <= maxNotes {
			list = append(list, fmt.Sprintf("input %s (%s): %s", f.Name, f.Path, strings.Join(f.Info.Warnings, "; ")))
		}
	}
	if odd > maxNotes {
		list = append(list, fmt.Sprintf("%s more have warnings: see leat info", units.Count(odd-maxNotes, "file")))
	}
	return list
}

// notes returns notes on how the files are read.
func (in *Inputs) notes() []string {
	var mixed []*File
	for _, f := range in.Files {
		if f.mixed {
			mixed = append(mixed, f)
		}
	}
	switch len(mixed) {
	case 0:
		return nil
	case 1:
		return []string{fmt.Sprintf("%s is read in pieces, and its server reports no version of it: if it is replaced meanwhile, that may go unnoticed; a stage would help (--stage-dir)", mixed[0].Path)}
	}
	return []string{fmt.Sprintf("%d inputs, %s the first of them, are read in pieces, and their servers report no versions of them: if one is replaced meanwhile, that may go unnoticed; a stage would help (--stage-dir)", len(mixed), mixed[0].Path)}
}

// RangesOf returns the pieces of the file that contain window w of the job's grid.
func (f *File) RangesOf(ctx context.Context, w block.Window) ([]raster.Range, error) {
	have := w.Intersect(f.Extent())
	if have.Empty() || len(f.Layers) == 0 {
		return nil, nil
	}
	bands := f.Layers
	if f.Alpha > 0 {
		bands = append(slices.Clone(bands), f.Alpha)
	}
	return f.Remote.Ranges(ctx, bands, have.Shift(f.ColOffset, f.RowOffset), f.ReadsMask())
}

// needed reports whether a block contains pixels of the file.
func (f *File) needed(b block.Block, p block.Plan) bool {
	return len(f.Layers) > 0 && !b.Window.Grow(p.Overlap).Intersect(f.Extent()).Empty()
}

// Stage starts to stage the files that are read as a whole, in the order in which blocks need them,
// and counts the blocks that need each remote file. reads yields the blocks that need a rectangle
// of the grid, count returns their number.
func (in *Inputs) Stage(reads func(block.Window) iter.Seq[int], count func(block.Window) int) error {
	type staging struct {
		f     *File
		first int // first block that needs it
	}
	var order []staging
	for _, f := range in.Files {
		if f.Remote == nil || len(f.Layers) == 0 {
			continue
		}
		first := -1 // first block that needs it
		for n := range reads(f.Extent()) {
			first = n
			break
		}
		if first < 0 {
			continue
		}
		f.pendingBlocks.Store(int64(count(f.Extent())))
		if f.Mode == jobspec.ReadStaged {
			order = append(order, staging{f, first})
		}
	}
	slices.SortStableFunc(order, func(a, b staging) int { return a.first - b.first })
	for _, s := range order {
		ok, err := s.f.Remote.Stage()
		if err != nil {
			return fmt.Errorf("input %s: %s can't be staged: %w", s.f.Name, s.f.Path, err)
		}
		if !ok {
			s.f.Mode = jobspec.ReadPieces
		}
	}
	return nil
}

// Wait waits until the files that a block needs are staged.
func (in *Inputs) Wait(ctx context.Context, b block.Block, p block.Plan) error {
	for _, f := range in.Files {
		if f.Mode == jobspec.ReadStaged && f.needed(b, p) {
			if err := f.Remote.Wait(ctx); err != nil {
				return fmt.Errorf("input %s: %w", f.Name, err)
			}
		}
	}
	return nil
}

// Done calls Done of the remote files that no later block needs.
func (in *Inputs) Done(b block.Block, p block.Plan) error {
	var errs []error
	for _, f := range in.Files {
		if f.Remote != nil && f.needed(b, p) && f.pendingBlocks.Add(-1) == 0 {
			errs = append(errs, f.Remote.Done())
		}
	}
	return errors.Join(errs...)
}

// Waits reports whether any file is staged before it is read.
func (in *Inputs) Waits() bool {
	return slices.ContainsFunc(in.Files, func(f *File) bool { return f.Mode == jobspec.ReadStaged })
}
