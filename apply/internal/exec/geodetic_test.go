package exec

import (
	"math"
	"testing"

	"leat/raster"
)

func TestGeodeticBeyondPoles(t *testing.T) {
	// The centres of the first and last rows are the poles; beyond them is half a pixel.
	grid := raster.Grid{Width: 4, Height: 181, HasTransform: true, CRS: raster.CRS{Code: "EPSG:4326"},
		Transform: raster.Transform{199.5, 1, 0, 90.5, 0, -1}}
	err := withGeodetic(grid, func(g *geodetic) error {
		for _, c := range []struct {
			name string
			row  int
			want float64 // NaN where the pixel is invalid, -1 for any area
		}{
			{"lat", -1, math.NaN()}, {"lat", 0, 90}, {"lat", 180, -90}, {"lat", 181, math.NaN()},
			{"lon", -1, math.NaN()}, {"lon", 0, 203},
			{"pixel_area", 0, math.NaN()}, {"pixel_area", 1, -1}, {"pixel_area", 179, -1}, {"pixel_area", 180, math.NaN()},
		} {
			got := []float64{-9}
			if err := g.coordinate(c.name, 3, c.row, got); err != nil {
				return err
			}
			switch {
			case math.IsNaN(c.want):
				if !math.IsNaN(got[0]) {
					t.Errorf("%s in row %d is %v, expected none", c.name, c.row, got[0])
				}
			case c.name == "pixel_area" && !(got[0] > 0) || c.name != "pixel_area" && got[0] != c.want:
				t.Errorf("%s in row %d is %v, expected %v", c.name, c.row, got[0], c.want)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	// The rounded height of these pixels puts the lower edge 4e-9 degrees below the pole.
	grid.Transform = raster.Transform{0, 0.1, 0, 90, 0, -0.1000000000023}
	err = withGeodetic(grid, func(g *geodetic) error {
		got := []float64{-9}
		if err := g.coordinate("pixel_area", 0, 1799, got); err != nil {
			return err
		}
		if !(got[0] > 1e5 && got[0] < 1e6*100) {
			t.Errorf("the area at the pole is %v", got[0])
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
