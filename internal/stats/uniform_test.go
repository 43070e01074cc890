package stats

import (
	"encoding/binary"
	"math"
	"slices"
	"testing"

	"leat/ndarray"

	"pgregory.net/rapid"
)

// TestTileMatchesPlainSums compares Tile and Add, which treat rows of one value apart and know
// which counters they used, with summarize and with a count of each pixel. The moments must be
// equal to the bit, and no counter may be missing.
func TestTileMatchesPlainSums(t *testing.T) {
	zero := math.Copysign(0, -1)
	tileMatches[uint8](t, 0, 3, 255)
	tileMatches[int8](t, -128, 0, 127)
	tileMatches[uint16](t, 0, 300, 65535)
	tileMatches[int16](t, -32768, -1, 32767)
	tileMatches[int32](t, -70000, 0, 5)
	tileMatches(t, float32(zero), 0, -1.5, 2, float32(math.Inf(1)), float32(math.NaN()))
	tileMatches(t, zero, 0, 1e-300, -1e-300, 1e300)
}

func tileMatches[T ndarray.Real](t *testing.T, values ...T) {
	t.Helper()
	typ := ndarray.TypeOf[T]()
	rapid.Check(t, func(rt *rapid.T) {
		w := rapid.SampledFrom([]int{1, 2, 7, 96, chunk, chunk + 1}).Draw(rt, "width")
		h := rapid.IntRange(1, 9).Draw(rt, "height")
		row := rapid.SliceOfN(rapid.SampledFrom(values), 1, 5)
		var px []T
		for range h {
			period := row.Draw(rt, "row")
			for x := range w {
				px = append(px, period[x%len(period)])
			}
		}
		var nodata *ndarray.Scalar
		if rapid.Bool().Draw(rt, "nodata") {
			s := ndarray.ScalarOf(values[0])
			nodata = &s
		}
		c := NewCollector(typ, nodata, true)
		plain, counts := newHistogram(typ), make([]uint32, counters(typ))
		for range 2 { // the second tile finds the counters of the first emptied
			var want Moments
			clear(counts)
			for y := range h {
				for part := range slices.Chunk(px[y*w:(y+1)*w], chunk) {
					want.Total += int64(len(part))
					kept := slices.DeleteFunc(slices.Clone(part), func(v T) bool {
						return nodata != nil && v == values[0]
					})
					want.Merge(summarize(kept, plain))
				}
			}
			for _, v := range px {
				if v-v == 0 && (nodata == nil || v != values[0]) {
					counts[counter(typ, float64(v))]++
				}
			}
			first := rapid.IntRange(0, h).Draw(rt, "first rows")
			got := c.Tile(ndarray.BytesOf(px[:first*w]), nil, w, first, w, 1)
			c.Add(&got, ndarray.BytesOf(px[first*w:]), nil, w, h-first, w, 1)
			if bits(got) != bits(want) {
				rt.Fatalf("%v: %+v, expected %+v", px, got, want)
			}
			encoded := c.AppendHistogram(nil)
			if !slices.Equal(decodeCounts(t, encoded, len(counts)), counts) {
				rt.Fatalf("%v: the histogram differs", px)
			}
		}
	})
}

func counter(t ndarray.DType, v float64) int {
	if exact(t) {
		lowest, _ := bounds(t, 0)
		return int(v - lowest)
	}
	return counterOf(float32(v))
}

// bits returns the moments with floats as bits, so that -0 differs from 0.
func bits(m Moments) [8]uint64 {
	return [8]uint64{uint64(m.Total), uint64(m.Valid), uint64(m.NaN), uint64(m.Infinite), math.Float64bits(m.Min),
		math.Float64bits(m.Max), math.Float64bits(m.Mean), math.Float64bits(m.M2)}
}

func decodeCounts(t *testing.T, b []byte, n int) []uint32 {
	t.Helper()
	counts, at := make([]uint32, n), 0
	next := func() int {
		v, k := binary.Uvarint(b)
		if k <= 0 {
			t.Fatal("the histogram is torn")
		}
		b = b[k:]
		return int(v)
	}
	for range next() {
		at += next()
		counts[at] = uint32(next())
	}
	return counts
}
