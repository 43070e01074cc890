package apply

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"leat/ndarray"
	"leat/raster"
	"leat/raster/gdal"
)

func TestFormatsOfOneSizeAreWritten(t *testing.T) {
	needFormat(t, "SRTMHGT")
	const side, step = 1201, 1.0 / 1200
	grid := raster.Grid{Width: side, Height: side, CRS: raster.CRS{Code: "EPSG:4326"}, HasTransform: true, Transform: raster.Transform{5 - step/2, step, 0, 48 + step/2, 0, -step}}
	o := Output{Path: filepath.Join(t.TempDir(), "N47E005.hgt"), Format: "SRTMHGT", Type: ndarray.Int16, Bands: 1, NoOverviews: true}
	px := terrain[int16](side, side, 1)
	mustRun(t, sliceJob(grid, px, o))
	f, err := gdal.Open(o.Path, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if !slices.Equal(allOf[int16](t, f), px) {
		t.Error("other pixels")
	}
	o.Path = filepath.Join(t.TempDir(), "N47E006.hgt")
	grid.Width--
	failRun(t, sliceJob(grid, px, o), "N47E006.hgt", "1201x1201")
}

func TestAFormatWithoutTypesIsWritten(t *testing.T) {
	needFormat(t, "XYZ")
	o := Output{Path: filepath.Join(t.TempDir(), "x.xyz"), Format: "XYZ", Type: ndarray.Int32, Bands: 1, NoOverviews: true}
	px := make([]int32, 64*64)
	for i := range px {
		px[i] = int32(i % 200)
	}
	res := mustRun(t, sliceJob(mapGrid(64, 64, 0, 0), px, o))
	if w := strings.Join(res.Outputs[0].Warnings, "; "); !strings.Contains(w, "these are read as uint8") {
		t.Errorf("the warnings are %q", w)
	}
	f, err := gdal.Open(o.Path, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for i, v := range allOf[uint8](t, f) {
		if int32(v) != px[i] {
			t.Fatalf("pixel %d is %d, not %d", i, v, px[i])
		}
	}
}
