package stats_test

import (
	"fmt"

	"leat/internal/stats"
	"leat/ndarray"
)

// Example merges the statistics of two tiles, as if two goroutines had collected them.
func Example() {
	nodata := ndarray.ScalarOf[uint16](0)
	c := stats.NewCollector(ndarray.Uint16, &nodata, true)
	var all stats.Moments
	totals := stats.NewTotals(ndarray.Uint16)
	for _, tile := range [][]uint16{{0, 10, 20, 30}, {30, 40, 0, 50}} {
		all.Merge(c.Tile(ndarray.BytesOf(tile), nil, 2, 2, 2, 1))
		if _, err := totals.Add(c.AppendHistogram(nil)); err != nil {
			fmt.Println(err)
			return
		}
	}
	fmt.Printf("%d of %d valid, %v to %v, mean %v, standard deviation %.2f\n", all.Valid, all.Total, all.Min, all.Max,
		all.Mean, all.StdDev())
	fmt.Println("median", totals.Quantile(0.5, all), "mode", totals.Mode(all))
	// Output:
	// 6 of 8 valid, 10 to 50, mean 30, standard deviation 12.91
	// median 30 mode 30
}
