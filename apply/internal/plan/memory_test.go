package plan

import (
	"testing"

	"leat/apply/internal/output"
	"leat/ndarray"
	"leat/raster"
)

// TestTableBytes counts tiles of all planes and levels.
func TestTableBytes(t *testing.T) {
	o := &output.Output{Type: ndarray.Uint8, Bands: 3, TileWidth: 256, TileHeight: 128, Factors: []int{2, 4}}
	g := raster.Grid{Width: 1000, Height: 600}
	const tiles = 4*5 + 2*3 + 1*2
	if got, want := tableBytes(o, g), float64(3*tiles*12); got != want {
		t.Errorf("planes: %v bytes instead of %v", got, want)
	}
	o.Spec.PixelInterleave = true
	if got, want := tableBytes(o, g), float64(tiles*12); got != want {
		t.Errorf("interleaved pixels: %v bytes instead of %v", got, want)
	}
}

// TestOverviewBytes counts an overview tile of all bands, and the pixels of a block twice.
func TestOverviewBytes(t *testing.T) {
	o := &output.Output{Type: ndarray.Float64, Bands: 2, TileWidth: 256, TileHeight: 128}
	if got := overviewBytes(o, 1000, 512); got != 0 {
		t.Errorf("%v bytes without overviews", got)
	}
	o.Factors = []int{2, 8}
	if got, want := overviewBytes(o, 1000, 512), float64(2*8*(256*128+2*(500*256+125*64))); got != want {
		t.Errorf("%v bytes instead of %v", got, want)
	}
}
