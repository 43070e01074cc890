package apply

import (
	"context"
	"math"
	"path/filepath"
	"strings"
	"testing"

	"leat/internal/pytest"
	"leat/ndarray"
)

// validPixels runs a job that collects Valid of input a over the whole grid, as rows of # and dots.
func validPixels(t *testing.T, in Input, c Controls) []string {
	t.Helper()
	var grid []byte
	width := 0
	job := Job{Inputs: map[string]Input{"a": in}, Controls: c,
		Func: func(_ context.Context, b *Block) error {
			v := b.Valid("a")
			if b.Blocks().Count() != 1 {
				t.Errorf("%d blocks", b.Blocks().Count())
			}
			width = v.Shape[2]
			grid = append(grid, v.Raw()...)
			return nil
		}}
	mustRun(t, job)
	var rows []string
	for i := 0; i < len(grid); i += width {
		var s strings.Builder
		for _, v := range grid[i : i+width] {
			s.WriteByte(".#"[v])
		}
		rows = append(rows, s.String())
	}
	return rows
}

func wantRows(t *testing.T, got []string, want ...string) {
	t.Helper()
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("valid pixels\n%s\nnot\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestValidNodataAndNaN(t *testing.T) {
	dir := t.TempDir()
	nan := float32(math.NaN())
	f := write(t, filepath.Join(dir, "f.tif"), mapGrid(3, 2, 0, 0), []float32{1, nan, -9, 4, -9, 6},
		func(o *Output) { o.Nodata = "-9" })
	wantRows(t, validPixels(t, File(f), Controls{}), "#..", "#.#")
	wantRows(t, validPixels(t, Input{Files: []string{f}, Nodata: []string{"6"}}, Controls{}), "#.#", "##.")
	wantRows(t, validPixels(t, Input{Files: []string{f}, Nodata: []string{"none"}}, Controls{}), "#.#", "###")
	two := write(t, filepath.Join(dir, "two.tif"), mapGrid(2, 1, 0, 0), []uint8{0, 7, 0, 7}, nil)
	wantRows(t, validPixels(t, Input{Files: []string{two}, Nodata: []string{"0", "7"}}, Controls{}), ".#", "#.")
	wantRows(t, validPixels(t, Input{Files: []string{two}, Nodata: []string{"0", "7"}}, Controls{NoMask: true}), "##",
		"##")
	wantRows(t, validPixels(t, Input{Files: []string{two}, Layers: []int{2}, Nodata: []string{"7"}}, Controls{}), "#.")
	failRun(t, Job{Inputs: map[string]Input{"a": {Files: []string{two}, Nodata: []string{"300"}}}, Func: nothing},
		"300", "uint8", two)
	failRun(t, Job{Inputs: map[string]Input{"a": {Files: []string{two}, Layers: []int{3}}}, Func: nothing}, two,
		"2 bands", "3")
}

func TestPixelsOutsideFile(t *testing.T) {
	dir := t.TempDir()
	a := write(t, filepath.Join(dir, "a.tif"), mapGrid(2, 2, 0, 0), []uint8{1, 2, 3, 4},
		func(o *Output) { o.Nodata = "9" })
	b := write(t, filepath.Join(dir, "b.tif"), mapGrid(2, 2, 1, 1), []uint8{5, 6, 7, 8}, nil)
	var got []uint8
	job := Job{Inputs: map[string]Input{"a": File(a), "b": File(b)}, Controls: Controls{Footprint: Union},
		Func: func(_ context.Context, bl *Block) error {
			got = append(append([]uint8{}, Band[uint8](bl, "a", 1)...), Band[uint8](bl, "b", 1)...)
			for i, v := range bl.Valid("b").Raw() {
				if (v == 1) != (i%3 > 0 && i/3 > 0) {
					t.Errorf("pixel %d of b counts: %d", i, v)
				}
			}
			return nil
		}}
	mustRun(t, job)
	samePixels(t, "a and b", 3, got, []uint8{1, 2, 9, 3, 4, 9, 9, 9, 9, 0, 0, 0, 0, 5, 6, 0, 7, 8})
}

func TestMasksAndNoMask(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	inside, sidecar, alpha := filepath.Join(dir, "inside.tif"), filepath.Join(dir, "sidecar.tif"),
		filepath.Join(dir, "alpha.tif")
	pytest.Run(t, []string{"rasterio", "numpy"}, `
import json, sys, numpy as np, rasterio
from rasterio.enums import ColorInterp
inside, sidecar, alpha = json.load(sys.stdin)
px = np.arange(6, dtype='uint8').reshape(2, 3)
mask = np.array([[255, 0, 255], [0, 255, 255]], 'u1')
for path, internal in ((inside, 'YES'), (sidecar, 'NO')):
    with rasterio.Env(GDAL_TIFF_INTERNAL_MASK=internal):
        with rasterio.open(path, 'w', driver='GTiff', width=3, height=2, count=1, dtype='uint8') as d:
            d.write(px, 1); d.write_mask(mask)
with rasterio.open(alpha, 'w', driver='GTiff', width=3, height=2, count=2, dtype='uint8') as d:
    d.colorinterp = [ColorInterp.gray, ColorInterp.alpha]
    d.write(px, 1); d.write(mask // 5, 2)
print('null')
`, []string{inside, sidecar, alpha}, nil)
	for _, path := range []string{inside, sidecar} {
		wantRows(t, validPixels(t, File(path), Controls{}), "#.#", ".##")
		wantRows(t, validPixels(t, File(path), Controls{NoMask: true}), "###", "###")
		wantRows(t, validPixels(t, File(path), Controls{Overlap: 1}), ".....", ".#.#.", "..##.", ".....")
	}
	wantRows(t, validPixels(t, Input{Files: []string{alpha}, Layers: []int{1}}, Controls{}), "#.#", ".##")
}

func TestBlockMethods(t *testing.T) {
	dir := t.TempDir()
	a := write(t, filepath.Join(dir, "a.tif"), mapGrid(600, 300, 5, 7), make([]uint8, 600*300),
		func(o *Output) { o.Nodata = "3" })
	b := write(t, filepath.Join(dir, "b.tif"), mapGrid(600, 300, 5, 7), make([]uint8, 600*300), nil)
	type params struct{ factor int }
	blocks := make(chan int, 100)
	job := Job{Inputs: map[string]Input{"a": File(a), "l": Files(a, b)}, Params: params{7},
		Controls:    Controls{Overlap: 2, WindowWidth: 256, WindowHeight: 256},
		Concurrency: Concurrency{Workers: 2},
		Setup:       func(_ context.Context, w WorkerInfo) (any, error) { return 100 + w.Worker, nil },
		Func: func(_ context.Context, bl *Block) error {
			blocks <- bl.Number
			if n := bl.State().(int); n != 100 && n != 101 {
				t.Error("state", n)
			}
			plan := bl.Blocks()
			if bl.Params().(params).factor != 7 || plan.Count() != 6 || plan.Cols() != 3 || plan.Rows() != 2 ||
				bl.Overlap() != 2 {
				t.Error("params, blocks or overlap")
			}
			if v, ok := bl.Nodata("a", 1); !ok || v != ndarray.ScalarOf[uint8](3) {
				t.Error("nodata", v, ok)
			}
			if bl.Paths("a")[0] != a || len(bl.Paths("l")) != 2 || bl.Paths("l")[1] != b || len(bl.InList("l")) != 2 {
				t.Error("paths")
			}
			if bl.Rows() != bl.Window.Height+4 || bl.Columns() != bl.Window.Width+4 ||
				bl.In("a").Shape[1] != bl.Rows() || bl.In("a").Shape[2] != bl.Columns() {
				t.Error("size")
			}
			x, y := bl.Coordinates()
			if x[2] != 500000+10*float64(5+bl.Window.Col)+5 || y[2] != 5000000-10*float64(7+bl.Window.Row)-5 ||
				len(x) != bl.Columns() || len(y) != bl.Rows() {
				t.Error("coordinates", x[2], y[2])
			}
			if c, r := bl.Pixel(x[3]+4.9, y[4]-4.9); c != 3 || r != 4 {
				t.Error("pixel", c, r)
			}
			if w, h := bl.PixelSize(); w != 10 || h != 10 || bl.Grid().CRS.Code != "EPSG:32631" {
				t.Error("pixel size or CRS")
			}
			return nil
		}}
	mustRun(t, job)
	if len(blocks) != 6 {
		t.Errorf("%d blocks", len(blocks))
	}
}

func TestUnusedInputFootprint(t *testing.T) {
	dir := t.TempDir()
	a := write(t, filepath.Join(dir, "a.tif"), mapGrid(4, 1, 0, 0), []uint8{1, 2, 3, 4}, nil)
	b := write(t, filepath.Join(dir, "b.tif"), mapGrid(4, 1, 1, 0), []uint8{0, 0, 0, 0},
		func(o *Output) { o.Nodata = "0" })
	out := filepath.Join(dir, "out.tif")
	mustRun(t, Job{Inputs: map[string]Input{"a": {Files: []string{a}, Layers: []int{}}, "b": File(b)},
		Expressions: map[string]string{"o": "a"},
		Outputs:     map[string]Output{"o": {Path: out}}, Controls: Controls{Reference: "b"}})
	samePixels(t, "a", 3, pixels[uint8](t, out), []uint8{2, 3, 4})
}

func TestAlphaBandNoMask(t *testing.T) {
	path := repositoryData(t, "rasterio/RGBA.byte.tif")
	count := func(c Controls) (n int) {
		mustRun(t, Job{Inputs: map[string]Input{"a": File(path)}, Controls: c,
			Merge: func(_ int, v any) error { n += v.(int); return nil },
			Func: func(_ context.Context, b *Block) error {
				k := 0
				for i, v := range ndarray.Slice[uint8](b.Valid("a").At(0)) {
					if alpha := Band[uint8](b, "a", 4)[i]; v != 1 && (alpha != 0 || c.NoMask) || v == 1 && alpha == 0 && !c.NoMask {
						t.Fatalf("alpha %d, valid %d", alpha, v)
					}
					k += int(v)
				}
				b.Emit(k)
				return nil
			}})
		return n
	}
	if with, without := count(Controls{}), count(Controls{NoMask: true}); with == 0 || with >= without {
		t.Errorf("%d pixels count with the mask, %d without", with, without)
	}
}
