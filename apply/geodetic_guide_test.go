package apply

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"leat/internal/gdal"
	"leat/internal/geotiff"
	"leat/raster"
)

// The guide's examples of lon, lat and pixel_area have no inputs and begin with their grid:
//
//	```expr on CRS from X Y, pixels SIZE wide and high, N columns, N rows
func TestGeodeticExamplesOfTheGuide(t *testing.T) {
	data, err := os.ReadFile("../docs/guide/expressions.md")
	if err != nil {
		t.Fatal(err)
	}
	examples := 0
	for _, text := range strings.Split(string(data), "```expr on ")[1:] {
		text, _, _ = strings.Cut(text, "```")
		head, lines, _ := strings.Cut(text, "\n")
		var crs string
		var x, y, size float64
		var columns, rows int
		if _, err := fmt.Sscanf(strings.ReplaceAll(head, ",", " "), "%s from %g %g pixels %g wide and high %d columns %d rows",
			&crs, &x, &y, &size, &columns, &rows); err != nil {
			t.Fatalf("%s: %v", head, err)
		}
		grid := raster.Grid{Width: columns, Height: rows, HasTransform: true, CRS: raster.CRS{Code: crs},
			Transform: raster.Transform{x, size, 0, y, 0, -size}}
		if err := gdal.OnPlane(grid, raster.CRS{Code: "EPSG:4326"}, func(gdal.Plane) error { return nil }); err != nil &&
			crs != "EPSG:4326" {
			t.Log("no GDAL: ", err)
			continue
		}
		for _, line := range strings.Split(strings.TrimSpace(lines), "\n") {
			expression, want, ok := strings.Cut(line, " gives ")
			if !ok {
				t.Fatalf("%s: no example", line)
			}
			examples++
			out := filepath.Join(t.TempDir(), "x.tif")
			mustRun(t, Job{Expressions: map[string]string{"x": strings.TrimSpace(expression)},
				Outputs: map[string]Output{"x": {Path: out}}, Controls: Controls{Grid: &grid}})
			if got := shown(t, out, columns); got != want {
				t.Errorf("%s: %s", line, got)
			}
		}
	}
	if examples < 5 {
		t.Errorf("only %d examples found", examples)
	}
}

// shown returns type and pixels of a file of one band as the guide writes them.
func shown(t *testing.T, path string, columns int) string {
	t.Helper()
	f, err := geotiff.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	band := f.Info().Bands[0]
	var values []float64
	if band.Type.Size() == 8 {
		values = pixels[float64](t, path)
	} else {
		for _, v := range pixels[uint8](t, path) {
			values = append(values, float64(v))
		}
	}
	text := band.Type.String() + ":"
	for i, v := range values {
		if i > 0 && i%columns == 0 {
			text += " /"
		}
		if math.IsNaN(v) || band.Nodata != nil && band.Nodata.Float64() == v {
			text += " -"
		} else {
			text += " " + strconv.FormatFloat(v, 'f', -1, 64)
		}
	}
	return text
}
