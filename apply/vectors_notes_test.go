package apply

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"leat/raster"
)

func TestNoteOnUnburnedFeatures(t *testing.T) {
	needGDAL(t)
	dir := t.TempDir()
	path := filepath.Join(dir, "a.geojson")
	ring := func(points string) string {
		return `{"type": "Feature", "properties": {"n": 1}, "geometry": {"type": "Polygon", "coordinates": [[` +
			points + `]]}}`
	}
	text := `{"type": "FeatureCollection", "features": [` + ring("[2,46],[5,46],[5,48],[2,48],[2,46]") + "," +
		ring("[-180,-90],[180,-90],[180,-60],[-180,-60],[-180,-90]") + "]}"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	grid := raster.Grid{Width: 20, Height: 20, Transform: raster.Transform{600000, 10000, 0, 6800000, 0, -10000},
		HasTransform: true, CRS: raster.CRS{Code: "EPSG:2154"}}
	for name, c := range map[string]struct {
		vector Vector
		note   string
	}{
		"a pole in Lambert's projection": {Vector{},
			"1 feature was left out of v (" + path + "), with points that have no place in EPSG:2154"},
		"a condition that none meets": {Vector{Where: "n > 7"},
			"no feature of v (" + path + ") is burned: there is none with a geometry and n > 7"},
		"a statement that gives none": {Vector{SQL: "SELECT * FROM a WHERE n > 7"},
			"no feature of v (" + path + ") is burned: the statement gives none with a geometry"},
	} {
		t.Run(name, func(t *testing.T) {
			c.vector.Path = path
			res := mustRun(t, vectorJob(t.TempDir(), grid, map[string]Vector{"v": c.vector}))
			if !slices.ContainsFunc(noteTexts(res.Plan.Notes),
				func(n string) bool { return strings.HasPrefix(n, c.note) }) {
				t.Errorf("notes %q, without: %s", res.Plan.Notes, c.note)
			}
		})
	}
}
