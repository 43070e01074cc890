package apply

import (
	"path/filepath"
	"strings"
	"testing"

	"leat/apply/internal/resolve"
	"leat/raster"
)

func TestPlanWarped(t *testing.T) {
	needGDAL(t)
	dir := t.TempDir()
	grid := mapGrid(20, 20, 0, 0)
	px := terrain[uint8](20, 20, 1)
	reference := write(t, filepath.Join(dir, "reference.tif"), grid, px, nil)
	rotated := filepath.Join(dir, "rotated.tif")
	turned := grid
	turned.Transform[2], turned.Transform[4] = grid.Transform[1]/2, -grid.Transform[5]/2
	writeRotated(t, rotated, turned)
	between, coarse, upside := grid, grid, grid
	between.Transform[0] += grid.Transform[1] / 4
	coarse.Transform[1], coarse.Transform[5] = 2*grid.Transform[1], 2*grid.Transform[5]
	upside.Transform[3] += 20 * grid.Transform[5]
	upside.Transform[5] = -grid.Transform[5]
	file := func(name string, g raster.Grid) string { return write(t, filepath.Join(dir, name), g, px, nil) }
	for path, want := range map[string]string{
		rotated:                         "warped by bilinear: it is rotated",
		file("between.tif", between):    "warped by bilinear: its pixels lie 0.25 pixel to the right",
		file("coarse.tif", coarse):      "warped by bilinear: pixel size ",
		file("upside-down.tif", upside): "warped by bilinear: its rows run from south to north",
	} {
		job := onto(path, reference, "bilinear", filepath.Join(dir, "out.tif"))
		p, err := MakePlan(t.Context(), job)
		if err != nil {
			t.Fatal(path, err)
		}
		found := ""
		for _, in := range p.Inputs {
			found += in.Warped
		}
		if !strings.HasPrefix(found, want) {
			t.Errorf("%s: %q, expected %q", path, found, want)
		}
	}
}

func TestVectorGivenAsRaster(t *testing.T) {
	t.Parallel()
	path := filepath.Join(vectorFiles(t), "a.gpkg")
	if _, err := resolve.OpenRaster(path); err == nil || !strings.Contains(err.Error(), path+": it holds vectors") {
		t.Error(err)
	}
}
