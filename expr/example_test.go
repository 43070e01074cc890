package expr_test

import (
	"fmt"

	"leat/expr"
	"leat/ndarray"
)

// Example computes the vegetation index of four pixels. One is nodata in the red band.
func Example() {
	e, err := expr.Parse("(nir - red) / (nir + red)")
	if err != nil {
		fmt.Println(err)
		return
	}
	nodata := ndarray.ScalarOf[uint16](0)
	band := expr.Input{Files: []expr.File{{Bands: []expr.Band{{Type: ndarray.Uint16, Nodata: &nodata}}}}}
	p, err := expr.Compile(e, map[string]expr.Input{"red": band, "nir": band}, &expr.Options{Nodata: "-9"})
	if err != nil {
		fmt.Println(err)
		return
	}
	pixels := map[string][]uint16{"red": {100, 200, 0, 300}, "nir": {300, 200, 500, 100}}
	var src []expr.Operand
	for _, ref := range p.Refs() {
		src = append(src, expr.Operand{Data: ndarray.BytesOf(pixels[ref.Name])})
	}
	out := make([]float32, 4)
	var counts expr.Counts
	if err := p.NewEvaluator().Eval(src, [][]byte{ndarray.BytesOf(out)}, 4, &counts); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(p.Type(), out, counts.Invalid, "invalid")
	// Output: float32 [0.5 0 -9 -0.5] 1 invalid
}
