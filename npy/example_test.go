package npy_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"leat/ndarray"
	"leat/npy"
	"leat/raster"
)

// Example writes a file that numpy.load reads, and reads a window of it as a raster.
func Example() {
	dir, err := os.MkdirTemp("", "npy")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "a.npy")
	b, err := npy.AppendHeader(nil, ndarray.Float32, 3, 4)
	if err == nil {
		b = append(b, ndarray.BytesOf([]float32{0, 1, 2, 3, 10, 11, 12, 13, 20, 21, 22, 23})...)
		err = os.WriteFile(path, b, 0o666)
	}
	if err != nil {
		fmt.Println(err)
		return
	}
	f, err := npy.Open(path)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer f.Close()
	w := raster.Window{Col: 1, Row: 1, Width: 2, Height: 2}
	dst := ndarray.New(f.Info().Bands[0].Type, 1, w.Height, w.Width)
	if err := f.Read(context.Background(), []int{1}, w, dst); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(dst.Type, ndarray.Slice[float32](dst))
	// Output: float32 [11 12 21 22]
}
