package stats

import (
	"math"
	"math/rand/v2"
	"testing"

	"leat/ndarray"
)

// BenchmarkAdd summarizes a tile of 512 x 512 float32 in the cache, eight rows at a time.
func BenchmarkAdd(b *testing.B) {
	const side, rows = 512, 8
	r := rand.New(rand.NewPCG(1, 2))
	px := make([]float32, side*side)
	for i := range px {
		x, y := float64(i%side), float64(i/side)
		px[i] = float32(0.4 + 0.3*math.Sin(x/70)*math.Cos(y/90) + 0.02*r.NormFloat64())
	}
	tile := ndarray.BytesOf(px)
	for name, histogram := range map[string]bool{"moments": false, "moments and histogram": true} {
		c := NewCollector(ndarray.Float32, nil, histogram)
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(tile)))
			b.ReportAllocs()
			for b.Loop() {
				var m Moments
				for y := 0; y < side; y += rows {
					c.Add(&m, tile[4*y*side:], nil, side, rows, side, 1)
				}
			}
		})
	}
}
