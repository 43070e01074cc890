package expr

import (
	"math"
	"slices"
	"testing"

	"leat/ndarray"
)

// Storing a band replaces its invalid pixels. Later bands use the value that it had.
func TestBandsShareAValueWithInvalidPixels(t *testing.T) {
	in := Input{Files: []File{{Bands: []Band{{Type: ndarray.Float32}}}}}
	p, err := compileText("v = a / b; [v, v * 2, v, fill(v, 7)]", map[string]Input{"a": in, "b": in},
		&Options{Nodata: "-9999"})
	if err != nil {
		t.Fatal(err)
	}
	a := ndarray.BytesOf([]float32{0, 2, float32(math.NaN())})
	b := ndarray.BytesOf([]float32{0, 1, 1})
	dst := make([][]byte, p.Bands())
	for i := range dst {
		dst[i] = make([]byte, len(a))
	}
	var counts Counts
	if err := p.NewEvaluator().Eval([]Operand{{Data: a}, {Data: b}}, dst, 3, &counts); err != nil {
		t.Fatal(err)
	}
	for i, want := range [][]float32{{-9999, 2, -9999}, {-9999, 4, -9999}, {-9999, 2, -9999}, {7, 2, 7}} {
		if got := ndarray.Cast[float32](dst[i]); !slices.Equal(got, want) {
			t.Errorf("band %d: %v, expected %v", i+1, got, want)
		}
	}
	if want := (Counts{Pixels: 12, Invalid: 6, NaN: 3, FirstCollision: -1}); counts != want {
		t.Errorf("%+v, expected %+v", counts, want)
	}
}
