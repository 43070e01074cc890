package apply

import (
	"context"
	"errors"

	"leat/apply"
	"leat/ndarray"
)

// focalRadius gives windows of 11 x 11.
const focalRadius = 5

// focalScratch is what one worker keeps.
type focalScratch struct{ columns []float64 }

// focalMean sets output "mean" to the mean of the 11 x 11 pixels around each pixel of input "in"
// (float32), of those of them that lie in the raster; every value counts. Sums are float64, the
// mean is rounded once to float32.
//
// Each column keeps the sum of 11 rows, and each row runs over the sums of 11 columns, so that a
// pixel costs two additions and two subtractions whatever the radius. Sums of floats that run on
// may round otherwise than sums from scratch; those of reflectances with four decimals are exact in
// float64 and do not.
func focalMean(_ context.Context, b *apply.Block) error {
	const r = focalRadius
	if b.Overlap() != r {
		return errors.New("focalMean needs an overlap of 5")
	}
	rows, width := b.Window.Height, b.Columns()
	in, out := apply.Band[float32](b, "in", 1), b.NewOut(ndarray.Float32, 1)
	b.SetOut("mean", out)
	dst := ndarray.Slice[float32](out.At(0))
	s := b.State().(*focalScratch)
	if len(s.columns) < width {
		s.columns = make([]float64, width)
	}
	columns := s.columns[:width]
	clear(columns)
	for y := range 2 * r {
		for x, v := range in[y*width : (y+1)*width] {
			columns[x] += float64(v)
		}
	}
	grid := b.Grid()
	across := places(b.Window.Col, b.Window.Width, grid.Width)
	below := places(b.Window.Row, rows, grid.Height)
	for y := range rows {
		for x, v := range in[(y+2*r)*width:][:width] {
			columns[x] += float64(v)
		}
		meanRow(dst[(y+r)*width+r:][:b.Window.Width], columns, across, below[y])
		for x, v := range in[y*width:][:width] {
			columns[x] -= float64(v)
		}
	}
	return nil
}

// meanRow divides the sums of 11 columns around each place by the number of pixels there. columns
// begin one radius before dst.
func meanRow(dst []float32, columns, across []float64, below float64) {
	const n = 2*focalRadius + 1
	sum := 0.0
	for _, c := range columns[:n-1] {
		sum += c
	}
	enter, across := columns[n-1:][:len(dst)], across[:len(dst)]
	leave := columns[:len(dst)]
	for x := range dst {
		sum += enter[x]
		dst[x] = float32(sum / (across[x] * below))
		sum -= leave[x]
	}
}

// places counts, for n places from first on, how many of the 11 around each lie in 0..size-1.
func places(first, n, size int) []float64 {
	c := make([]float64, n)
	for i := range c {
		at := first + i
		c[i] = float64(min(at+focalRadius, size-1) - max(at-focalRadius, 0) + 1)
	}
	return c
}

// focalJob is the job of the focal case.
func focalJob(in, out string) apply.Job {
	return apply.Job{
		Inputs:   map[string]apply.Input{"in": apply.File(in)},
		Outputs:  map[string]apply.Output{"mean": {Path: out, NoOverviews: true, NoStatistics: true}},
		Func:     focalMean,
		Setup:    func(context.Context, apply.WorkerInfo) (any, error) { return new(focalScratch), nil },
		Controls: apply.Controls{Overlap: focalRadius},
	}
}
