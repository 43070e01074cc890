package ndarray_test

import (
	"fmt"

	"leat/ndarray"
)

// Example fills one of two bands of 2 x 3 pixels: a band is a view of the same memory.
func Example() {
	a := ndarray.New(ndarray.Int16, 2, 2, 3)
	band := ndarray.Slice[int16](a.At(1))
	for i := range band {
		band[i] = int16(10 + i)
	}
	fmt.Println(a.Type, a.Shape, a.Strides, ndarray.Slice[int16](a))
	nodata, err := ndarray.ParseScalar("-9999", a.Type)
	fmt.Println(nodata, err)
	// Output:
	// int16 [2 2 3] [12 6 2] [0 0 0 0 0 0 10 11 12 13 14 15]
	// -9999 <nil>
}
