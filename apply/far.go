package apply

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"golang.org/x/sync/errgroup"

	"leat/block"
	"leat/objstore"
	"leat/raster"
)

// Remote is a raster in a store. What Job.Open gives may be one; package apply/remote has it. A run reads it piece by piece where it needs less than half of
// it, and else has it brought to local disk as a whole, before the first block that needs it.
type Remote interface {
	raster.Source
	raster.Ranged
	// Version is what the store says of the version that all reads give.
	Version() objstore.Info
	// Fetch begins to bring pieces, as raster.Fetcher says.
	Fetch(ranges []raster.Range) (release func())
	// Pieces returns why the file can't be read piece by piece, Staging why it can't be brought as a whole; nil where it can.
	Pieces() error
	Staging() error
	// Here tells whether the whole is on local disk already.
	Here() bool
	// Stage begins to bring the whole, and returns at once; false: it is read in pieces after all. Wait waits until it is done; reads are local from then on.
	Stage() (bool, error)
	Wait(ctx context.Context) error
	// Done tells that no read will follow.
	Done() error
}

// Filed is a [Remote] that can be had as a local file: GDAL, which warps rasters that lie on another grid, opens files.
type Filed interface {
	// StageFile is Stage for a file whose LocalPath is wanted, which is good from when Wait has returned until Done.
	StageFile() (bool, error)
	LocalPath() (string, error)
}

// Store takes outputs whose Path is a URL. Errors name the URL without secrets.
type Store interface {
	// Check returns why nothing can be written there, as far as that can be told without writing.
	Check(ctx context.Context, url string) error
	// Exists tells whether there is such an object. Where the store does not tell, the error is fs.ErrPermission.
	Exists(ctx context.Context, url string) (bool, error)
	// Upload writes size bytes of r as an object: whole, or not at all.
	Upload(ctx context.Context, url string, r io.ReaderAt, size int64, o objstore.UploadOptions) error
}

// access is how a run reads a file.
type access uint8

const (
	accessLocal  access = iota // it is a local file
	accessNone                 // nothing of it is needed
	accessPieces               // pieces are fetched ahead
	accessWhole                // it is staged first
)

func (a access) String() string { return [...]string{"local", "not read", "in pieces", "staged"}[a] }

// manyAtOnce bounds what is asked of stores at the same time while a job is prepared, where each answer takes long and little work.
const manyAtOnce = 16

// openLocal is Open for a Job without one of its own.
func openLocal(_ context.Context, path string) (raster.Source, error) {
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
	f.needs = raster.RangeBytes(ranges)
	share := sizeText(f.needs) + " of " + sizeText(f.info.FileBytes)
	noPieces := f.remote.Pieces()
	v := f.remote.Version()
	mixed := v.ETag == "" && v.ModTime.IsZero() // pieces may be of several versions, and nobody would see it
	switch {
	case f.needs == 0 && len(ranges) == 0:
		f.access, f.why = accessNone, "nothing of it is needed"
		return nil
	case noPieces == nil && f.needs < f.info.FileBytes/2 && !mixed && f.remote.Here():
		f.access, f.why = accessWhole, "the job needs "+share+", and it is on the local disk already"
		return nil
	case noPieces == nil && f.needs < f.info.FileBytes/2 && !mixed:
		f.access, f.why = accessPieces, "the job needs "+share
		return nil
	}
	noStage := f.remote.Staging()
	switch {
	case noStage == nil && f.warp != nil:
		f.access, f.why = accessWhole, "it is warped from the local disk"
	case noStage == nil && noPieces != nil:
		f.access, f.why = accessWhole, fmt.Sprintf("the job needs %s, and its server gives no parts", share)
	case noStage == nil && mixed:
		f.access, f.why = accessWhole, fmt.Sprintf("the job needs %s, and its server tells no version of it", share)
	case noStage == nil:
		f.access, f.why = accessWhole, "the job needs "+share
	case noPieces == nil:
		f.mixed = mixed
		f.access, f.why = accessPieces, fmt.Sprintf("the job needs %s, and it can't be staged: %v", share, noStage)
	default:
		return fmt.Errorf("input %s: %w, and it can't be brought to local disk: %w", f.input, noPieces, noStage)
	}
	return nil
}

// notes are what people should know of how files are read.
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
		return []string{fmt.Sprintf("%s is read in pieces, and its server tells no version of it: if it is replaced meanwhile, that may go unnoticed; a stage would help (--stage-dir)", mixed[0].path)}
	}
	return []string{fmt.Sprintf("%d inputs, %s the first of them, are read in pieces, and their servers tell no versions of them: if one is replaced meanwhile, that may go unnoticed; a stage would help (--stage-dir)", len(mixed), mixed[0].path)}
}

// rangesOf are the pieces of the file that reading window w of the job's grid takes.
func (f *inputFile) rangesOf(ctx context.Context, w block.Window) ([]raster.Range, error) {
	have := w.Intersect(f.extent())
	if have.Empty() || len(f.layers) == 0 {
		return nil, nil
	}
	bands := f.layers
	if f.alpha > 0 {
		bands = append(slices.Clone(bands), f.alpha)
	}
	return f.remote.Ranges(ctx, bands, have.Shift(f.dc, f.dr), f.masked && f.alpha == 0)
}

// needed reports whether a block has pixels of the file.
func (f *inputFile) needed(b block.Block, p block.Plan) bool {
	return len(f.layers) > 0 && !b.Window.Grow(p.Overlap).Intersect(f.extent()).Empty()
}

// stage begins to bring the files that are read as a whole, in the order in which blocks need them, and counts the blocks that need each remote file.
func (r *run) stage() error {
	type staging struct {
		f     *inputFile
		first int // block that needs it
	}
	var order []staging
	for _, f := range r.in.files {
		if f.remote == nil || len(f.layers) == 0 {
			continue
		}
		first := -1 // that needs it
		for n := range r.reads(f.extent()) {
			first = n
			break
		}
		if first < 0 {
			continue
		}
		f.left.Store(int64(r.touching(f.extent())))
		if f.access == accessWhole {
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
			s.f.access = accessPieces
		}
	}
	return nil
}

// wait waits until the files that a block needs are there.
func (in *inputs) wait(ctx context.Context, b block.Block, p block.Plan) error {
	for _, f := range in.files {
		if f.access == accessWhole && f.needed(b, p) {
			if err := f.remote.Wait(ctx); err != nil {
				return fmt.Errorf("input %s: %w", f.input, err)
			}
		}
	}
	return nil
}

// done tells remote files that the last block that needs them has been read.
func (in *inputs) done(b block.Block, p block.Plan) error {
	var errs []error
	for _, f := range in.files {
		if f.remote != nil && f.needed(b, p) && f.left.Add(-1) == 0 {
			errs = append(errs, f.remote.Done())
		}
	}
	return errors.Join(errs...)
}

// waits reports whether a file that a block needs has to be waited for.
func (in *inputs) waits() bool {
	return slices.ContainsFunc(in.files, func(f *inputFile) bool { return f.access == accessWhole })
}
