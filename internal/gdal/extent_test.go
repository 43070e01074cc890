package gdal

import (
	"math"
	"strings"
	"testing"

	"leat/raster"
)

// An extent is found on the grid whatever longitudes the grid has.
func TestExtentPosition(t *testing.T) {
	needGDAL(t)
	degrees := func(west, east, pixel float64) raster.Grid {
		return raster.Grid{Width: int(math.Round((east - west) / pixel)), Height: int(180 / pixel), HasTransform: true,
			Transform: raster.Transform{west, pixel, 0, 90, 0, -pixel}, CRS: raster.CRS{Code: "EPSG:4326"}}
	}
	square := func(code string, x, y, side float64) raster.Grid {
		return raster.Grid{Width: 100, Height: 100, HasTransform: true,
			Transform: raster.Transform{x - side/2, side / 100, 0, y + side/2, 0, -side / 100},
			CRS:       raster.CRS{Code: code}}
	}
	const equator = 2 * math.Pi * 6378137
	metres := raster.Grid{Width: 400, Height: 100, HasTransform: true,
		Transform: raster.Transform{0, equator / 400, 0, 5e6, 0, -100000}, CRS: raster.CRS{Code: "EPSG:3857"}}
	america, fiji, greenwich, pole := square("EPSG:32614", 414600, 4428200, 300000),
		square("EPSG:32701", 182000, 8008000, 200000), square("EPSG:32631", 263500, 4987300, 400000),
		square("EPSG:3413", 0, 0, 8e6)
	world := raster.Grid{Width: 200, Height: 200, HasTransform: true,
		Transform: raster.Transform{-equator / 2, equator / 200, 0, equator / 2, 0, -equator / 200},
		CRS:       raster.CRS{Code: "EPSG:3857"}}
	nearly := degrees(-179, 179, 1)
	nearly.CRS = raster.CRS{Code: "EPSG:4258"}
	for name, k := range map[string]struct {
		extent, on raster.Grid
		from, to   float64
		fails      string
	}{
		"as in the CRS":                      {america, degrees(-180, 180, 1), -101.8, -98.2, ""},
		"from 0 to 360":                      {america, degrees(0, 360, 1), 258.2, 261.8, ""},
		"a part of a grid":                   {america, degrees(200, 300, 1), 258.2, 261.8, ""},
		"half on the grid":                   {america, degrees(260, 300, 1), 258.2, 261.8, ""},
		"outside the grid":                   {america, degrees(0, 100, 1), -101.8, -98.2, ""},
		"two turns":                          {america, degrees(-360, 360, 1), -101.8, -98.2, ""},
		"over the antimeridian":              {fiji, degrees(0, 360, 1), 179.04, 180.98, ""},
		"over the antimeridian, to the west": {fiji, degrees(-190, -170, 1), -180.96, -179.02, ""},
		"on both ends, at the antimeridian":  {fiji, degrees(-180, 180, 1), 0, 0, "both ends of the grid, from 179"},
		"on both ends, at Greenwich":         {greenwich, degrees(0, 360, 1), 0, 0, "both ends of the grid, from 357"},
		"on one end":                         {greenwich, degrees(0, 100, 1), -2.7, 2.6, ""},
		"around Greenwich":                   {greenwich, degrees(-180, 180, 1), -2.7, 2.6, ""},
		"all of the earth":                   {world, degrees(0, 360, 1), 0, 360, ""},
		"all of the earth, as it is":         {world, degrees(-180, 180, 1), -180, 180, ""},
		"nearly all of the earth": {nearly, degrees(0, 360, 1), 0, 0,
			"both ends of the grid, from 181 on and up to 179"},
		"nearly all of the earth, as it is": {nearly, degrees(-180, 180, 1), -179, 179, ""},
		"a pole":                            {pole, degrees(0, 360, 1), 0, 360, ""},
		"a pole, as it is":                  {pole, degrees(-180, 180, 1), -180, 180, ""},
		"a projection that repeats":         {america, metres, 258.2 / 360 * equator, 261.8 / 360 * equator, ""},
		"a CRS that does not repeat":        {america, square("EPSG:32614", 0, 0, 1e6), 264600, 564600, ""},
	} {
		box, err := ExtentOn(k.extent, k.on)
		if k.fails != "" {
			if err == nil || !strings.Contains(err.Error(), k.fails) {
				t.Errorf("%s: %v %v", name, box, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		px := k.on.Transform[1]
		left, _, right, _ := k.on.Bounds()
		if name != "outside the grid" { // only the part on the grid counts
			box[0], box[2], k.from, k.to = max(box[0], left), min(box[2], right), max(k.from, left), min(k.to, right)
		}
		if math.Abs(box[0]-k.from) > 0.2*px || math.Abs(box[2]-k.to) > 0.2*px {
			t.Errorf("%s: from %v to %v, not from %v to %v", name, box[0], box[2], k.from, k.to)
		}
	}
}
