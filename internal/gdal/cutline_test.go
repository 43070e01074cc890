package gdal

import (
	"encoding/base64"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"leat/internal/pytest"
	"leat/raster"
)

const cutlineTruth = `
import json, sys, base64
from osgeo import gdal, osr
gdal.UseExceptions()
out = []
for c in json.load(sys.stdin):
    s = osr.SpatialReference(); s.SetFromUserInput(c["crs"]); s.SetAxisMappingStrategy(osr.OAMS_TRADITIONAL_GIS_ORDER)
    d = gdal.GetDriverByName("MEM").Create("", c["w"], c["h"], 1, gdal.GDT_Byte)
    d.SetGeoTransform(c["six"]); d.SetSpatialRef(s); d.GetRasterBand(1).Fill(1)
    e = gdal.Warp("", d, format="MEM", cutlineDSName=c["path"], dstNodata=0,
        warpOptions=["CUTLINE_ALL_TOUCHED=TRUE"] if c["touched"] else [])
    out.append(base64.b64encode(e.ReadAsArray().tobytes()).decode())
json.dump(out, sys.stdout)
`

// polygonFile writes a GeoJSON file of one feature.
func polygonFile(t *testing.T, crs, geometry string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "cut.geojson")
	text := fmt.Sprintf(`{"type": "FeatureCollection", "crs": {"type": "name", "properties": {"name": "urn:ogc:def:crs:EPSG::%s"}},
"features": [{"type": "Feature", "properties": {}, "geometry": %s}]}`, crs, geometry)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func polygonText(xy []float64) string {
	var points []string
	for i := 0; i+1 < len(xy); i += 2 {
		points = append(points, fmt.Sprintf("[%.9g, %.9g]", xy[i], xy[i+1]))
	}
	points = append(points, points[0])
	return `{"type": "Polygon", "coordinates": [[` + strings.Join(points, ", ") + `]]}`
}

// Long edges that are straight in the layer's CRS are curves on the grid: gdalwarp -cutline follows
// them, and gdal_rasterize does not.
func TestCutlineEqualsGdalwarp(t *testing.T) {
	needGDAL(t)
	rnd := rand.New(rand.NewPCG(1, 2))
	// star returns a ring around a point.
	star := func(x, y, radius float64) (xy []float64) {
		n := 3 + rnd.IntN(5)
		for i := range n {
			a := 2 * math.Pi * (float64(i) + 0.7*rnd.Float64()) / float64(n)
			r := radius * (0.3 + 0.7*rnd.Float64())
			xy = append(xy, x+r*math.Cos(a), y+r*math.Sin(a))
		}
		return xy
	}
	type kind struct {
		name, crs string
		x, y, r   float64 // of the polygons, in their CRS
		grid      raster.Grid
	}
	grid := func(code string, n int, x, y, size float64) raster.Grid {
		return raster.Grid{Width: n, Height: n, HasTransform: true,
			Transform: raster.Transform{x, size, 0, y, 0, -size}, CRS: raster.CRS{Code: code}}
	}
	kinds := []kind{
		{"degrees on UTM", "4326", 3.1, 45, 4, grid("EPSG:32631", 300, 300000, 5200000, 1300)},
		{"UTM on degrees", "32631", 500000, 5000000, 300000, grid("EPSG:4326", 250, 0, 48, 0.025)},
		{"mercator on Lambert", "3857", 1100000, 6600000, 900000, grid("EPSG:3035", 200, 3600000, 3600000, 7000)},
		{"degrees around a pole", "4326", 20, -80, 9, grid("EPSG:3031", 220, -900000, 2100000, 9000)},
	}
	type cutline struct {
		Path    string     `json:"path"`
		CRS     string     `json:"crs"`
		Six     [6]float64 `json:"six"`
		W       int        `json:"w"`
		H       int        `json:"h"`
		Touched bool       `json:"touched"`
	}
	var list []cutline
	var grids []raster.Grid
	var names []string
	for _, k := range kinds {
		for i := range 8 {
			path := polygonFile(t, k.crs, polygonText(star(k.x, k.y, k.r)))
			list = append(list, cutline{path, k.grid.CRS.Code, k.grid.Transform, k.grid.Width, k.grid.Height, i%4 == 3})
			grids, names = append(grids, k.grid), append(names, fmt.Sprint(k.name, " ", i))
		}
	}
	var truth []string
	pytest.Run(t, []string{"osgeo.gdal"}, cutlineTruth, list, &truth)
	other := 0
	for i, k := range list {
		want, err := base64.StdEncoding.DecodeString(truth[i])
		if err != nil {
			t.Fatal(err)
		}
		r := VectorRequest{Path: k.Path, Cutline: true, AllTouched: k.Touched}
		got := burnt(t, r, grids[i])
		if k.Touched {
			// GDAL also burns some pixels that an edge misses by up to a hundredth of a pixel.
			// Which ones depends on the vertices.
			n := 0
			for j, v := range got.Raw() {
				if v != want[j] {
					n++
				}
			}
			if n > 3 {
				t.Errorf("%s: %d pixels differ", names[i], n)
			}
		} else {
			differ(t, names[i], got, want, nil, nil)
		}
		r.Cutline = false
		for j, v := range burnt(t, r, grids[i]).Raw() {
			if v != want[j] {
				other++
				break
			}
		}
	}
	if other < len(list)/2 {
		t.Errorf("transformed vertices alone give other pixels for %d of %d polygons", other, len(list))
	}
}

func TestCutlineBatches(t *testing.T) {
	needGDAL(t)
	g := raster.Grid{Width: 50, Height: 40, HasTransform: true, CRS: raster.CRS{Code: "EPSG:32631"},
		Transform: raster.Transform{500000, 1000, 0, 5000000, 0, -1000}}
	var features []string
	for i := range 30 {
		x, y := 3+0.02*float64(i), 45-0.01*float64(i)
		features = append(features, `{"type": "Feature", "properties": {}, "geometry": `+
			polygonText([]float64{x, y, x + 0.03, y, x + 0.03, y - 0.03})+`}`)
	}
	features = append(features, `{"type": "Feature", "properties": {}, "geometry": null}`,
		`{"type": "Feature", "properties": {}, "geometry": {"type": "Polygon", "coordinates": []}}`)
	path := filepath.Join(t.TempDir(), "a.geojson")
	text := `{"type": "FeatureCollection", "features": [` + strings.Join(features, ",\n") + `]}`
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	r := VectorRequest{Path: path, Cutline: true}
	whole := burnt(t, r, g)
	defer func(n int) { maxBatchVertices = n }(maxBatchVertices)
	maxBatchVertices = 7
	differ(t, "in batches", burnt(t, r, g), whole.Raw(), nil, nil)
	n, err := Rasterize(t.Context(), r, g, filepath.Join(t.TempDir(), "b.tif"))
	if err != nil || n.Features != 30 || n.Unplaced != 0 {
		t.Errorf("%+v, %v", n, err)
	}
}

// A feature across the line at which the CRS of the grid ends would burn pixels of its gap.
func TestCutlineAcrossSeam(t *testing.T) {
	needGDAL(t)
	box := func(west, south, east, north float64) string {
		return polygonFile(t, "4326", polygonText([]float64{west, south, east, south, east, north, west, north}))
	}
	mercator := raster.Grid{Width: 80, Height: 60, HasTransform: true, CRS: raster.CRS{Code: "EPSG:3857"},
		Transform: raster.Transform{-4e6, 1e5, 0, 3e6, 0, -1e5}}
	for name, c := range map[string]struct {
		path, err string
		pixels    bool
	}{
		"across the grid's rows": {path: box(170, -10, 190, 10), err: "feature 0: an edge is cut in two in EPSG:3857"},
		"north of the grid":      {path: box(170, 50, 190, 60)},
		"ends at the seam":       {path: box(-180, -10, 180, 10), pixels: true},
	} {
		t.Run(name, func(t *testing.T) {
			to := filepath.Join(t.TempDir(), "a.tif")
			_, err := Rasterize(t.Context(), VectorRequest{Path: c.path, Cutline: true}, mercator, to)
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) || exists(to) {
					t.Errorf("%v; the file exists: %v", err, exists(to))
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			some := false
			for _, v := range burnt(t, VectorRequest{Path: c.path, Cutline: true}, mercator).Raw() {
				some = some || v != 0
			}
			if some != c.pixels {
				t.Errorf("pixels: %v", some)
			}
		})
	}
}

func TestCutlineOfPolygonsOnly(t *testing.T) {
	needGDAL(t)
	point := `{"type": "Point", "coordinates": [3, 45]}`
	line := `{"type": "LineString", "coordinates": [[3, 45], [3.1, 45.1]]}`
	for want, geometry := range map[string]string{
		"Point":       point,
		"Line String": `{"type": "GeometryCollection", "geometries": [` + polygonText([]float64{3, 45, 3.1, 45, 3, 45.1}) + `, ` + line + `]}`,
	} {
		for _, code := range []string{"EPSG:4326", "EPSG:32631"} {
			g := raster.Grid{Width: 5, Height: 5, HasTransform: true, CRS: raster.CRS{Code: code},
				Transform: raster.Transform{3, 1, 0, 45, 0, -1}}
			r := VectorRequest{Path: polygonFile(t, "4326", geometry), Cutline: true}
			_, err := Rasterize(t.Context(), r, g, filepath.Join(t.TempDir(), "a.tif"))
			if err == nil || !strings.Contains(err.Error(), "feature 0 of the cutline is or has a "+want) {
				t.Errorf("%s on %s: %v", want, code, err)
			}
		}
	}
}
