package stats

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"leat/ndarray"

	"pgregory.net/rapid"
)

// reference returns the moments of all values, computed at once.
func reference(v []float64) (mean, std float64) {
	for _, x := range v {
		mean += x / float64(len(v))
	}
	for _, x := range v {
		std += (x - mean) * (x - mean) / float64(len(v))
	}
	return mean, math.Sqrt(std)
}

func near(a, b float64) bool { return math.Abs(a-b) <= 1e-11*math.Max(1, math.Abs(b)) }

func TestMergedTilesEqualWhole(t *testing.T) {
	check[float32](t, func(r *rand.Rand) float32 { return 1e5 + r.Float32() })
	check[uint8](t, func(r *rand.Rand) uint8 { return uint8(r.Uint32()) })
	check[int16](t, func(r *rand.Rand) int16 { return int16(r.Uint32()) })
	check[float64](t, func(r *rand.Rand) float64 { return r.NormFloat64() * 1e6 })
	check[int32](t, func(r *rand.Rand) int32 { return int32(r.Uint32()) })
	check[uint64](t, func(r *rand.Rand) uint64 { return uint64(r.Uint32()) })
}

func check[T ndarray.Real](t *testing.T, draw func(*rand.Rand) T) {
	t.Helper()
	rapid.Check(t, func(rt *rapid.T) {
		w, h := rapid.IntRange(1, 1500).Draw(rt, "w"), rapid.IntRange(1, 5).Draw(rt, "h")
		step := rapid.IntRange(1, 3).Draw(rt, "step")
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 1))
		px := make([]T, w*h*step)
		for i := range px {
			px[i] = draw(r)
		}
		nodata := px[r.IntN(len(px))]
		s := ndarray.ScalarOf(nodata)
		c := NewCollector(ndarray.TypeOf[T](), &s, true)
		var valid []float64
		for i := 0; i < len(px); i += step {
			if px[i] != nodata {
				valid = append(valid, float64(px[i]))
			}
		}
		totals := NewTotals(ndarray.TypeOf[T]())
		var m Moments
		for y := range h { // one tile per row
			m.Merge(c.Tile(ndarray.BytesOf(px[y*w*step:(y+1)*w*step]), nil, w, 1, w*step, step))
			if rest, err := totals.Add(c.AppendHistogram(nil)); err != nil || len(rest) != 0 {
				rt.Fatal(err, rest)
			}
		}
		if m.Total != int64(w*h) || m.Valid != int64(len(valid)) {
			rt.Fatalf("%d of %d valid, expected %d of %d", m.Valid, m.Total, len(valid), w*h)
		}
		if len(valid) == 0 {
			return
		}
		mean, std := reference(valid)
		lo, hi := math.Inf(1), math.Inf(-1)
		for _, v := range valid {
			lo, hi = math.Min(lo, v), math.Max(hi, v)
		}
		if !near(m.Mean, mean) || math.Abs(m.StdDev()-std) > 1e-6*math.Max(std, 1e-3) || m.Min != lo || m.Max != hi {
			rt.Fatalf("mean %v std %v min %v max %v, expected %v %v %v %v", m.Mean, m.StdDev(), m.Min, m.Max, mean, std, lo,
				hi)
		}
		var n uint64
		for _, c := range totals.Bins(m).Counts {
			n += c
		}
		if n != uint64(len(valid)) {
			rt.Fatalf("bins hold %d pixels of %d", n, len(valid))
		}
	})
}

func TestNaNPixelsAreInvalid(t *testing.T) {
	nan := float32(math.NaN())
	c := NewCollector(ndarray.Float32, nil, true)
	m := c.Tile(ndarray.BytesOf([]float32{1, nan, 3, nan, nan, 8, 2, 1}), nil, 4, 2, 4, 1)
	if m.NaN != 3 || m.Valid != 5 || m.Min != 1 || m.Max != 8 || m.Mean != 3 {
		t.Fatalf("%+v", m)
	}
}

// TestNodataZeroHasNoSign holds for all floats: -0 is nodata where 0 is.
func TestNodataZeroHasNoSign(t *testing.T) {
	zero := math.Copysign(0, -1)
	check := func(typ ndarray.DType, pixels []byte) {
		nodata, err := ndarray.ParseScalar("0", typ)
		if err != nil {
			t.Fatal(err)
		}
		if m := NewCollector(typ, &nodata, true).Tile(pixels, nil, 3, 1, 3, 1); m.Valid != 1 || m.Min != 2 {
			t.Errorf("%v: %+v", typ, m)
		}
	}
	check(ndarray.Float32, ndarray.BytesOf([]float32{0, float32(zero), 2}))
	check(ndarray.Float64, ndarray.BytesOf([]float64{0, zero, 2}))
	check(ndarray.Float16, ndarray.BytesOf([]uint16{0, 0x8000, 0x4000}))
}

func TestHistogramCounterOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := rapid.Float32().Draw(t, "a"), rapid.Float32().Draw(t, "b")
		if a < b && counterOf(a) > counterOf(b) {
			t.Fatalf("%v is counted above %v", a, b)
		}
		lo, hi := bounds(ndarray.Float32, counterOf(a))
		if math.Min(lo, hi) > float64(a) || math.Max(lo, hi) < float64(a) {
			t.Fatalf("%v is counted in [%v, %v]", a, lo, hi)
		}
	})
}

func TestDamagedHistogram(t *testing.T) {
	h := newHistogram(ndarray.Uint8)
	h.counts[3], h.counts[200] = 7, 9
	h.touch(3, 200)
	b := h.appendTo(nil)
	for n := range b {
		if _, err := NewTotals(ndarray.Uint8).Add(b[:n]); err == nil {
			t.Errorf("the first %d of %d bytes were taken", n, len(b))
		}
	}
	if _, err := NewTotals(ndarray.Uint8).Add([]byte{1, 0xff, 7, 1}); err == nil {
		t.Error("a counter out of range was taken")
	}
}

func TestQuantileAndModeUint8(t *testing.T) {
	c := NewCollector(ndarray.Uint8, nil, true)
	m := c.Tile([]byte{1, 2, 2, 3, 9}, nil, 5, 1, 5, 1)
	totals := NewTotals(ndarray.Uint8)
	if _, err := totals.Add(c.AppendHistogram(nil)); err != nil {
		t.Fatal(err)
	}
	if q := totals.Quantile(0.5, m); q != 2 {
		t.Errorf("median %v", q)
	}
	if v := totals.Mode(m); v != 2 {
		t.Errorf("mode %v", v)
	}
	b := totals.Bins(m)
	if !b.Direct || len(b.Counts) != 9 || b.Counts[0] != 1 || b.Counts[1] != 2 || b.Counts[8] != 1 {
		t.Errorf("%+v", b)
	}
}

func BenchmarkTile(b *testing.B) {
	for _, h := range []bool{false, true} {
		name := "moments"
		if h {
			name = "moments and histogram"
		}
		b.Run(name+" float32 512x512", func(b *testing.B) {
			px := make([]float32, 512*512)
			for i := range px {
				px[i] = rand.Float32()*2 - 1
			}
			c := NewCollector(ndarray.Float32, nil, h)
			b.SetBytes(int64(len(px)) * 4)
			b.ReportAllocs()
			for b.Loop() {
				c.Tile(ndarray.BytesOf(px), nil, 512, 512, 512, 1)
			}
		})
		b.Run(name+" uint16 512x512", func(b *testing.B) {
			px := make([]uint16, 512*512)
			for i := range px {
				px[i] = uint16(rand.Uint32N(3000))
			}
			c := NewCollector(ndarray.Uint16, nil, h)
			b.SetBytes(int64(len(px)) * 2)
			b.ReportAllocs()
			for b.Loop() {
				c.Tile(ndarray.BytesOf(px), nil, 512, 512, 512, 1)
			}
		})
	}
}

func totalsOf[T ndarray.Real](t testing.TB, px []T) (*Totals, Moments) {
	t.Helper()
	c := NewCollector(ndarray.TypeOf[T](), nil, true)
	m := c.Tile(ndarray.BytesOf(px), nil, len(px), 1, len(px), 1)
	totals := NewTotals(ndarray.TypeOf[T]())
	if _, err := totals.Add(c.AppendHistogram(nil)); err != nil {
		t.Fatal(err)
	}
	return totals, m
}

// Medians and modes are within 1/128, whole for integers, and 0 for the counters of 0.
func TestQuantileAndModeWideTypes(t *testing.T) {
	ints, m := totalsOf(t, []int32{-5000, 336, 337, 337, 337, 337, 400, 90000})
	if q, v := ints.Quantile(0.5, m), ints.Mode(m); q != 337 || v != 337 {
		t.Errorf("of int32: median %v, mode %v", q, v)
	}
	floats, m := totalsOf(t, []float32{-5000, 337, 337, 337, 90000})
	if q, v := floats.Quantile(0.5, m), floats.Mode(m); q != 337 || v != 337 {
		t.Errorf("of float32: median %v, mode %v", q, v)
	}
	zeros, m := totalsOf(t, []float32{-1, 0, 0, 0, 5})
	if q, v := zeros.Quantile(0.5, m), zeros.Mode(m); q != 0 || v != 0 {
		t.Errorf("of zeros: median %v, mode %v", q, v)
	}
	large, m := totalsOf(t, []float64{-1e300, 1, 3.4e38, 3.4e38, 3.4e38, 1e300})
	if q := large.Quantile(0.5, m); math.Abs(q-3.4e38) > 3.4e38/128 {
		t.Errorf("of float64 at the end of float32: median %v", q)
	}
	checkQuantiles(t, func(r *rand.Rand) int32 { return int32(r.Uint32()) >> r.IntN(32) })
	checkQuantiles(t, func(r *rand.Rand) uint32 { return r.Uint32() >> r.IntN(32) })
	checkQuantiles(t, func(r *rand.Rand) int64 { return int64(r.Uint64()) >> r.IntN(64) })
	checkQuantiles(t, func(r *rand.Rand) float32 {
		return float32(r.NormFloat64() * math.Pow(2,
			float64(r.IntN(200)-100)))
	})
}

func checkQuantiles[T ndarray.Real](t *testing.T, draw func(*rand.Rand) T) {
	t.Helper()
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 1))
		px := make([]T, 1+r.IntN(50))
		for i := range px {
			px[i] = draw(r)
		}
		totals, m := totalsOf(t, px)
		slices.Sort(px)
		want := float64(px[(len(px)-1)/2])
		got := totals.Quantile(0.5, m)
		if math.Abs(got-want) > math.Abs(want)/128 {
			t.Fatalf("median %v, not about %v", got, want)
		}
		if ndarray.TypeOf[T]().IsInteger() && got != math.Trunc(got) {
			t.Fatalf("median %v of integers", got)
		}
		if mode := totals.Mode(m); mode < m.Min || mode > m.Max || ndarray.TypeOf[T]().IsInteger() &&
			mode != math.Trunc(mode) {
			t.Fatalf("mode %v of %v to %v", mode, m.Min, m.Max)
		}
	}
}

func TestInfinitePixelsExcluded(t *testing.T) {
	inf, nan := math.Inf(1), math.NaN()
	totals, m := totalsOf(t, []float64{1, inf, 3, nan, -inf, 8, inf})
	if m.Total != 7 || m.Valid != 3 || m.NaN != 1 || m.Infinite != 3 || m.Min != 1 || m.Max != 8 || m.Mean != 4 {
		t.Fatalf("%+v", m)
	}
	if p := m.ValidPercent(); math.Abs(p-600./7) > 1e-9 {
		t.Errorf("%v %% valid", p)
	}
	if q := totals.Quantile(0.5, m); math.Abs(q-3) > 3./128 {
		t.Errorf("median %v", q)
	}
	var n uint64
	for _, c := range totals.Bins(m).Counts {
		n += c
	}
	if n != 3 {
		t.Errorf("the bins hold %d pixels", n)
	}
	if _, m := totalsOf(t, []float32{float32(inf), float32(inf)}); m.Valid != 0 || m.Infinite != 2 ||
		m.ValidPercent() != 100 {
		t.Errorf("%+v", m)
	}
	if _, m := totalsOf(t, []float64{1.5e308, 1.5e308}); m.Mean != 1.5e308 || m.Infinite != 0 {
		t.Errorf("%+v", m)
	}
}

// TestDifferencesBeyondFloat64 has values whose differences from one another are infinite.
func TestDifferencesBeyondFloat64(t *testing.T) {
	values := make([]float64, 4*chunk)
	for i := range values {
		values[i] = 1.5e308
		if i < 3*chunk {
			values[i] = -1.5e308
		}
	}
	totals, m := totalsOf(t, values)
	if want := -0.75e308; math.Abs(m.Mean-want) > 1e295 {
		t.Errorf("mean %v, expected %v", m.Mean, want)
	}
	counts := totals.Bins(m).Counts
	if counts[0] != 3*chunk || counts[maxBins-1] != chunk {
		t.Errorf("%d and %d pixels in the first and the last bin", counts[0], counts[maxBins-1])
	}
}
