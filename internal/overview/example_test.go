package overview_test

import (
	"fmt"

	"leat/internal/overview"
	"leat/ndarray"
)

// ExampleReduce computes the mean of each cell of 2 x 2 pixels, without those that are nodata.
func ExampleReduce() {
	nodata := ndarray.ScalarOf[int16](-1)
	pixels := []int16{
		1, 3, -1, -1,
		5, 7, -1, 10,
		2, 2, -1, -1,
	}
	src := overview.Plane{Type: ndarray.Int16, Width: 4, Height: 3, Stride: 4, Data: ndarray.BytesOf(pixels)}
	out := make([]int16, overview.Reduced(4, 2)*overview.Reduced(3, 2))
	if err := overview.Reduce(overview.Average, ndarray.BytesOf(out), src, 2, &nodata); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(out)
	// Output: [4 10 2 -1]
}
