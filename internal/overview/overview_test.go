package overview

import (
	"math"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"leat/ndarray"
)

func reduce[T ndarray.Element](t *testing.T, m Method, px []T, w, h, f int, nodata *ndarray.Scalar) []T {
	t.Helper()
	dst := make([]T, Reduced(w, f)*Reduced(h, f))
	src := Plane{ndarray.TypeOf[T](), w, h, w, ndarray.BytesOf(px), nil}
	if err := Reduce(m, ndarray.BytesOf(dst), src, f, nodata); err != nil {
		t.Fatal(err)
	}
	return dst
}

func scalar[T ndarray.Real](v T) *ndarray.Scalar { s := ndarray.ScalarOf(v); return &s }

func TestAverage(t *testing.T) {
	u8 := reduce(t, Average, []uint8{1, 2, 9, 0, 0, 9, 7, 0, 0}, 3, 3, 2, scalar[uint8](0))
	if d := cmp.Diff([]uint8{2, 9, 7, 0}, u8); d != "" {
		t.Error(d)
	}
	i16 := reduce(t, Average, []int16{-1, -2, -3, -3, 5, 6}, 2, 3, 2, nil)
	if d := cmp.Diff([]int16{-2, 6}, i16); d != "" { // -2.25 and 5.5
		t.Error(d)
	}
	big := reduce(t, Average, []uint64{math.MaxUint64, math.MaxUint64, math.MaxUint64, math.MaxUint64 - 1}, 2, 2, 2,
		nil)
	if big[0] != math.MaxUint64 {
		t.Error("the sum of 64-bit values wrapped:", big[0])
	}
	nan := float32(math.NaN())
	f := reduce(t, Average, []float32{1, nan, 2, nan, nan, nan}, 3, 2, 2, nil)
	if f[0] != 1 || f[1] != 2 {
		t.Error(f)
	}
	if f := reduce(t, Average, []float32{nan, nan}, 2, 1, 2, scalar[float32](-1)); f[0] != -1 {
		t.Error("a cell without a valid pixel is not nodata:", f)
	}
}

func TestAverageIsNeverNodata(t *testing.T) {
	if got := reduce(t, Average, []int16{-5, 5}, 2, 1, 2, scalar[int16](0)); got[0] != 1 {
		t.Error(got)
	}
	if got := reduce(t, Average, []uint8{254, 254, 254}, 3, 1, 3, scalar[uint8](255)); got[0] != 254 {
		t.Error(got)
	}
	if got := nextValue[uint8](255); got != 254 {
		t.Error(got)
	}
	if got := reduce(t, Average, []float32{-1, 1}, 2, 1, 2, scalar[float32](0)); !(got[0] > 0 && got[0] < 1e-40) {
		t.Error(got)
	}
}

func TestMode(t *testing.T) {
	got := reduce(t, Mode, []uint8{3, 2, 2, 3, 9, 9, 1, 9, 9}, 3, 3, 3, nil)
	if got[0] != 9 {
		t.Error(got)
	}
	if got := reduce(t, Mode, []int16{5, -5, -5, 5}, 2, 2, 2, nil); got[0] != -5 {
		t.Error(got)
	}
	if got := reduce(t, Mode, []uint8{0, 0, 0, 7}, 2, 2, 2, scalar[uint8](0)); got[0] != 7 {
		t.Error("nodata was counted:", got)
	}
}

func TestNearest(t *testing.T) {
	if d := cmp.Diff([]complex64{1, 3, 7, 9},
		reduce(t, Nearest, []complex64{1, 2, 3, 4, 5, 6, 7, 8, 9}, 3, 3, 2, nil)); d != "" {
		t.Error(d)
	}
}

func TestLevels(t *testing.T) {
	if d := cmp.Diff([]int{4, 8, 16, 32}, DefaultLevels(5490, 5490)); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff([]int(nil), DefaultLevels(512, 9000)); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff([]int{2, 4, 8, 16}, COGLevels(5490, 5490)); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff([]int(nil), COGLevels(512, 300)); d != "" {
		t.Error(d)
	}
}

func TestCenter(t *testing.T) {
	px := []uint16{
		1, 2, 3, 4, 5,
		6, 7, 8, 9, 10,
		11, 12, 13, 14, 15,
	}
	if d := cmp.Diff([]uint16{7, 9, 10, 12, 14, 15}, reduce(t, Center, px, 5, 3, 2, nil)); d != "" {
		t.Error(d) // the last column and row have no pixel at the centre
	}
	if d := cmp.Diff([]uint16{13, 15}, reduce(t, Center, px, 5, 3, 4, scalar[uint16](13))); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff([]complex64{4i}, reduce(t, Center, []complex64{1, 2, 3, 4i}, 2, 2, 2, nil)); d != "" {
		t.Error(d)
	}
	for m := Nearest; m <= Center; m++ {
		if got, err := ParseMethod(m.String()); got != m || err != nil {
			t.Error(got, err)
		}
	}
}

func TestNearestOfFourBytes(t *testing.T) {
	for w := 1; w <= 40; w++ {
		for _, stride := range []int{w, w + 3} {
			const h = 5
			px := make([]uint32, stride*(h-1)+w)
			for i := range px {
				px[i] = uint32(i)*0x01020305 + 7
			}
			got := make([]uint32, Reduced(w, 2)*3+1)
			src := Plane{Type: ndarray.Uint32, Width: w, Height: h, Stride: stride, Data: ndarray.BytesOf(px)}
			if err := Reduce(Nearest, ndarray.BytesOf(got[:len(got)-1]), src, 2, nil); err != nil {
				t.Fatal(err)
			}
			var want []uint32
			for y := 0; y < h; y += 2 {
				for x := 0; x < w; x += 2 {
					want = append(want, px[y*stride+x])
				}
			}
			if !slices.Equal(got, append(want, 0)) {
				t.Fatalf("width %d, stride %d: %v, expected %v", w, stride, got, want)
			}
		}
	}
}

// TestPickedPixels compares nearest and center with the expected pixel of each cell. A level that
// nearest makes from the level before must have the same pixels.
func TestPickedPixels(t *testing.T) {
	for w := 1; w <= 20; w++ {
		for h := 1; h <= 9; h++ {
			stride := w + h%3
			px := make([]uint16, stride*h)
			for i := range px {
				px[i] = uint16(i)
			}
			whole := Plane{Type: ndarray.Uint16, Width: w, Height: h, Stride: stride, Data: ndarray.BytesOf(px)}
			before := whole
			for _, f := range []int{2, 4, 8} {
				rw, rh := Reduced(w, f), Reduced(h, f)
				for _, m := range []Method{Nearest, Center} {
					at := 0
					if m == Center {
						at = f / 2
					}
					want := make([]uint16, 0, rw*rh)
					for y := range rh {
						for x := range rw {
							want = append(want, px[min(y*f+at, h-1)*stride+min(x*f+at, w-1)])
						}
					}
					got := make([]uint16, rw*rh)
					if err := Reduce(m, ndarray.BytesOf(got), whole, f, nil); err != nil || !slices.Equal(got, want) {
						t.Fatalf("%v, factor %d of %dx%d: %v, expected %v (%v)", m, f, w, h, got, want, err)
					}
					if m == Center {
						continue
					}
					if err := Reduce(m, ndarray.BytesOf(got), before, 2, nil); err != nil || !slices.Equal(got, want) {
						t.Fatalf("factor %d of %dx%d from the level before: %v, expected %v (%v)", f, w, h, got, want, err)
					}
					before = Plane{Type: ndarray.Uint16, Width: rw, Height: rh, Stride: rw, Data: ndarray.BytesOf(got)}
				}
			}
		}
	}
}
