package spool

import (
	"fmt"
	"testing"

	"leat/block"
	"leat/internal/tiffwrite"
	"leat/ndarray"
)

// TestSamples compares the pixels of samples with those of the tile, by row and column: half of the
// rows from the top and half from the bottom, and little padding.
func TestSamples(t *testing.T) {
	t.Parallel()
	const tile = 128
	for _, c := range []struct{ inWidth, inHeight, width, height, first, second int }{
		{128, 128, 128, 64, 0, 96}, // a whole tile: rows 0 to 31 and 96 to 127
		{115, 128, 128, 64, 0, 96},
		{97, 91, 112, 64, 0, 59}, // the last row inside the raster is row 90
		{16, 65, 16, 64, 0, 33},
		{17, 64, 32, 64, 0, 32}, // from here on, all rows
		{1, 50, 16, 64, 0, 32},
		{1, 33, 16, 48, 0, 24},
		{128, 1, 128, 16, 0, 8},
	} {
		t.Run(fmt.Sprint(c.inWidth, "x", c.inHeight), func(t *testing.T) {
			w, h := tile+c.inWidth, tile+c.inHeight
			l, err := NewLayout(Spec{Output: "out", Blocks: block.Plan{Width: w, Height: h, WindowWidth: w, WindowHeight: h},
				File: tiffwrite.FileSpec{Path: "a.tif", Width: w, Height: h, Bands: 1, Type: ndarray.Uint16,
					TileWidth: tile, TileHeight: tile},
				Candidates: tiffwrite.Candidates(ndarray.Uint16, tiffwrite.Deflate)})
			if err != nil {
				t.Fatal(err)
			}
			a := ndarray.New(ndarray.Uint16, tile, tile)
			px := ndarray.Slice[uint16](a)
			for i := range px {
				px[i] = uint16(i)
			}
			var mine trial
			last := l.File.TileIndex(0, 0, 1, 1)
			got := ndarray.Cast[uint16](NewChooser(l, nil).sampleOf(last, a.Raw(), &mine))
			if mine.shape.Width != c.width || mine.shape.Height != c.height || len(got) != c.width*c.height {
				t.Fatalf("%d pixels of shape %+v, expected %d x %d", len(got), mine.shape, c.width, c.height)
			}
			for i, v := range got {
				row := c.first + i/c.width
				if i/c.width >= c.height/2 {
					row = c.second + i/c.width - c.height/2
				}
				if want := uint16(row*tile + i%c.width); v != want {
					t.Fatalf("pixel %d of the sample is %d, expected %d", i, v, want)
				}
			}
		})
	}
}
