package resolve

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"

	"leat/apply/outcome"
	"leat/internal/driver"

	"golang.org/x/sync/errgroup"

	"leat/apply/internal/jobspec"
	"leat/block"
	"leat/internal/gdal"
	"leat/internal/geotiff"
	"leat/internal/npy"
	"leat/internal/units"
	"leat/raster"
)

// ManyAtOnce bounds the concurrent requests to stores while a job is prepared: each takes long and
// little work.
const ManyAtOnce = 16

// ChooseModes decides how each remote file is read if the job reads these windows of its grid.
func (in *Inputs) ChooseModes(ctx context.Context, windows iter.Seq[block.Window]) error {
	var g errgroup.Group
	g.SetLimit(ManyAtOnce)
	errs := make([]error, len(in.Files))
	for i, f := range in.Files {
		if f.Remote != nil {
			g.Go(func() error {
				errs[i] = f.chooseMode(ctx, windows)
				return nil
			})
		}
	}
	_ = g.Wait()
	return errors.Join(errs...)
}

func (f *File) chooseMode(ctx context.Context, windows iter.Seq[block.Window]) error {
	f.mixed = false // an earlier choice was for other blocks
	var ranges []raster.Range
	seen := map[raster.Range]bool{}
	for w := range windows {
		list, err := f.RangesOf(ctx, w)
		if err != nil {
			return fmt.Errorf("input %s: %w", f.Name, err)
		}
		for _, r := range list {
			if !seen[r] {
				seen[r] = true
				ranges = append(ranges, r)
			}
		}
	}
	f.BytesNeeded = driver.RangeBytes(ranges)
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
		f.Mode, f.ReadReason = jobspec.ReadStaged, fmt.Sprintf("the job needs %s, and its server sends no parts of files", share)
	case noStage == nil && mixed:
		f.Mode, f.ReadReason = jobspec.ReadStaged,
			fmt.Sprintf("the job needs %s, and its server reports no version of it", share)
	case noStage == nil:
		f.Mode, f.ReadReason = jobspec.ReadStaged, "the job needs "+share
	case noPieces == nil:
		f.mixed = mixed
		f.Mode, f.ReadReason = jobspec.ReadPieces, fmt.Sprintf("the job needs %s, and it can't be staged: %v", share, noStage)
	default:
		return fmt.Errorf("input %s: %w, and it can't be staged: %w", f.Name, noPieces, noStage)
	}
	return nil
}

// maxNotes is how many files are named in warnings of the same kind.
const maxNotes = 3

// warnings returns what the files themselves are warned of, such as georeferencing that is not
// read.
func (in *Inputs) warnings() []outcome.Note {
	var list []outcome.Note
	odd := 0
	for _, f := range in.Files {
		if len(f.Info.Warnings) == 0 {
			continue
		}
		if odd++; odd <= maxNotes {
			list = append(list, outcome.Note{
				Text: fmt.Sprintf("input %s (%s): %s", f.Name, f.Path, strings.Join(f.Info.Warnings, "; "))})
		}
	}
	if odd > maxNotes {
		list = append(list, outcome.Note{Field: "Input.Files", Text: fmt.Sprintf("%d more inputs have warnings", odd-maxNotes)})
	}
	return list
}

// notes returns notes on how the files are read.
func (in *Inputs) notes() []outcome.Note {
	var mixed []*File
	for _, f := range in.Files {
		if f.mixed {
			mixed = append(mixed, f)
		}
	}
	note := outcome.Note{Field: "Input.Source"}
	switch len(mixed) {
	case 0:
		return nil
	case 1:
		note.Text = fmt.Sprintf("%s is read in pieces, and its server reports no version of it: if it is replaced meanwhile, that may go unnoticed",
			mixed[0].Path)
	default:
		note.Text = fmt.Sprintf("%d inputs, %s the first of them, are read in pieces, and their servers report no versions of them: if one is replaced meanwhile, that may go unnoticed",
			len(mixed), mixed[0].Path)
	}
	return []outcome.Note{note}
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

// MayWait reports whether the file is a source of the caller's own, read without a warp: its reads
// may wait long for their data.
func (f *File) MayWait() bool {
	switch f.Source.(type) {
	case *geotiff.File, *npy.File, *gdal.File, Remote:
		return false
	}
	return f.Warp == nil && len(f.Layers) > 0
}

// Needed reports whether a block contains pixels of the file.
func (f *File) Needed(b block.Block, p block.Plan) bool {
	return len(f.Layers) > 0 && !b.Window.Grow(p.Overlap).Intersect(f.Extent()).Empty()
}
