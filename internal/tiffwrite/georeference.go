package tiffwrite

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"leat/internal/georef"
	"leat/internal/tiff"
	"leat/raster"
)

// georeference adds the entries of the transform and the geo keys.
func (d *outDirectory) georeference(g raster.Grid) error {
	keys, err := geoKeys(g)
	if err != nil {
		return err
	}
	if keys != nil {
		d.shorts(tiff.TagGeoKeyDirectory, keys.Directory...)
		if len(keys.Doubles) > 0 {
			d.doubles(tiff.TagGeoDoubleParams, keys.Doubles...)
		}
		if keys.ASCII != "" {
			d.text(tiff.TagGeoASCIIParams, strings.TrimRight(keys.ASCII, "\x00"))
		}
	}
	if g.RPC != nil {
		d.doubles(tiff.TagRPC, georef.RPCValues(g.RPC)...)
	}
	if !g.HasTransform {
		d.controlPoints(g)
		return nil
	}
	t := g.Transform
	x, y := t[0], t[3]
	if g.PixelIsPoint { // the file has the coordinates of the first pixel's centre
		x, y = centre(t[0], t[1], t[2]), centre(t[3], t[4], t[5])
	}
	if t[2] == 0 && t[4] == 0 && t[5] < 0 {
		d.doubles(tiff.TagModelPixelScale, t[1], -t[5], 0)
		d.doubles(tiff.TagModelTiepoint, 0, 0, 0, x, y, 0)
	} else {
		d.doubles(tiff.TagModelTransform, t[1], t[2], 0, x, t[4], t[5], 0, y, 0, 0, 0, 0, 0, 0, 0, 1)
	}
	return nil
}

// controlPoints adds the ground control points of a grid without a transform.
func (d *outDirectory) controlPoints(g raster.Grid) {
	if g.GCPs == nil || len(g.GCPs.Points) == 0 {
		return
	}
	half := 0.0
	if g.PixelIsPoint {
		half = 0.5
	}
	var tie []float64
	for _, p := range g.GCPs.Points {
		tie = append(tie, p.Pixel-half, p.Line-half, 0, p.X, p.Y, p.Z)
	}
	d.doubles(tiff.TagModelTiepoint, tie...)
}

// MaxGCPs is how many ground control points a GeoTIFF holds: libtiff counts the numbers of a tag in
// 16 bits.
const MaxGCPs = math.MaxUint16 / 6

// centre returns the coordinate of the first pixel's centre, rounded so that readers, which
// subtract half a pixel, recover origin exactly if possible.
func centre(origin, a, b float64) float64 {
	c := origin + float64((a+b)*0.5)
	for _, try := range [3]float64{c, math.Nextafter(c, math.Inf(1)), math.Nextafter(c, math.Inf(-1))} {
		if try-(float64(a*0.5)+float64(b*0.5)) == origin {
			return try
		}
	}
	return c
}

// geoKeys returns the keys to write, nil if there are none: those of the system and the raster type
// of the grid. GDAL reads the raster type alone as an unnamed system, so it is written alone only
// for points, whose coordinates would be misread without it.
func geoKeys(g raster.Grid) (*raster.GeoKeys, error) {
	keys, err := systemKeys(g)
	if err == nil && keys != nil && !g.PixelIsPoint && len(keys.Directory) == 8 {
		return nil, nil
	}
	return keys, err
}

// systemKeys returns the keys of the grid's system with the raster type.
func systemKeys(g raster.Grid) (*raster.GeoKeys, error) {
	c := g.CRS
	if !g.HasTransform && g.GCPs != nil {
		c = g.GCPs.CRS
	}
	switch {
	case c.Keys != nil:
		return withRasterType(c.Keys, g.PixelIsPoint)
	case c.WKT != "":
		keys, err := keysOfWKT(c.WKT)
		if err != nil {
			return nil, fmt.Errorf("the coordinate reference system %v can't be written to a GeoTIFF: %w", shortName(c),
				err)
		}
		return withRasterType(keys, g.PixelIsPoint)
	case c.Code != "":
		keys, err := KeysOfCode(c.Code)
		if err != nil {
			return nil, fmt.Errorf("the coordinate reference system %s can't be written to a GeoTIFF: %w", c.Code, err)
		}
		return withRasterType(keys, g.PixelIsPoint)
	case g.PixelIsPoint:
		return withRasterType(&raster.GeoKeys{Directory: []uint16{1, 1, 0, 0}}, g.PixelIsPoint)
	}
	return nil, nil
}

// CheckGeoreference returns an error if geo keys cannot express the coordinate reference system of
// the grid, or of its ground control points, or if there are more of these than a GeoTIFF holds.
func CheckGeoreference(g raster.Grid) error {
	if !g.HasTransform && g.GCPs != nil && len(g.GCPs.Points) > MaxGCPs {
		return fmt.Errorf("%d ground control points: a GeoTIFF holds at most %d", len(g.GCPs.Points), MaxGCPs)
	}
	_, err := geoKeys(g)
	return err
}

// shortName returns a short name of a system, which may have only a WKT.
func shortName(c raster.CRS) string {
	if c.Code == "" && c.Name == "" {
		return "that is known by its WKT alone"
	}
	return c.String()
}

// withRasterType returns the keys with GTRasterTypeGeoKey set.
func withRasterType(k *raster.GeoKeys, point bool) (*raster.GeoKeys, error) {
	if len(k.Directory) < 4 || len(k.Directory)%4 != 0 {
		return nil, fmt.Errorf("the geo keys of the coordinate reference system are damaged (%d numbers)",
			len(k.Directory))
	}
	value := uint16(tiff.GeoPixelIsArea)
	if point {
		value = tiff.GeoPixelIsPoint
	}
	// Some programs leave unused numbers after the announced keys. They must not count as keys.
	dir := slices.Clone(k.Directory[:min(len(k.Directory), 4+4*int(k.Directory[3]))])
	at := 4
	for at < len(dir) && dir[at] < tiff.GeoKeyRasterType {
		at += 4
	}
	if at < len(dir) && dir[at] == tiff.GeoKeyRasterType {
		dir[at+1], dir[at+2], dir[at+3] = 0, 1, value
	} else {
		dir = slices.Insert(dir, at, tiff.GeoKeyRasterType, 0, 1, value)
	}
	dir[3] = uint16(len(dir)/4 - 1)
	return &raster.GeoKeys{Directory: dir, Doubles: k.Doubles, ASCII: k.ASCII}, nil
}
