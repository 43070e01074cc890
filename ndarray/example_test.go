package ndarray_test

import (
	"fmt"

	"leat/ndarray"
)

// Example views a slice as two bands of 2 rows and 3 columns, and changes one band in place.
func Example() {
	pixels := []uint16{1, 2, 3, 4, 5, 6, 10, 20, 30, 40, 50, 60}
	bands := ndarray.FromSlice(pixels, 2, 2, 3)
	second := bands.At(1) // a view of the same memory
	values := ndarray.Slice[uint16](second)
	for i := range values {
		values[i]++
	}
	fmt.Println(second.Type, second.Shape, pixels[6:])

	// Single values keep their type.
	nodata, err := ndarray.ParseScalar("-9999", ndarray.Int16)
	fmt.Println(nodata, nodata.Type, err)
	// Output:
	// uint16 [2 3] [11 21 31 41 51 61]
	// -9999 int16 <nil>
}
