package output

import (
	"testing"

	"leat/internal/gdal"
	"leat/raster"
)

// TestPolygonCacheHoldsWideRows checks that GDAL's cache holds two rows of tiles of wide rasters.
func TestPolygonCacheHoldsWideRows(t *testing.T) {
	for _, width := range []int{100, 65_536, 131_073, 1_000_000} {
		g := raster.Grid{Width: width, Height: 40_000}
		cache := polygonCache(64<<20, g)
		if row := gdal.PolygonTileRowBytes(g); cache < 2*row || cache < formatCache(64<<20) {
			t.Errorf("%d columns: a cache of %d bytes, a row of tiles takes %d", width, cache, row)
		}
		if m := (&polygons{}).memory(nil, g, 64<<20); m.bytes < cache {
			t.Errorf("%d columns: memory of %d bytes, the cache has %d", width, m.bytes, cache)
		}
	}
}
