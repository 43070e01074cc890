package resolve

import (
	"testing"

	"leat/block"
	"leat/internal/expr"
	"leat/raster"
)

func TestGround(t *testing.T) {
	domain := block.Window{Width: 9, Height: 9}
	for _, c := range []struct {
		crs  raster.CRS
		want expr.Ground
	}{
		{raster.CRS{Code: "EPSG:4326"}, expr.GroundDegrees},
		{raster.CRS{Code: "EPSG:32631"}, expr.GroundUnits},
		{raster.CRS{Code: "EPSG:32631", WKT: `ENGCRS["odd"]`}, expr.GroundUnits},
		{raster.CRS{WKT: `GEODCRS["WGS 84",CS[ellipsoidal,2]]`}, expr.GroundDegrees},
		{raster.CRS{WKT: `ENGCRS["Arbitrary",CS[Cartesian,2]]`}, expr.UnknownGround},
		{raster.CRS{Code: "EPSG:4978"}, expr.UnknownGround}, // geocentric
		{raster.CRS{}, expr.UnknownGround},
	} {
		grid := raster.Grid{Width: 9, Height: 9, HasTransform: true, CRS: c.crs}
		if got := ground(grid, domain); got != c.want {
			t.Errorf("%+v: ground %d, expected %d", c.crs, got, c.want)
		}
		if grid.HasTransform = false; ground(grid, domain) != expr.NoGround {
			t.Errorf("%+v without a transform has a ground", c.crs)
		}
	}
}
