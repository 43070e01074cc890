package plan

import (
	"testing"

	"leat/apply/internal/output"
	"leat/apply/internal/resolve"
	"leat/apply/outcome"
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

// Blocks are read ahead of a function that is being loaded within half of the budget.
func TestBuffersAheadOfFunction(t *testing.T) {
	plan := func(budget int64, loading bool) *Plan {
		grid := raster.Grid{Width: 8192, Height: 8192}
		file := &resolve.File{Info: &raster.Info{Grid: grid, TileWidth: 512, TileHeight: 512}, Type: ndarray.Uint16,
			Layers: []int{1}}
		p := &Plan{Plan: outcome.Plan{BudgetBytes: budget, Workers: 2, Readers: 2}}
		z := &sizing{in: &resolve.Inputs{Files: []*resolve.File{file}}, plan: p, grid: grid, here: 2, slots: 1,
			loading: loading}
		if !z.fits(1024, 1024) {
			t.Fatalf("a budget of %d is too small", budget)
		}
		return p
	}
	without, with := plan(1<<30, false), plan(1<<30, true)
	n := loadingBytes >> 21
	if with.ExtraBuffers != n || with.Buffers != without.Buffers+n || without.ExtraBuffers != 0 {
		t.Errorf("%d buffers, %d of them extra, and %d without loading", with.Buffers, with.ExtraBuffers,
			without.Buffers)
	}
	if added := with.MemoryBytes - without.MemoryBytes; added != loadingBytes {
		t.Errorf("%d bytes more, expected %d", added, loadingBytes)
	}
	budget := without.MemoryBytes + without.MemoryBytes/4
	if tight := plan(budget, true); tight.ExtraBuffers != 0 || tight.Buffers != without.Buffers {
		t.Errorf("%d buffers, %d of them extra, in a budget of %d bytes", tight.Buffers, tight.ExtraBuffers, budget)
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
