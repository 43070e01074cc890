package apply

import (
	"path/filepath"
	"strings"
	"testing"

	"leat/raster"
)

func TestNoteOnAveragedClasses(t *testing.T) {
	needGDAL(t)
	dir := t.TempDir()
	grid := mapGrid(20, 20, 0, 0)
	off := grid
	off.Transform[0] += grid.Transform[1] / 4
	px := terrain[uint8](20, 20, 1)
	reference := write(t, filepath.Join(dir, "reference.tif"), grid, px, nil)
	plain := write(t, filepath.Join(dir, "plain.tif"), off, px, nil)
	classes := write(t, filepath.Join(dir, "classes.tif"), off, px,
		func(o *Output) { o.Colors = []raster.RGBA{{A: 255}, {R: 255, A: 255}} })
	for _, c := range []struct {
		path, method string
		noted        bool
	}{{classes, "average", true}, {classes, "bilinear", true}, {classes, "near", false}, {classes, "mode", false},
		{classes, "", false}, {plain, "average", false}} {
		p, err := MakePlan(t.Context(), onto(c.path, reference, c.method, filepath.Join(dir, "out.tif")))
		if err != nil {
			t.Fatal(err)
		}
		if noted := strings.Contains(strings.Join(noteTexts(p.Notes), "\n"), "b ("+c.path+") has a colour table"); noted != c.noted {
			t.Errorf("%s by %q: notes %q", filepath.Base(c.path), c.method, p.Notes)
		}
	}
}
