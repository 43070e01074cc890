package tiffwrite

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"leat/ndarray"
)

// TestUniformTiles encodes tiles of one value and others in random order. Each must be as a new
// encoder makes it.
func TestUniformTiles(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for _, shape := range []TileShape{
		{ndarray.Uint8, 64, 48, 1}, {ndarray.Int16, 32, 32, 3}, {ndarray.Float32, 32, 32, 2},
		{ndarray.Complex128, 16, 16, 1}, {ndarray.Float64, 64, 64, 1},
	} {
		for _, c := range codings(shape.Type) {
			pixel := shape.Samples * shape.Type.Size()
			e := NewEncoder(shape, c)
			for range 10 {
				value := bytes.Repeat([]byte{byte(r.IntN(2))}, pixel)
				value[r.IntN(pixel)] = byte(r.IntN(2)) // samples may differ
				tile := bytes.Repeat(value, shape.Width*shape.Height)
				if r.IntN(3) == 0 { // or one pixel
					tile[[]int{0, r.IntN(len(tile)), len(tile) - 1}[r.IntN(3)]] ^= 1
				}
				got, err := e.Encode([]byte("before"), tile)
				if err != nil {
					t.Fatal(err)
				}
				want, err := NewEncoder(shape, c).Encode([]byte("before"), tile)
				if err != nil || !bytes.Equal(got, want) {
					t.Fatalf("%+v, %v: a tile differs from that of a new encoder, %v", shape, c, err)
				}
			}
		}
	}
}

// codings returns a coding for each compression and predictor that a type may have.
func codings(t ndarray.DType) (list []Coding) {
	for _, compression := range []string{Deflate, Zstd, LZW, PackBits, None} {
		for predictor := 1; predictor <= 3; predictor++ {
			if c := (Coding{Compression: compression, Predictor: predictor}); c.Check(t) == nil {
				list = append(list, c)
			}
		}
	}
	return list
}
