package gdal

import (
	"testing"

	"leat/ndarray"
)

func BenchmarkOpenAndClose(b *testing.B) {
	need(b, "GTiff")
	path := write(b, "a.tif", &Spec{Driver: "GTiff", Grid: utm(20, 20), Bands: 1, Type: ndarray.Uint8},
		ndarray.New(ndarray.Uint8, 1, 20, 20))
	for b.Loop() {
		f, err := Open(path, nil)
		if err != nil {
			b.Fatal(err)
		}
		if err := f.Close(); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkCall measures one small call of C.
func BenchmarkCall(b *testing.B) {
	need(b)
	for b.Loop() {
		c.CPLErrorReset()
	}
}
