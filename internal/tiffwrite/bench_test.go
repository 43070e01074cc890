package tiffwrite

import (
	"hash/adler32"
	"math"
	"math/rand/v2"
	"testing"

	"leat/ndarray"
)

// ndviTile returns a tile similar to an NDVI: a ratio of two noisy scenes, 512x512 float32.
func ndviTile() []byte {
	r := rand.New(rand.NewPCG(1, 2))
	f := make([]float32, 512*512)
	for i := range f {
		x, y := float64(i%512), float64(i/512)
		red := math.Round(7000 + 900*math.Sin(x/40)*math.Cos(y/55) + 40*r.NormFloat64())
		nir := math.Round(11000 + 2500*math.Sin(x/70+1)*math.Cos(y/33) + 60*r.NormFloat64())
		f[i] = (float32(nir) - float32(red)) / (float32(nir) + float32(red))
	}
	return ndarray.BytesOf(f)
}

// sceneTile returns a tile similar to a band of a scene: 512x512 uint16.
func sceneTile() []byte {
	r := rand.New(rand.NewPCG(3, 4))
	v := make([]uint16, 512*512)
	for i := range v {
		x, y := float64(i%512), float64(i/512)
		v[i] = uint16(7000 + 900*math.Sin(x/40)*math.Cos(y/55) + 25*r.NormFloat64())
	}
	return ndarray.BytesOf(v)
}

func BenchmarkEncode(b *testing.B) {
	for _, in := range []struct {
		name string
		typ  ndarray.DType
		tile []byte
	}{{"ndvi-float32-512x512", ndarray.Float32, ndviTile()}, {"scene-uint16-512x512", ndarray.Uint16, sceneTile()}} {
		for _, c := range compressionNames() {
			coding := defaultCoding(in.typ, c)
			b.Run(in.name+"/"+coding.String(), func(b *testing.B) {
				e := NewEncoder(TileShape{in.typ, 512, 512, 1}, coding)
				var out []byte
				b.SetBytes(int64(len(in.tile)))
				b.ReportAllocs()
				for b.Loop() {
					var err error
					if out, err = e.Encode(out[:0], in.tile); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(100*float64(len(out))/float64(len(in.tile)), "%size")
			})
		}
	}
}

func BenchmarkPredictors(b *testing.B) {
	tile := ndviTile()
	dst, row := make([]byte, len(tile)), make([]byte, 2048)
	b.Run("float32", func(b *testing.B) {
		b.SetBytes(int64(len(tile)))
		for b.Loop() {
			for at := 0; at < len(tile); at += len(row) {
				floatRow(dst[at:at+len(row)], tile[at:at+len(row)], row, 1, 4)
			}
		}
	})
	b.Run("float64", func(b *testing.B) {
		b.SetBytes(int64(len(tile)))
		for b.Loop() {
			for at := 0; at < len(tile); at += len(row) {
				floatRow(dst[at:at+len(row)], tile[at:at+len(row)], row, 1, 8)
			}
		}
	})
	b.Run("uint16", func(b *testing.B) {
		b.SetBytes(int64(len(tile)))
		for b.Loop() {
			for at := 0; at < len(tile); at += len(row) {
				differenceRow(dst[at:at+len(row)], tile[at:at+len(row)], 2, 2)
			}
		}
	})
	b.Run("adler32", func(b *testing.B) {
		b.SetBytes(int64(len(tile)))
		for b.Loop() {
			adler32.Checksum(tile)
		}
	})
}
