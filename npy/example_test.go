package npy_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"leat/ndarray"
	"leat/npy"
)

// Example writes an array of 2 rows and 3 columns as NumPy would, and reads it as a raster.
func Example() {
	dir, err := os.MkdirTemp("", "npy")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "heights.npy")

	heights := []float32{1, 2, 3, 4, 5, 6}
	h := npy.Header{Elem: npy.ElemOfDType(ndarray.Float32), Shape: []int{2, 3}}
	file, err := h.Append(nil, 64)
	if err != nil {
		log.Fatal(err)
	}
	// On little-endian machines the elements follow as they are in memory.
	if err := os.WriteFile(path, append(file, ndarray.BytesOf(heights)...), 0o644); err != nil {
		log.Fatal(err)
	}

	src, err := npy.Open(path)
	if err != nil {
		log.Fatal(err)
	}
	defer src.Close()
	grid := src.Info().Grid
	pixels := ndarray.New(src.Info().Bands[0].Type, 1, grid.Height, grid.Width)
	if err := src.Read(context.Background(), []int{1}, grid.Window(), pixels); err != nil {
		log.Fatal(err)
	}
	fmt.Println(grid.Width, grid.Height, ndarray.Slice[float32](pixels))
	// Output: 3 2 [1 2 3 4 5 6]
}
