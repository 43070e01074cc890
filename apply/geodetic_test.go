package apply

import (
	"bytes"
	"fmt"
	"math"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"leat/internal/gdal"
	"leat/internal/pytest"
	"leat/raster"
)

// geodeticReference prints lon, lat and area of pixels: by PROJ and by geodesics between corners,
// and as the evaluator of package expr's tests has them, which follows the guide.
const geodeticReference = `
import json, math, sys
import numpy as np
from pyproj import Transformer, Geod
directory, job = json.load(sys.stdin)
sys.dont_write_bytecode = True
sys.path.insert(0, directory)
import geodetic
geod = Geod(ellps="WGS84")
out = []
for crs, t, pixels in job:
    to = Transformer.from_crs(crs, "EPSG:4326", always_xy=True)
    def at(c, r):
        return to.transform(t[0] + c * t[1] + r * t[2], t[3] + c * t[4] + r * t[5])
    rows = []
    for c, r in pixels:
        corners = [at(c, r), at(c + 1, r), at(c + 1, r + 1), at(c, r + 1)]
        area = abs(geod.polygon_area_perimeter([p[0] for p in corners], [p[1] for p in corners])[0])
        known = [float(geodetic.coordinate(name, crs, t, np.array([c]), np.array([r]))[0]) for name in geodetic.NAMES]
        row = [*at(c + 0.5, r + 0.5), area, *known]
        rows.append([repr(float(v)) for v in row])
    out.append(rows)
json.dump(out, sys.stdout)
`

func TestGeodeticCoordinates(t *testing.T) {
	t.Parallel()
	pytest.Python(t, "pyproj")
	dir := t.TempDir()
	const w, h = 150, 90
	cases := []struct {
		crs       string
		transform raster.Transform
	}{
		{"EPSG:32631", raster.Transform{500000, 10, 0, 5000000, 0, -10}},
		{"EPSG:3857", raster.Transform{-20037508.342789244, 600, 0, 9000000, 0, -600}},
		{"EPSG:3035", raster.Transform{4321000, 90, 0, 3210000, 0, -95}},
		{"EPSG:4326", raster.Transform{178, 0.002, 0, 70, 0, -0.002}},
		{"EPSG:4258", raster.Transform{8, 0.002, 0, 47, 0, -0.002}},
		{"EPSG:4326", raster.Transform{100, 1, 0, 91.5, 0, -1}},               // beyond the pole and the date line
		{"EPSG:3031", raster.Transform{-749999, 10000, 0, 449999, 0, -10000}}, // around the pole
	}
	var question [][3]any
	var samples [][2]int
	for i := range 40 {
		samples = append(samples, [2]int{i * 37 % w, i * 53 % h})
	}
	var got [][]float64
	for i, c := range cases {
		grid := raster.Grid{Width: w, Height: h, HasTransform: true, CRS: raster.CRS{Code: c.crs},
			Transform: c.transform}
		if err := gdal.OnPlane(grid, raster.CRS{Code: "EPSG:4326"}, func(gdal.Plane) error { return nil }); err != nil {
			t.Skip("no GDAL: ", err)
		}
		var all []byte
		for k, size := range []int{0, 32, 64} {
			out := filepath.Join(dir, fmt.Sprint(i, k, ".tif"))
			mustRun(t, Job{Expressions: map[string]string{"x": "[lon, lat, pixel_area]"},
				Outputs:  map[string]Output{"x": {Path: out, TileSize: 32}},
				Controls: Controls{Grid: &grid, WindowWidth: size, WindowHeight: size}})
			if text := fileBytes(t, out); k == 0 {
				all = text
			} else if !bytes.Equal(text, all) {
				t.Errorf("%s: blocks of %d pixels give another file", c.crs, size)
			}
		}
		got = append(got, pixels[float64](t, filepath.Join(dir, fmt.Sprint(i, 0, ".tif"))))
		question = append(question, [3]any{c.crs, c.transform, samples})
	}
	directory, err := filepath.Abs("../internal/expr/testdata")
	if err != nil {
		t.Fatal(err)
	}
	var want [][][6]string
	pytest.Run(t, []string{"numpy", "pyproj"}, geodeticReference, []any{directory, question}, &want)
	for i, c := range cases {
		for k, at := range samples {
			for number, name := range []string{"lon", "lat", "pixel_area", "lon", "lat", "pixel_area"} {
				g := got[i][(number%3*h+at[1])*w+at[0]]
				r, err := strconv.ParseFloat(want[i][k][number], 64)
				if err != nil {
					t.Fatal(err)
				}
				limit := 1e-10
				switch {
				case number == 2: // sides are geodesics there
					limit = 2e-6 * r
				case number == 5:
					limit = 1e-9*r + 1e-6
				}
				if i >= 5 && number < 3 || math.IsNaN(g) && math.IsNaN(r) {
					continue
				}
				if d := math.Abs(g - r); !(d <= limit) && !(math.Abs(d-360) <= limit) {
					t.Fatalf("%s, %s of pixel %v: %.15g, reference %.15g", c.crs, name, at, g, r)
				}
			}
		}
	}
}

func TestGeodeticWithoutCRS(t *testing.T) {
	grid := raster.Grid{Width: 10, Height: 10}
	_, err := Run(t.Context(), Job{Expressions: map[string]string{"x": "lon"},
		Outputs: map[string]Output{"x": {Path: filepath.Join(t.TempDir(), "x.tif")}}, Controls: Controls{Grid: &grid}})
	if err == nil || !strings.Contains(err.Error(), "need a grid with a CRS") {
		t.Error(err)
	}
}
