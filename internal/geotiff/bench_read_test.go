package geotiff

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"leat/internal/tiff"
	"leat/ndarray"
	"leat/raster"

	"github.com/klauspost/compress/zlib"
)

// sceneLike returns a width x height image of uint16 similar to a satellite band: slow changes,
// fields with edges, some noise.
func sceneLike(width, height int) []uint16 {
	r := rand.New(rand.NewPCG(3, 9))
	out := make([]uint16, width*height)
	for y := range height {
		for x := range width {
			v := 1500 + 900*math.Sin(float64(x)/97)*math.Cos(float64(y)/71) + 40*float64((x/31+y/23)%7)
			out[y*width+x] = uint16(v + r.NormFloat64()*12)
		}
	}
	return out
}

// tiffInMemory returns a little-endian tiled TIFF of uint16, compressed with deflate.
func tiffInMemory(t testing.TB, width, height, tile, predictor, samples int) []byte {
	pix := sceneLike(width*samples, height)
	var tiles [][]byte
	for row := 0; row < height; row += tile {
		for col := 0; col < width; col += tile {
			raw := make([]byte, tile*tile*samples*2)
			for y := range min(tile, height-row) {
				for x := range min(tile, width-col) * samples {
					v := pix[(row+y)*width*samples+col*samples+x]
					if predictor == 2 && x >= samples {
						v -= pix[(row+y)*width*samples+col*samples+x-samples]
					}
					binary.LittleEndian.PutUint16(raw[(y*tile*samples+x)*2:], v)
				}
			}
			var z bytes.Buffer
			w, err := zlib.NewWriterLevel(&z, 6)
			if err != nil {
				t.Fatal(err)
			}
			w.Write(raw)
			w.Close()
			tiles = append(tiles, z.Bytes())
		}
	}
	return handmade(binary.LittleEndian, []tag{
		{tiff.TagImageWidth, tiff.TypeLong, []uint64{uint64(width)}},
		{tiff.TagImageLength, tiff.TypeLong, []uint64{uint64(height)}},
		{tiff.TagBitsPerSample, tiff.TypeShort, repeat(16, samples)},
		{tiff.TagSamplesPerPixel, tiff.TypeShort, []uint64{uint64(samples)}},
		{tiff.TagCompression, tiff.TypeShort, []uint64{tiff.CompressionDeflate}},
		{tiff.TagPredictor, tiff.TypeShort, []uint64{uint64(predictor)}},
		{tiff.TagPhotometric, tiff.TypeShort, []uint64{tiff.PhotometricMinIsBlack}},
		{tiff.TagTileWidth, tiff.TypeLong, []uint64{uint64(tile)}},
		{tiff.TagTileLength, tiff.TypeLong, []uint64{uint64(tile)}},
	}, tiff.TagTileOffsets, tiff.TagTileByteCounts, tiles)
}

func benchmarkRead(b *testing.B, samples, window int, bands []int) {
	const size = 2048
	file := tiffInMemory(b, size, size, 512, 2, samples)
	f, err := openReader(bytes.NewReader(file), int64(len(file)), "bench.tif")
	if err != nil {
		b.Fatal(err)
	}
	dst := ndarray.New(ndarray.Uint16, len(bands), window, window)
	b.SetBytes(int64(size * size * 2 * len(bands)))
	b.ReportAllocs()
	for b.Loop() {
		for row := 0; row < size; row += window {
			for col := 0; col < size; col += window {
				if err := f.Read(b.Context(), bands, raster.Window{Col: col, Row: row, Width: window, Height: window},
					dst); err != nil {
					b.Fatal(err)
				}
			}
		}
	}
}

func BenchmarkReadDeflatePredictor2Uint16(b *testing.B) {
	for _, window := range []int{512, 1024, 2048} {
		b.Run(fmt.Sprintf("tile=512/window=%d", window), func(b *testing.B) { benchmarkRead(b, 1, window, []int{1}) })
	}
	b.Run("tile=512/pixel-interleaved/bands=3", func(b *testing.B) { benchmarkRead(b, 3, 1024, []int{1, 2, 3}) })
}

// BenchmarkInflateAlone measures the part of the reads above that inflate takes.
func BenchmarkInflateAlone(b *testing.B) {
	file := tiffInMemory(b, 512, 512, 512, 2, 1)
	f, err := openReader(bytes.NewReader(file), int64(len(file)), "bench.tif")
	if err != nil {
		b.Fatal(err)
	}
	at, n, err := f.im.table.at(0)
	if err != nil {
		b.Fatal(err)
	}
	var d tiff.Decoder
	dst := make([]byte, 512*512*2)
	b.SetBytes(int64(len(dst)))
	b.ReportMetric(float64(len(dst))/float64(n), "ratio")
	b.ReportAllocs()
	for b.Loop() {
		if err := d.Decompress(tiff.CompressionDeflate, dst, file[at:at+n], len(dst)); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkUndoDifferenceUint16(b *testing.B) {
	for _, step := range []int{1, 3, 4, 7} {
		b.Run(fmt.Sprintf("samples=%d", step), func(b *testing.B) {
			var d tiff.Decoder
			tile := d.Scratch(512 * 512 * 2 * step)
			b.SetBytes(int64(len(tile)))
			for b.Loop() {
				d.Unpredict(2, tile, 512*2*step, 2, step)
			}
		})
	}
}
