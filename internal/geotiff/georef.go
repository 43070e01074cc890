package geotiff

import (
	"fmt"
	"strconv"
	"strings"

	"leat/internal/georef"
	"leat/internal/tiff"
	"leat/internal/wkt"
	"leat/raster"
)

// georeference returns the grid of d's image.
func georeference(d *directory, width, height int) (raster.Grid, error) {
	g := raster.Grid{Width: width, Height: height, Transform: raster.Identity}
	keys, err := readGeoKeys(d)
	if err != nil {
		return g, err
	}
	if keys != nil {
		g.CRS = crsOf(keys)
		g.PixelIsPoint = geoShort(keys, tiff.GeoKeyRasterType) == tiff.GeoPixelIsPoint
	}
	t, ok, err := transform(d)
	if err != nil {
		return g, err
	}
	if !ok {
		return g, controlPoints(d, &g)
	}
	if g.PixelIsPoint { // the coordinates are those of the first pixel's centre
		t[0] -= float64(t[1]*0.5) + float64(t[2]*0.5)
		t[3] -= float64(t[4]*0.5) + float64(t[5]*0.5)
	}
	g.Transform, g.HasTransform = t, true
	return g, nil
}

// controlPoints turns the tie points of a file without a transform into ground control points. The
// CRS becomes that of the points.
func controlPoints(d *directory, g *raster.Grid) error {
	tie, err := d.floats(tiff.TagModelTiepoint)
	if err != nil || len(tie) < 6 {
		return err
	}
	half := 0.0
	if g.PixelIsPoint { // the tie points count from the centre of the first pixel
		half = 0.5
	}
	points := &raster.GCPs{CRS: g.CRS}
	for i := 0; i+6 <= len(tie); i += 6 {
		v := tie[i : i+6]
		points.Points = append(points.Points, raster.GCP{ID: strconv.Itoa(i/6 + 1), Pixel: v[0] + half,
			Line: v[1] + half, X: v[3], Y: v[4], Z: v[5]})
	}
	g.GCPs, g.CRS = points, raster.CRS{}
	return nil
}

// coefficients reads the RPC tag. It returns nil if there is none. bad is the reason if the tag's
// values can't be used.
func coefficients(d *directory) (r *raster.RPC, bad, err error) {
	v, err := d.floats(tiff.TagRPC)
	if err != nil || len(v) == 0 {
		return nil, nil, err
	}
	r, bad = georef.NewRPC(v)
	return r, bad, nil
}

// transform reads the affine transform as the file gives it.
func transform(d *directory) (t raster.Transform, ok bool, err error) {
	scale, err := d.floats(tiff.TagModelPixelScale)
	if err != nil {
		return t, false, err
	}
	tie, err := d.floats(tiff.TagModelTiepoint)
	if err != nil {
		return t, false, err
	}
	matrix, err := d.floats(tiff.TagModelTransform)
	if err != nil {
		return t, false, err
	}
	switch {
	case len(scale) >= 2 && scale[0] != 0 && scale[1] != 0:
		if len(tie) < 6 {
			return t, false, nil
		}
		t[1], t[5] = scale[0], -scale[1]
		if scale[1] < 0 { // invalid by the specification; like GDAL, treat it as positive
			t[5] = scale[1]
		}
		t[0] = tie[3] - float64(tie[0]*t[1])
		t[3] = tie[4] - float64(tie[1]*t[5])
		return t, true, nil
	case len(matrix) >= 16:
		return raster.Transform{matrix[3], matrix[0], matrix[1], matrix[7], matrix[4], matrix[5]}, true, nil
	}
	return t, false, nil
}

// readGeoKeys reads the three tags of the coordinate reference system. It returns nil if there are
// none.
func readGeoKeys(d *directory) (*raster.GeoKeys, error) {
	dir, err := d.uints(tiff.TagGeoKeyDirectory)
	if err != nil || len(dir) < 4 {
		return nil, err
	}
	k := &raster.GeoKeys{Directory: make([]uint16, len(dir))}
	for i, v := range dir {
		k.Directory[i] = uint16(v)
	}
	if k.Doubles, err = d.floats(tiff.TagGeoDoubleParams); err != nil {
		return nil, err
	}
	b, _, err := d.values(tiff.TagGeoASCIIParams, maxTextBytes)
	k.ASCII = strings.TrimRight(string(b), "\x00")
	return k, err
}

// geoShort returns the value of a numeric key, 0 if it is absent.
func geoShort(k *raster.GeoKeys, id uint16) uint16 {
	for i := 4; i+4 <= len(k.Directory); i += 4 {
		if k.Directory[i] == id && k.Directory[i+1] == 0 {
			return k.Directory[i+3]
		}
	}
	return 0
}

// geoText returns the value of a text key, "" if it is absent.
func geoText(k *raster.GeoKeys, id uint16) string {
	for i := 4; i+4 <= len(k.Directory); i += 4 {
		if k.Directory[i] != id || k.Directory[i+1] != tiff.TagGeoASCIIParams {
			continue
		}
		from := min(int(k.Directory[i+3]), len(k.ASCII))
		to := min(from+int(k.Directory[i+2]), len(k.ASCII))
		return strings.TrimSpace(strings.TrimRight(k.ASCII[from:to], "|\x00"))
	}
	return ""
}

// esriPrefix starts a citation that holds WKT.
const esriPrefix = "ESRI PE String = "

func crsOf(k *raster.GeoKeys) raster.CRS {
	c := raster.CRS{Keys: k}
	code := func(id uint16) {
		// 0 is undefined, and codes above 32767 are private.
		if v := geoShort(k, id); v > 0 && v < tiff.GeoUserDefined {
			c.Code = fmt.Sprintf("EPSG:%d", v)
		}
	}
	// The name of a projected CRS is in its own citation or in the general one, which otherwise
	// names the file. ESRI software writes WKT into either.
	citations := []uint16{tiff.GeoKeyCitation, tiff.GeoKeyProjectedCitation, tiff.GeoKeyGeodeticCitation}
	switch geoShort(k, tiff.GeoKeyModelType) {
	case tiff.GeoModelProjected:
		code(tiff.GeoKeyProjectedCRS)
	case tiff.GeoModelGeographic:
		code(tiff.GeoKeyGeodeticCRS)
		citations = []uint16{tiff.GeoKeyGeodeticCitation, tiff.GeoKeyCitation}
	default:
		if code(tiff.GeoKeyProjectedCRS); c.Code == "" && geoShort(k, tiff.GeoKeyProjectedCRS) == 0 {
			code(tiff.GeoKeyGeodeticCRS)
		}
	}
	for _, id := range citations {
		text := geoText(k, id)
		if wkt, ok := strings.CutPrefix(text, esriPrefix); ok {
			if c.WKT == "" {
				c.WKT = strings.TrimSpace(wkt)
			}
			continue
		}
		if c.Name == "" {
			c.Name = text
		}
	}
	if c.Name == "" && c.WKT != "" { // PROJCS["name",...
		if _, rest, ok := strings.Cut(c.WKT, `["`); ok {
			c.Name, _, _ = strings.Cut(rest, `"`)
		}
	}
	return c
}

// crsOfWKT returns the CRS of a WKT, with the code of its horizontal part.
func crsOfWKT(text string) raster.CRS {
	c := raster.CRS{WKT: text}
	n, err := wkt.Parse(text)
	if err != nil {
		return c
	}
	c.Name = n.Name()
	if h, _ := n.Parts(); h.EPSG() != 0 {
		c.Code = fmt.Sprintf("EPSG:%d", h.EPSG())
	}
	return c
}
