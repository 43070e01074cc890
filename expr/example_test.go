package expr_test

import (
	"fmt"

	"leat/expr"
	"leat/ndarray"
)

// Example computes the vegetation index of four pixels. One is nodata in the red band.
func Example() {
	nodata := ndarray.ScalarOf[uint16](0)
	red := ndarray.FromSlice([]uint16{100, 200, 0, 300}, 2, 2)
	nir := ndarray.FromSlice([]uint16{300, 200, 500, 100}, 2, 2)
	r, err := expr.Eval("(nir - red) / (nir + red)", map[string]expr.Input{
		"red": {Pixels: red, Nodata: &nodata},
		"nir": {Pixels: nir, Nodata: &nodata},
	}, &expr.Options{Nodata: "-9"})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(r.Pixels.Type, r.Pixels.Shape, ndarray.Slice[float32](r.Pixels), r.Invalid, "invalid")
	// Output: float32 [1 2 2] [0.5 0 -9 -0.5] 1 invalid
}
