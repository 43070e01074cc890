package spool

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"testing"

	"leat/block"
	"leat/internal/tiffwrite"
	"leat/ndarray"
)

// TestPadding checks each pixel of tiles that extend beyond the raster: of full resolution and of
// overviews, with bands apart and interleaved.
func TestPadding(t *testing.T) {
	const tile = 16
	for bands := 1; bands <= 3; bands++ {
		for _, interleaved := range []bool{false, true} {
			for level := range 2 {
				for _, size := range [][2]int{{16, 16}, {1, 16}, {16, 1}, {1, 1}, {15, 9}, {7, 15}, {16, 10}} {
					t.Run(fmt.Sprint(bands, interleaved, level, size), func(t *testing.T) {
						w, h := size[0], size[1]
						l, err := NewLayout(Spec{Output: "out", Blocks: block.Plan{Width: w, Height: h, WindowWidth: w, WindowHeight: h},
							File: tiffwrite.FileSpec{Path: "a.tif", Width: w, Height: h, Bands: bands, Type: ndarray.Uint16,
								TileWidth: tile, TileHeight: tile, PixelInterleave: interleaved},
							Candidates: tiffwrite.Candidates(ndarray.Uint16, tiffwrite.Deflate)})
						if err != nil {
							t.Fatal(err)
						}
						e := NewEncoder(l, NewChooser(l, nil), nil, "")
						a := ndarray.New(ndarray.Uint16, bands, h, w)
						for i := range ndarray.Slice[uint16](a) {
							ndarray.Slice[uint16](a)[i] = uint16(i + 1)
						}
						for plane := range l.File.Planes() {
							e.gather(a, plane, block.Window{Width: w, Height: h}, level)
							checkPadding(t, e, a, plane, level)
						}
					})
				}
			}
		}
	}
}

func checkPadding(t *testing.T, e *Encoder, a *ndarray.Array, plane, level int) {
	t.Helper()
	f := &e.l.File
	h, w := a.Shape[1], a.Shape[2]
	got, want := ndarray.Cast[uint16](e.pixels), ndarray.Slice[uint16](a)
	samples := e.l.bandsPerTile()
	for y := range f.TileHeight {
		for x := range f.TileWidth {
			col, row := min(x, w-1), min(y, h-1)
			if level > 0 && y >= h {
				col = w - 1
			}
			for s := range samples {
				if v := got[(y*f.TileWidth+x)*samples+s]; v != want[((plane+s)*h+row)*w+col] {
					t.Fatalf("column %d, row %d, sample %d: %d, expected that of column %d, row %d", x, y, s, v, col, row)
				}
			}
		}
	}
}

// TestEncodeInPlace encodes tiles whose pixels lie in arrays of several forms. Each record must be
// that of the array with rows one after the other, from which every tile is copied.
func TestEncodeInPlace(t *testing.T) {
	const w, h, tile = 90, 70, 16
	for _, typ := range []ndarray.DType{ndarray.Uint8, ndarray.Int16, ndarray.Float32, ndarray.Float64} {
		for _, predictor := range []int{1, 2, 3} {
			coding := tiffwrite.Coding{Compression: tiffwrite.Deflate, Predictor: predictor}
			if coding.Check(typ) != nil {
				continue
			}
			for _, bands := range []int{1, 2} {
				l, err := NewLayout(Spec{Output: "out", Blocks: block.Plan{Width: w, Height: h, WindowWidth: w, WindowHeight: h},
					File: tiffwrite.FileSpec{Path: "a.tif", Width: w, Height: h, Bands: bands, Type: typ,
						TileWidth: tile, TileHeight: tile}, Alpha: bands - 1,
					Candidates: []tiffwrite.Coding{coding}, Statistics: true, Histogram: true})
				if err != nil {
					t.Fatal(err)
				}
				size := typ.Size()
				pixel := func(band, row, col int) []byte { // some tiles are of one value
					v := uint64(col/40*col + row/20 + 31*band)
					switch typ {
					case ndarray.Float32:
						v = uint64(math.Float32bits(float32(v) / 7))
					case ndarray.Float64:
						v = math.Float64bits(float64(v) / 7)
					}
					return binary.LittleEndian.AppendUint64(nil, v)[:size]
				}
				record := func(a *ndarray.Array) []byte {
					for band := range bands {
						for row := range h {
							for col := range w {
								at := a.Offset + band*a.Strides[0] + row*a.Strides[1] + col*size
								copy(a.Data[at:], pixel(band, row, col))
							}
						}
					}
					r, err := NewEncoder(l, NewChooser(l, nil), nil, "").Encode(l.Blocks.At(0), a, Extra{})
					if err != nil {
						t.Fatal(err)
					}
					return append(slices.Clone(r.Meta), r.Data...)
				}
				array := func(offset, gap int, reverse bool) *ndarray.Array {
					row := w*size + gap
					a := &ndarray.Array{Type: typ, Data: ndarray.New(ndarray.Uint8, bands*h*row+64).Raw(),
						Shape: []int{bands, h, w}, Strides: []int{h * row, row, size}, Offset: offset}
					if reverse {
						a.Offset, a.Strides[1] = offset+(h-1)*row, -row
					}
					return a
				}
				want := record(array(0, 0, true)) // in reverse order tiles are copied
				for name, a := range map[string]*ndarray.Array{"rows one after the other": array(0, 0, false),
					"rows with gaps": array(0, 3*size, false), "not aligned": array(1, 0, false),
					"rows not aligned": array(0, 1, false), "with an offset": array(2*size, 0, false)} {
					if got := record(a); !bytes.Equal(got, want) {
						t.Errorf("%v, %v, %d bands: %s: the record differs", typ, coding, bands, name)
					}
				}
			}
		}
	}
}
