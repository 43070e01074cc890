package geotiff

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"leat/raster"
)

// Geo keys and values that are set here; the others are copied as they came.
const (
	geoKeyModelType      = 1024
	geoKeyRasterType     = 1025
	geoKeyGeodeticCRS    = 2048
	geoKeyProjectedCRS   = 3072
	geoModelProjected    = 1
	geoModelGeographic   = 2
	geoRasterPixelIsArea = 1
	geoRasterPixelIsPt   = 2
)

// georeference adds the transform and the geo keys.
func (d *outDirectory) georeference(g raster.Grid) error {
	keys, err := geoKeys(g)
	if err != nil {
		return err
	}
	if keys != nil {
		d.shorts(tagGeoKeyDirectory, keys.Directory...)
		if len(keys.Doubles) > 0 {
			d.doubles(tagGeoDoubleParams, keys.Doubles...)
		}
		if keys.ASCII != "" {
			d.text(tagGeoASCIIParams, strings.TrimRight(keys.ASCII, "\x00"))
		}
	}
	if !g.HasTransform {
		return nil
	}
	t := g.Transform
	x, y := t[0], t[3]
	if g.PixelIsPoint { // the file then gives the place of the first pixel's centre
		x, y = centre(t[0], t[1], t[2]), centre(t[3], t[4], t[5])
	}
	if t[2] == 0 && t[4] == 0 && t[5] < 0 {
		d.doubles(tagModelPixelScale, t[1], -t[5], 0)
		d.doubles(tagModelTiepoint, 0, 0, 0, x, y, 0)
	} else {
		d.doubles(tagModelTransform, t[1], t[2], 0, x, t[4], t[5], 0, y, 0, 0, 0, 0, 0, 0, 0, 1)
	}
	return nil
}

// centre returns the coordinate of the first pixel's centre: the one of its neighbours from which readers, who go half
// a pixel back, come to origin exactly.
func centre(origin, a, b float64) float64 {
	c := origin + (a+b)*0.5
	for _, try := range [3]float64{c, math.Nextafter(c, math.Inf(1)), math.Nextafter(c, math.Inf(-1))} {
		if try-(a*0.5+b*0.5) == origin {
			return try
		}
	}
	return c
}

// geoKeys returns the keys to be written, nil when there is nothing to say. The system's own are kept
// whole; only the raster type is made to agree with the grid.
func geoKeys(g raster.Grid) (*raster.GeoKeys, error) {
	c := g.CRS
	switch {
	case c.Keys != nil:
		return withRasterType(c.Keys, g.PixelIsPoint)
	case c.Code != "":
		return codeKeys(c.Code, g.PixelIsPoint)
	case c.WKT != "":
		return nil, fmt.Errorf("the coordinate reference system is known by its WKT only, which can't be written to a GeoTIFF (give it as EPSG:n)")
	case g.HasTransform || g.PixelIsPoint:
		return withRasterType(&raster.GeoKeys{Directory: []uint16{1, 1, 0, 0}}, g.PixelIsPoint)
	}
	return nil, nil
}

// withRasterType returns the keys with GTRasterTypeGeoKey set.
func withRasterType(k *raster.GeoKeys, point bool) (*raster.GeoKeys, error) {
	if len(k.Directory) < 4 || len(k.Directory)%4 != 0 {
		return nil, fmt.Errorf("the geo keys of the coordinate reference system are damaged (%d numbers)", len(k.Directory))
	}
	value := uint16(geoRasterPixelIsArea)
	if point {
		value = geoRasterPixelIsPt
	}
	// Some programs leave room behind the keys that they announce: counted as keys it would spoil all of them.
	dir := slices.Clone(k.Directory[:min(len(k.Directory), 4+4*int(k.Directory[3]))])
	at := 4
	for at < len(dir) && dir[at] < geoKeyRasterType {
		at += 4
	}
	if at < len(dir) && dir[at] == geoKeyRasterType {
		dir[at+1], dir[at+2], dir[at+3] = 0, 1, value
	} else {
		dir = slices.Insert(dir, at, geoKeyRasterType, 0, 1, value)
	}
	dir[3] = uint16(len(dir)/4 - 1)
	return &raster.GeoKeys{Directory: dir, Doubles: k.Doubles, ASCII: k.ASCII}, nil
}

// codeKeys returns the keys of a system that is known by its code only.
func codeKeys(code string, point bool) (*raster.GeoKeys, error) {
	digits, ok := strings.CutPrefix(strings.ToUpper(code), "EPSG:")
	n, err := strconv.ParseUint(digits, 10, 16)
	// GeoTIFF gives codes 1024 to 32766 to EPSG.
	if !ok || err != nil || n < 1024 || n > 32766 {
		return nil, fmt.Errorf("the coordinate reference system %s can't be written to a GeoTIFF (EPSG:1024 to EPSG:32766 can)", code)
	}
	model, key := uint16(geoModelProjected), uint16(geoKeyProjectedCRS)
	if isGeographic(int(n)) {
		model, key = geoModelGeographic, geoKeyGeodeticCRS
	}
	return withRasterType(&raster.GeoKeys{Directory: []uint16{1, 1, 0, 2,
		geoKeyModelType, 0, 1, model,
		key, 0, 1, uint16(n)}}, point)
}

// isGeographic reports whether an EPSG code is of a system of longitude and latitude. Most of those lie
// between 4000 and 4999, among projected ones (4087, 4491 to 4554 and 4647, say).
func isGeographic(code int) bool {
	if code == 4217 { // NAD83 / BLM 59N
		return false
	}
	for _, r := range [][2]int{{4001, 4086}, {4090, 4389}, {4600, 4646}, {4657, 4765}, {4801, 4811}, {4813, 4821}, {4901, 4904}} {
		if code >= r[0] && code <= r[1] {
			return true
		}
	}
	switch code {
	case 4463, 4470, 4475, 4483, 4490, 4555, 4558, 4823, 4824, 4937, 4979,
		6318, 6322, 6325, 6668, 6706, 6783, 7844, 8086, 8232, 8237, 8240, 8246, 8249, 8252, 8255, 8545, 8685, 8694, 8699,
		8818, 9000, 9003, 9006, 9009, 9014, 9019, 9053, 9054, 9055, 9056, 9057, 9059, 9067, 9075, 9184, 9755, 9776, 9777:
		return true
	}
	return false
}
