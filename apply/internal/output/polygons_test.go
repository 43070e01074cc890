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

// TestBudgetForGroupsLeavesThem checks that the budget that an error names is large enough, and not
// much larger than needed.
func TestBudgetForGroupsLeavesThem(t *testing.T) {
	for _, width := range []int{100, 65_536, 1_000_000} {
		g := raster.Grid{Width: width, Height: 40_000}
		for _, bytes := range []int64{16<<20 + 1, 100 << 20, 511 << 20, 512<<20 + 7, 513 << 20, 9 << 30} {
			budget := budgetForGroups(bytes, g)
			if n := groupBytes(budget, g); n < bytes {
				t.Errorf("%d columns: a budget of %d leaves %d bytes, expected %d", width, budget, n, bytes)
			}
			if n := groupBytes(budget-2<<20, g); n >= bytes {
				t.Errorf("%d columns: a budget of 2 MiB less than %d leaves %d bytes too, expected less", width, budget, n)
			}
		}
	}
}
