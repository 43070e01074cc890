package output

import (
	"context"
	"errors"
	"fmt"

	"leat/apply/internal/jobspec"
	"leat/apply/outcome"
	"leat/internal/stats"
	"leat/internal/tiffwrite"
	"leat/internal/units"
	"leat/ndarray"
	"leat/raster"
)

// format is how finished outputs are stored: native GeoTIFF, or a format that GDAL writes. Their
// spools are alike.
type format interface {
	// complete fills in defaults, and returns the errors in the options that can be found without
	// GDAL.
	complete(o *Output) []error
	// find looks the format up. A format that nothing can write is an error.
	find(o *Output) error
	// takeOverviews returns those of the factors whose overviews are made from blocks; the others
	// become laterFactors, made when the file is laid out.
	takeOverviews(o *Output, factors []int) []int
	laterFactors() []int
	candidates(o *Output, t ndarray.DType) ([]tiffwrite.Coding, error)
	codingText(o *Output) string
	// sample writes a sample of the output, which shows files and notes.
	sample(ctx context.Context, o *Output, grid raster.Grid) error
	files() []string
	notes() []outcome.Note
	// grid returns the grid that the file stores, bins the histogram, and holdsColors reports
	// whether it can hold the colour table of an input.
	grid(g raster.Grid) raster.Grid
	bins(o *Output, b stats.Bins) stats.Bins
	holdsColors(o *Output) bool
	memory(o *Output, grid raster.Grid, budget int64) memory
	layOut(ctx context.Context, w *Writer) (Finished, error)
}

// FindFormats looks the outputs' formats up and returns the errors in them.
func FindFormats(outs []*Output) error {
	var wrong, absent []error
	for _, o := range outs {
		if err := o.format.find(o); errors.As(err, new(*absentError)) {
			absent = append(absent, err)
		} else {
			wrong = append(wrong, err)
		}
	}
	return errors.Join(errors.Join(absent...), jobspec.JobErrors(wrong...))
}

// absentError is returned for a format whose library is not installed.
type absentError struct{ error }

func (e *absentError) Unwrap() error { return e.error }

// memory estimates what laying an output out takes.
type memory struct {
	bytes int64 // with caches as large as the budget allows
	most  int64 // that an output of this size can take
	zeros int64 // that the format takes whenever it creates a file; 0 if nothing notable
}

// LayoutMemory estimates the memory of laying the outputs out, and returns a note if that is more
// than the budget.
func LayoutMemory(outs []*Output, grid raster.Grid, budget int64) (bytes int64, note outcome.Note) {
	var all memory
	for _, o := range outs {
		m := o.format.memory(o, grid, budget)
		all = memory{max(all.bytes, m.bytes), max(all.most, m.most), max(all.zeros, m.zeros)}
	}
	if all.bytes == 0 {
		return 0, note
	}
	if n := max(all.bytes, all.zeros); n > budget {
		note.Text = fmt.Sprintf("GDAL, which writes the outputs, takes about %s with leat, more than the memory allowed (%s)",
			units.FormatSize(n), units.FormatSize(budget))
		if all.zeros > budget {
			note.Text += fmt.Sprintf(": %s of that are PCIDSK's, which takes less with INTERLEAVING=TILED",
				units.FormatSize(pcidskBytes))
			note.Field, note.Value = "Output.Options", "INTERLEAVING=TILED"
		}
	}
	return max(min(all.bytes, all.most), all.zeros), note
}
