package expr

import (
	"encoding/hex"
	"fmt"
	"math"

	"leat/ndarray"
)

// geodeticCase gives the pixels of a case a position on the earth. The last two grids reach beyond
// a pole and the date line.
func (g *generator) geodeticCase(c *numpyCase) {
	places := []struct {
		crs       string
		transform [6]float64
	}{
		{"EPSG:32631", [6]float64{500000.25, 30, 0, 4000000, 0, -29.9}},
		{"EPSG:3857", [6]float64{1e6, 600, 0, 5e6, 0, -600}},
		{"EPSG:3031", [6]float64{-25000, 10000, 0, 25000, 0, -10000}},
		{"EPSG:4326", [6]float64{179, 0.25, 0, 90.5, 0, -0.25}},
	}
	at := places[g.IntN(len(places))]
	c.CRS = at.crs
	if c.Transform != nil {
		c.Transform = &at.transform
		return
	}
	c.Affine = &at.transform
	c.Place[0], c.Place[1] = g.IntN(10), g.IntN(5)
}

// coordinate returns what the reference computed, as Place.Geodetic.
func (c *numpyCase) coordinate(name string, col, row int, d []float64) error {
	text, err := hex.DecodeString(c.geodetic[name])
	if err != nil || len(text) != 8*c.N {
		return fmt.Errorf("the reference has no %s: %v", name, err)
	}
	for i := range d {
		at := (row-c.Place[1])*placeColumns + col + i - c.Place[0]
		d[i] = math.Float64frombits(bitsOf(ndarray.Float64, text[8*at:8*at+8]))
	}
	return nil
}
