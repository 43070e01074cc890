package spool

import (
	"fmt"
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
