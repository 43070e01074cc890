package tiffwrite

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"leat/ndarray"
)

// TestEncodeOverGivesSameBytes compares EncodeOver and EncodeRows with Encode, and Encode with a
// new encoder, over tiles of noise, of equal rows, of padding and of one value.
func TestEncodeOverGivesSameBytes(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for _, typ := range []ndarray.DType{ndarray.Uint8, ndarray.Int16, ndarray.Uint32, ndarray.Float32,
		ndarray.Float64, ndarray.Complex64} {
		for _, samples := range []int{1, 3} {
			for _, c := range slices.Concat(Candidates(typ, Deflate), Candidates(typ, LZW), Candidates(typ, None)) {
				shape := TileShape{Type: typ, Width: 48, Height: 32, Samples: samples}
				here, over, apart := NewEncoder(shape, c), NewEncoder(shape, c), NewEncoder(shape, c)
				rowBytes := shape.Bytes() / shape.Height
				stride := rowBytes + 3*typ.Size()
				gaps, spare := make([]byte, (shape.Height-1)*stride+rowBytes), make([]byte, shape.Bytes())
				for i := range 24 {
					tile := make([]byte, shape.Bytes())
					pixel := make([]byte, samples*typ.Size())
					for k := range pixel {
						pixel[k] = byte(random.IntN(3))
					}
					copy(tile, bytes.Repeat(pixel, len(tile)/len(pixel)))
					for y := 0; i%3 > 0 && y < 8+i; y++ {
						row := tile[y*rowBytes : (y+1)*rowBytes]
						if y > 0 && random.IntN(3) == 0 {
							copy(row, tile[(y-1)*rowBytes:])
							continue
						}
						for k := range row {
							row[k] = byte(random.Uint32() >> (i % 8))
						}
					}
					before := bytes.Clone(tile)
					want, err := NewEncoder(shape, c).Encode(nil, tile)
					if err != nil {
						t.Fatal(err)
					}
					name := fmt.Sprintf("%v x %d, %v, tile %d", typ, samples, c, i)
					if got, err := here.Encode([]byte("head"), tile); err != nil || !bytes.Equal(got[4:], want) {
						t.Errorf("%s: Encode differs (%v)", name, err)
					}
					if !bytes.Equal(tile, before) {
						t.Errorf("%s: Encode changed the tile", name)
					}
					for y := range shape.Height {
						copy(gaps[y*stride:][:rowBytes], tile[y*rowBytes:])
					}
					rows := 0
					visit := func(y, n int) {
						if y != rows || n < 1 {
							t.Errorf("%s: EncodeRows visits %d rows from %d on after %d", name, n, y, rows)
						}
						rows += n
					}
					got, err := apart.EncodeRows([]byte("head"), gaps, stride, spare, visit)
					if err != nil || !bytes.Equal(got[4:], want) {
						t.Errorf("%s: EncodeRows differs (%v)", name, err)
					}
					if rows != shape.Height {
						t.Errorf("%s: EncodeRows visits %d of %d rows", name, rows, shape.Height)
					}
					if got, err := over.EncodeOver([]byte("head"), tile); err != nil || !bytes.Equal(got[4:], want) {
						t.Errorf("%s: EncodeOver differs (%v)", name, err)
					}
				}
			}
		}
	}
}

// TestSharedMemoryGivesSameBytes encodes tiles by encoders of all types and codings in one memory.
func TestSharedMemoryGivesSameBytes(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	type pair struct {
		alone, shared *Encoder
		name          string
	}
	var pairs []pair
	var m Memory
	for _, typ := range []ndarray.DType{ndarray.Uint8, ndarray.Int16, ndarray.Uint32, ndarray.Float32,
		ndarray.Float64, ndarray.Complex64} {
		for _, width := range []int{64, 528} {
			for _, c := range Candidates(typ, Deflate) {
				shape := TileShape{Type: typ, Width: width, Height: 64, Samples: 1}
				pairs = append(pairs, pair{NewEncoder(shape, c), NewEncoderIn(&m, shape, c), fmt.Sprintf("%v, %d wide, %v", typ,
					width, c)})
			}
		}
	}
	for range 4 * len(pairs) {
		p := pairs[random.IntN(len(pairs))]
		tile := make([]byte, p.alone.shape.Bytes())
		size, shift := p.alone.shape.Type.Size(), random.IntN(8)
		for k := range tile {
			if tile[k] = byte(random.Uint32() >> shift); k >= 7*size && random.IntN(4) > 0 {
				tile[k] = tile[k-7*size]
			}
		}
		want, err := p.alone.Encode(nil, tile)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := p.shared.Encode(nil, tile); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s: the bytes differ (%v)", p.name, err)
		}
	}
}

// TestDecodeRows compares the first rows of tiles, of noise and of repetitions, with those of whole
// tiles.
func TestDecodeRows(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	for typ := ndarray.Uint8; typ <= ndarray.Complex128; typ++ {
		for _, c := range slices.Concat(Candidates(typ, Deflate), Candidates(typ, Zstd), Candidates(typ, LZW),
			Candidates(typ, None)) {
			shape := TileShape{Type: typ, Width: 64, Height: 128, Samples: 1 + random.IntN(2)}
			rowBytes := shape.Bytes() / shape.Height
			tile := make([]byte, shape.Bytes())
			for shift := range 8 {
				for k := range tile {
					if tile[k] = byte(random.Uint32() >> shift); k >= rowBytes && random.IntN(8) > shift {
						tile[k] = tile[k-rowBytes]
					}
				}
				framed, err := NewEncoder(shape, c).Encode(nil, tile)
				if err != nil {
					t.Fatal(err)
				}
				for _, rows := range []int{1, 16, 1 + random.IntN(shape.Height), shape.Height} {
					got := ndarray.New(ndarray.Uint8, len(tile)).Raw()
					if err := DecodeRows(shape, c, framed, got, rows); err != nil {
						t.Fatalf("%v x %d, %v, %d rows: %v", typ, shape.Samples, c, rows, err)
					}
					if n := rows * rowBytes; !bytes.Equal(got[:n], tile[:n]) {
						t.Errorf("%v x %d, %v: the first %d rows differ", typ, shape.Samples, c, rows)
					}
				}
				broken, got := framed[:len(framed)/8], make([]byte, len(tile))
				if c.Compression != None && DecodeRows(shape, c, broken, got, shape.Height/2) == nil {
					t.Errorf("%v x %d, %v: no error for a tile that was cut short", typ, shape.Samples, c)
				}
			}
		}
	}
}
