package apply

import (
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"
	"testing"

	"leat/internal/pytest"
	"leat/raster"
)

func TestOutputMetadata(t *testing.T) {
	path := filepath.Join(t.TempDir(), "classes.tif")
	px := make([]uint8, 300*200)
	for i := range px {
		px[i] = uint8(i % 3)
	}
	o := Output{Path: path, LayerNames: []string{"class"}, Thematic: true, Unit: "1",
		Metadata: map[string]string{"SOURCE": "a <b> & c"},
		Colors:   []raster.RGBA{{A: 0}, {R: 255, A: 255}, {G: 200, B: 1, A: 255}}, HistAux: true, BigTIFF: true,
		TileSize: 128,
		BeforeClose: func(info *raster.Info) error {
			info.Metadata["HOOK"] = info.Bands[0].Metadata["STATISTICS_MAXIMUM"]
			return nil
		}}
	mustRun(t, sliceJob(mapGrid(300, 200, 0, 0), px, o))
	i := open(t, path).Info()
	b := i.Bands[0]
	if b.Name != "class" || b.Unit != "1" || b.Metadata["LAYER_TYPE"] != "thematic" ||
		i.Metadata["SOURCE"] != "a <b> & c" || i.Metadata["HOOK"] != "2" ||
		b.Colors[2] != (raster.RGBA{G: 200, B: 1, A: 255}) || !i.BigTIFF || i.TileWidth != 128 {
		t.Errorf("%+v", i)
	}
	var got struct {
		Counts []int
		Lo, Hi float64
		Color  []int
		Name   string
	}
	pytest.Run(t, []string{"osgeo.gdal"}, `
import json, sys
from osgeo import gdal
d = gdal.Open(json.load(sys.stdin)) # which must outlive its band
b = d.GetRasterBand(1)
lo, hi, n, counts = b.GetDefaultHistogram(force=False)
print(json.dumps(dict(Counts=counts, Lo=lo, Hi=hi, Color=b.GetColorTable().GetColorEntry(2), Name=b.GetDescription())))
`, path, &got)
	if len(got.Counts) != 3 || got.Counts[0] != 20000 || got.Counts[2] != 20000 || got.Lo != -0.5 || got.Hi != 2.5 ||
		got.Name != "class" || got.Color[1] != 200 {
		t.Errorf("GDAL reads %+v", got)
	}
}

func TestOldSidecarsRemoved(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a.tif")
	for _, ext := range []string{"", ".aux.xml", ".ovr", ".msk"} {
		if err := os.WriteFile(path+ext, []byte("stale"), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	write(t, path, mapGrid(30, 30, 0, 0), terrain[uint8](30, 30, 1), nil)
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 || entries[0].Name() != "a.tif" {
		t.Errorf("%v %v", entries, err)
	}
}

func TestTempDir(t *testing.T) {
	dir, temp := t.TempDir(), t.TempDir()
	job := sliceJob(mapGrid(30, 30, 0, 0), terrain[uint8](30, 30, 1),
		Output{Path: filepath.Join(dir, "a.tif"), TempDir: temp})
	work := job.Func
	job.Func = func(ctx context.Context, b *Block) error {
		if found, _ := filepath.Glob(filepath.Join(temp, ".a.tif.*.leat-part")); len(found) != 1 {
			t.Errorf("%v", found)
		} else if st, err := os.Stat(found[0]); err != nil || st.Mode().Perm() != 0o600 {
			t.Error(st, err)
		}
		return work(ctx, b)
	}
	mustRun(t, job)
	noTraces(t, temp)
	noTraces(t, dir)
}

func TestInvalidOutputs(t *testing.T) {
	dir := t.TempDir()
	in := write(t, filepath.Join(dir, "in.tif"), mapGrid(30, 30, 0, 0), terrain[uint8](30, 30, 1), nil)
	link := filepath.Join(dir, "link.tif")
	if err := os.Symlink(in, link); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "folder.tif"), 0o777); err != nil {
		t.Fatal(err)
	}
	before := fileBytes(t, in)
	at := func(name string) string { return filepath.Join(dir, name) }
	for name, c := range map[string]struct {
		outputs map[string]Output
		want    []string
	}{
		"an input":      {map[string]Output{"o": {Path: in}}, []string{in, "input a"}},
		"a link to one": {map[string]Output{"o": {Path: link}}, []string{"in.tif", "input a"}},
		"one file twice": {map[string]Output{"o": {Path: at("x.tif")}, "p": {Path: at("./x.tif")}},
			[]string{"outputs o and p", "x.tif"}},
		"a missing directory": {map[string]Output{"o": {Path: at("none/x.tif")}}, []string{at("none"), "does not exist"}},
		"a directory":         {map[string]Output{"o": {Path: at("folder.tif")}}, []string{"folder.tif", "folder"}},
		"no file":             {map[string]Output{"o": {}}, []string{"output o", "no file"}},
		"another format":      {map[string]Output{"o": {Path: at("x.png")}}, []string{"x.png", ".tif"}},
		"an existing file":    {map[string]Output{"o": {Path: in + "f", NoClobber: true}}, []string{"exists"}},
		"levels": {map[string]Output{"o": {Path: at("x.tif"), Overviews: []int{3}}},
			[]string{"powers of two"}},
		"a level alone": {map[string]Output{"o": {Path: at("x.tif"), Overviews: []int{1024}}}, []string{"512"}},
		"a tile size":   {map[string]Output{"o": {Path: at("x.tif"), TileSize: 100}}, []string{"multiple of 16"}},
		"a compression": {map[string]Output{"o": {Path: at("x.tif"), Compression: "jpeg"}},
			[]string{"jpeg", "deflate"}},
		"a predictor": {map[string]Output{"o": {Path: at("x.tif"), Type: 1, Predictor: 3}},
			[]string{"predictor 3", "uint8"}},
		"a level of effort": {map[string]Output{"o": {Path: at("x.tif"), Type: 1, Level: 77}},
			[]string{"77", "1 to 9"}},
		"a nodata value": {map[string]Output{"o": {Path: at("x.tif"), Type: 1, Nodata: "-1"}},
			[]string{"-1", "uint8"}},
		"a temporary place": {map[string]Output{"o": {Path: at("x.tif"), TempDir: at("none")}}, []string{at("none")}},
	} {
		t.Run(name, func(t *testing.T) {
			if name == "an existing file" {
				if err := os.WriteFile(in+"f", before, 0o666); err != nil {
					t.Fatal(err)
				}
				defer os.Remove(in + "f")
			}
			t.Log(failRun(t, Job{Inputs: map[string]Input{"a": File(in)}, Outputs: c.outputs, Func: nothing},
				c.want...))
			sameFileBytes(t, name, in, before)
			noTraces(t, dir)
			if _, err := os.Stat(at("x.tif")); !errors.Is(err, os.ErrNotExist) {
				t.Error("an output was made")
			}
		})
	}
}

func TestHookError(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a.tif")
	o := Output{Path: path, BeforeClose: func(*raster.Info) error { return errors.New("not so") }}
	job := sliceJob(mapGrid(30, 30, 0, 0), terrain[uint8](30, 30, 1), o)
	err := failRun(t, job, "not so", "output out")
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Error("an output was made")
	}
	noTracesBut(t, err, dir, job.Outputs)
}

func TestPixelInterleave(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rgb.tif")
	px := append(append(terrain[uint16](130, 70, 1), terrain[uint16](130, 70, 2)...), terrain[uint16](130, 70, 3)...)
	mustRun(t, sliceJob(mapGrid(130, 70, 0, 0), px,
		Output{Path: path, PixelInterleave: true, TileSize: 64, Overviews: []int{2}, OverviewMethod: "average"}))
	sum := 0
	for _, v := range px[2*130*70:] {
		sum += int(v)
	}
	i := open(t, path).Info()
	if mean := parse(t, i.Bands[2].Metadata["STATISTICS_MEAN"]); i.Interleave != "pixel" ||
		math.Abs(mean-float64(sum)/130/70) > 1e-9 {
		t.Errorf("interleave %s, mean of band 3 %v", i.Interleave, mean)
	}
	samePixels(t, "pixels", 130, pixels[uint16](t, path), px)
}
