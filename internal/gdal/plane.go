package gdal

import "leat/raster"

// WGS84 is the CRS of longitudes and latitudes.
var WGS84 = raster.CRS{Code: "EPSG:4326"}

// IsWGS84 reports whether x and y of a CRS are longitudes and latitudes.
func IsWGS84(c raster.CRS) bool { return c.Code == WGS84.Code || c.Code == "OGC:CRS84" }

// Plane converts between the pixels of a grid and coordinates x, y in another CRS.
type Plane struct{ l *transformer }

// FromPixels converts columns and rows to coordinates in place, and sets ok for each point.
func (p Plane) FromPixels(x, y []float64, ok []bool) error { return p.l.toLattice(x, y, ok) }

// ToPixels converts coordinates to columns and rows in place, and sets ok for each point.
func (p Plane) ToPixels(x, y []float64, ok []bool) error { return p.l.toInput(x, y, ok) }

// OnPlane calls f with the conversion between a grid and another CRS, which is valid until f
// returns.
func OnPlane(g raster.Grid, to raster.CRS, f func(p Plane) error) error {
	return onPlane(g, to, func(l *transformer) error { return f(Plane{l}) })
}
