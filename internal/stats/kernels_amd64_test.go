package stats

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"leat/internal/guardtest"
	"leat/ndarray"
)

// TestVectorSumsEqualGoLoops compares moments and histograms of pixels between pages that can't be
// read, by vector routines and by Go loops. It tries all lengths around those that the routines
// take, values whose sums lose bits, and values that are equal by == but not in their bits.
func TestVectorSumsEqualGoLoops(t *testing.T) {
	if !hasAVX2 {
		t.Skip("the processor has no AVX2")
	}
	inf, nan, zero := math.Inf(1), math.NaN(), math.Copysign(0, -1)
	vectorSums[uint8](t, 0, 1, 254, 255)
	vectorSums[int8](t, -128, -127, -1, 0, 1, 127)
	vectorSums[uint16](t, 0, 1, 32767, 32768, 65535)
	vectorSums[int16](t, -32768, -1, 0, 1, 32767)
	vectorSums[int32](t, math.MinInt32, -1, 0, math.MaxInt32)
	vectorSums(t, 0, float32(zero), 1, -1, 1e-45, 3e38, -3e38, float32(inf), -float32(inf), float32(nan))
	vectorSums(t, 0, zero, 1, -1, 5e-324, 1e39, 1e308, -1e308, inf, -inf, nan)
}

func vectorSums[T ndarray.Real](t *testing.T, special ...T) {
	t.Helper()
	size := ndarray.TypeOf[T]().Size()
	memory := guardtest.New(chunk * size)
	random := rand.New(rand.NewPCG(5, 6))
	// Few values, so that many chunks have no NaN, only zeros, or begin with either zero.
	for _, kinds := range [][]T{nil, special, special[:2], special[len(special)-1:]} {
		for n := range chunk + 1 {
			if n > 70 && n < chunk-20 && n%61 != 0 {
				continue
			}
			for _, b := range [][]byte{memory.First(n * size), memory.Last(n * size)} {
				px := ndarray.Cast[T](b)
				for i := range px {
					if kinds == nil {
						px[i] = T(random.IntN(40000)) / 7
					} else {
						px[i] = kinds[random.IntN(len(kinds))]
					}
				}
				if n > 0 && kinds != nil && n%2 == 0 { // a whole chunk without most special values
					for i := range px {
						px[i] = kinds[random.IntN(min(2, len(kinds)))]
					}
				}
				compareSums(t, px)
			}
		}
	}
}

// compareSums compares the results of vector routines and Go loops, of the pixels in one row and in
// several.
func compareSums[T ndarray.Real](t testing.TB, px []T) {
	t.Helper()
	for _, height := range []int{1, 5, 8} {
		width := len(px) / height
		compareRows(t, px[len(px)-width*height:], width, height, width)
		if narrow := width - width/3; narrow < width {
			compareRows(t, px[len(px)-width*(height-1)-narrow:], narrow, height, width)
		}
	}
}

func compareRows[T ndarray.Real](t testing.TB, px []T, width, height, stride int) {
	t.Helper()
	for _, histogram := range []bool{true, false} {
		c := NewCollector(ndarray.TypeOf[T](), nil, histogram)
		sums := func() (m Moments, h []byte) {
			m = c.Tile(ndarray.BytesOf(px), nil, width, height, stride, 1)
			return m, c.AppendHistogram(nil)
		}
		got, counts := sums()
		hasAVX2 = false
		want, wantCounts := sums()
		hasAVX2 = true
		if bits(got) != bits(want) || !slices.Equal(counts, wantCounts) {
			t.Fatalf("%T, %d rows, %d pixels: %+v instead of %+v; histograms equal: %v\n%v", px, height, len(px), got,
				want, slices.Equal(counts, wantCounts), px[:min(len(px), 50)])
		}
	}
}

func FuzzVectorSums(f *testing.F) {
	if !hasAVX2 {
		f.Skip("the processor has no AVX2")
	}
	f.Add([]byte("0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdefg"))
	f.Add(make([]byte, 8*chunk))
	f.Fuzz(func(t *testing.T, b []byte) {
		b = ndarray.BytesOf(floats(b))
		compareSums(t, ndarray.Cast[uint8](b))
		compareSums(t, ndarray.Cast[int8](b))
		compareSums(t, ndarray.Cast[uint16](b))
		compareSums(t, ndarray.Cast[int16](b))
		compareSums(t, ndarray.Cast[float32](b))
		compareSums(t, ndarray.Cast[float64](b))
	})
}

// floats returns bytes as aligned words, without the last ones that are not a whole word.
func floats(b []byte) []float64 {
	words := make([]float64, len(b)/8)
	copy(ndarray.BytesOf(words), b)
	return words
}
