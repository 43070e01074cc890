package zonal

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"leat/block"
	"leat/ndarray"
)

func BenchmarkCover(b *testing.B) {
	const size = 1024
	for _, vertices := range []int{8, 200, 2000} {
		rng := rand.New(rand.NewPCG(9, 1))
		var polygons []*Polygon
		for range 100 { // each of about 100 x 100 pixels
			polygons = append(polygons, newPolygon(star(rng, size*rng.Float64(), size*rng.Float64(), 75, vertices, 0)))
		}
		for rule, name := range []string{"centre", "touch", "coverage"} {
			b.Run(fmt.Sprintf("%s/%d", name, vertices), func(b *testing.B) {
				var r Rasterizer
				var m Mask
				pixels := int64(0)
				for b.Loop() {
					pixels = 0
					for _, p := range polygons {
						r.Cover(p, block.Window{Width: size, Height: size}, Rule(rule), &m)
						for _, run := range m.Runs {
							pixels += int64(run.Len)
						}
					}
				}
				b.SetBytes(pixels) // 1 MB/s is a million pixels per second
				b.ReportAllocs()
			})
		}
	}
}

func BenchmarkCollect(b *testing.B) {
	const size = 256
	for _, typ := range []ndarray.DType{ndarray.Uint8, ndarray.Int16, ndarray.Float32, ndarray.Float64} {
		for _, stat := range []string{"mean", "std", "min", "median"} {
			b.Run(typ.String()+"/"+stat, func(b *testing.B) {
				stats, err := Parse(stat)
				if err != nil {
					b.Fatal(err)
				}
				spec, err := NewSpec(typ, ByCentre, stats)
				if err != nil {
					b.Fatal(err)
				}
				rng := rand.New(rand.NewPCG(10, 1))
				values, valid := randomValues(rng, typ, size)
				for i := range valid.Data {
					valid.Data[i] = 1
				}
				var m Mask
				new(Rasterizer).Cover(newPolygon(star(rng, size/2, size/2, size/2, 12, 0)),
					block.Window{Width: size, Height: size}, ByCentre, &m)
				pixels := int64(0)
				for _, run := range m.Runs {
					pixels += int64(run.Len)
				}
				c := NewCollector(spec)
				for b.Loop() {
					var st State
					if err := c.Add(&st, &m, values, valid); err != nil {
						b.Fatal(err)
					}
				}
				b.SetBytes(pixels)
				b.ReportAllocs()
			})
		}
	}
}
