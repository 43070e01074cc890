package output

import (
	"context"
	"errors"
	"fmt"
	"os"

	"leat/apply/internal/jobspec"
	"leat/apply/internal/spool"
	"leat/apply/outcome"
	"leat/internal/stats"
	"leat/internal/tempfile"
	"leat/internal/tiffwrite"
	"leat/ndarray"
	"leat/raster"
)

// table is the format of outputs without pixels. The records in their spools hold emitted values
// alone, and the job writes the file from what it merged of them.
type table struct{}

// TableType and TableBands are the type and the number of bands that spools of outputs without
// pixels give.
const (
	TableType  = ndarray.Uint8
	TableBands = 1
)

// tableAlign is the unit of the sides of blocks of a run without rasters.
const tableAlign = 64

func (table) complete(o *Output) []error {
	if o.Spec.Path == "" {
		return []error{fmt.Errorf("output %s: %w", o.Name, jobspec.Errorf("Output.Path", "no file is given"))}
	}
	return nil
}

func (table) find(*Output) error { return nil }

func (table) takeOverviews(*Output, []int) []int { return nil }

func (table) laterFactors() []int { return nil }

func (table) candidates(*Output, ndarray.DType) ([]tiffwrite.Coding, error) {
	return []tiffwrite.Coding{{Compression: tiffwrite.None, Predictor: 1}}, nil
}

func (table) codingText(o *Output) string { return o.Spec.Table.Format }

func (table) sample(context.Context, *Output, raster.Grid) error { return nil }

func (table) files() []string { return nil }

func (table) notes() []outcome.Note { return nil }

// grid returns an empty one: nothing of it is stored.
func (table) grid(raster.Grid) raster.Grid { return raster.Grid{} }

func (table) bins(_ *Output, b stats.Bins) stats.Bins { return b }

func (table) holdsColors(*Output) bool { return false }

func (table) memory(*Output, raster.Grid, int64) memory { return memory{} }

func (table) layOut(ctx context.Context, w *Writer) (Finished, error) {
	defer w.timings.Start("laying out", "main", -1).Stop()
	f := &finishedTable{w: w, sidecars: w.Spec.Table.Sidecars,
		res: outcome.OutputResult{Name: w.Name, Path: w.Spec.Label(), Format: w.Spec.FormatName(), Table: true}}
	var err error
	if f.file, err = tempfile.Create(w.Spec.localPath(), 0o666); err != nil {
		return nil, err
	}
	if err = w.Spec.Table.Write(ctx, f.file.File); err == nil {
		var st os.FileInfo
		if st, err = f.file.Stat(); err == nil {
			f.res.Bytes = st.Size()
			return f, nil
		}
	}
	return nil, errors.Join(spool.WriteError(w.Spec.Label(), w.Spec.localPath(), err), f.file.Abort())
}

// finishedTable is an output of one file without pixels, which has no name yet.
type finishedTable struct {
	w        *Writer
	file     *tempfile.File
	sidecars []string // suffixes of files that belong to an older output
	res      outcome.OutputResult
}

func (f *finishedTable) Result() *outcome.OutputResult { return &f.res }

// Publish removes the sidecars of the old file and publishes the new one.
func (f *finishedTable) Publish() error {
	o := f.w
	if err := o.checkClobber(); err != nil {
		return err
	}
	if err := o.removeSidecars(f.sidecars); err != nil {
		return err
	}
	return o.publish(f.file)
}

// Upload writes the file to the output's store.
func (f *finishedTable) Upload(ctx context.Context, store Store) error {
	return f.w.upload(ctx, store, f.file, f.res.Bytes, nil)
}

func (f *finishedTable) Keepable() bool { return true }

// Keep gives the file the output's name, or a similar one if that is taken.
func (f *finishedTable) Keep() (string, error) {
	return f.file.CommitNumbered(func(string) bool { return false })
}

func (f *finishedTable) Discard() error { return f.file.Abort() }
