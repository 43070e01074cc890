package apply

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"leat/block"
	"leat/internal/expr"
	"leat/internal/geotiff"
	"leat/internal/proctest"
	"leat/internal/pytest"
	"leat/internal/tilecache"
	"leat/ndarray"
	"leat/raster"
)

// fakeSource is a raster that is never read.
type fakeSource struct{ info raster.Info }

func (f *fakeSource) Info() *raster.Info { return &f.info }
func (f *fakeSource) Close() error       { return nil }
func (f *fakeSource) Read(context.Context, []int, raster.Window, *ndarray.Array) error {
	panic("a plan read pixels")
}

func TestPlanWithinMemory(t *testing.T) {
	dir := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		w, h := rapid.IntRange(1, 30000).Draw(t, "width"), rapid.IntRange(1, 30000).Draw(t, "height")
		strips := rapid.Bool().Draw(t, "strips")
		tw, th := w, rapid.IntRange(1, h).Draw(t, "rows of a strip")
		if !strips {
			tw, th = 16*rapid.IntRange(1, 64).Draw(t, "tile width"), 16*rapid.IntRange(1, 64).Draw(t, "tile height")
		}
		bands := rapid.IntRange(1, 4).Draw(t, "bands")
		typ := rapid.SampledFrom([]ndarray.DType{ndarray.Uint8, ndarray.Uint16, ndarray.Float64}).Draw(t, "type")
		src := &fakeSource{raster.Info{Grid: mapGrid(w, h, 0, 0), TileWidth: tw, TileHeight: th, Compression: "deflate",
			Interleave: "band"}}
		for range bands {
			src.info.Bands = append(src.info.Bands, raster.Band{Type: typ})
		}
		tile := 16 * rapid.IntRange(0, 64).Draw(t, "output tile / 16")
		budget := int64(rapid.IntRange(1, 2000).Draw(t, "MiB")) << 20
		job := Job{Inputs: map[string]Input{"a": {Files: []string{"a.tif"}, Source: src}}, Func: nothing,
			Outputs: map[string]Output{"o": {Path: filepath.Join(dir, "o.tif"), Type: ndarray.Float32, Bands: 1,
				TileSize: tile, COG: rapid.Bool().Draw(t, "cog")}},
			Controls:    Controls{MemoryBytes: budget, Overlap: rapid.IntRange(0, 40).Draw(t, "overlap")},
			Concurrency: Concurrency{Workers: rapid.IntRange(1, 16).Draw(t, "workers")}}
		p, err := MakePlan(t.Context(), job)
		if err != nil {
			if !slices.Contains(fieldsOf(err), "Controls.MemoryBytes") {
				t.Fatal("an error of another field:", err)
			}
			return
		}
		if p.MemoryBytes > p.BudgetBytes || p.BudgetBytes != budget {
			t.Fatalf("%d bytes planned of %d", p.MemoryBytes, budget)
		}
		o, b := p.Outputs[0], p.Blocks
		if b.WindowWidth < w && b.WindowWidth%o.TileWidth != 0 || b.WindowHeight < h &&
			b.WindowHeight%o.TileHeight != 0 {
			t.Fatalf("windows of %d x %d over tiles of %d x %d", b.WindowWidth, b.WindowHeight, o.TileWidth,
				o.TileHeight)
		}
		if p.Buffers < 2 {
			t.Fatalf("%d buffers", p.Buffers)
		}
	})
}

func TestStripLargerThanMemory(t *testing.T) {
	src := &fakeSource{raster.Info{Grid: mapGrid(20000, 20000, 0, 0), TileWidth: 20000, TileHeight: 20000,
		Compression: "deflate", Interleave: "band",
		Bands: []raster.Band{{Type: ndarray.Uint16}}}}
	job := Job{Inputs: map[string]Input{"a": {Files: []string{"onestrip.tif"}, Source: src}}, Func: nothing,
		Controls: Controls{MemoryBytes: 256 << 20}}
	_, err := MakePlan(t.Context(), job)
	wantError(t, err, "onestrip.tif", "20000 x 20000", "field Controls.MemoryBytes")
	src.info.Compression = "none" // it is read by rows
	if _, err := MakePlan(t.Context(), job); err != nil {
		t.Error(err)
	}
}

func TestBlockSizeRoundedUp(t *testing.T) {
	job := sliceJob(mapGrid(3000, 3000, 0, 0), []uint8{},
		Output{Path: filepath.Join(t.TempDir(), "o.tif"), Type: ndarray.Uint8, Bands: 1})
	job.Controls.WindowWidth, job.Controls.WindowHeight = 500, 1025
	p, err := MakePlan(t.Context(), job)
	if err != nil {
		t.Fatal(err)
	}
	if b := p.Blocks; b.WindowWidth != 512 || b.WindowHeight != 1536 || len(p.Notes) != 1 ||
		!strings.Contains(p.Notes[0].Text, "500x1025 rounded up to 512x1536") {
		t.Errorf("%+v %q", b, p.Notes)
	}
}

// countingSource keeps the cache that a run sets, which counts decoded tiles.
type countingSource struct {
	*geotiff.File
	cache *tilecache.Cache
}

func (c *countingSource) SetCache(cache *tilecache.Cache, uses func(w raster.Window) int) {
	c.cache = cache
	c.File.SetCache(cache, uses)
}

// decodeOnce are settings with which each strip of a raster of 2000 x 1500 pixels is decoded once
// in any order of events: one reader never leaves the two rows of blocks that the plan has memory
// for, and of two rows of blocks all strips fit.
var decodeOnce = []Job{
	{Controls: Controls{WindowWidth: 256, WindowHeight: 256}, Concurrency: Concurrency{Readers: 1}},
	{Controls: Controls{WindowWidth: 256, WindowHeight: 768}, Concurrency: Concurrency{Readers: 4}},
}

// TestBlocksOfManyInputs plans blocks whose inputs stay in a processor's cache, but have two tiles
// of each file.
func TestBlocksOfManyInputs(t *testing.T) {
	dir := t.TempDir()
	const side = 8192
	one := write(t, filepath.Join(dir, "one.tif"), mapGrid(side, side, 0, 0), make([]uint8, side*side),
		func(o *Output) { o.TileSize = 512 })
	data, err := os.ReadFile(one)
	if err != nil {
		t.Fatal(err)
	}
	var files []string
	for i := range 40 {
		files = append(files, filepath.Join(dir, fmt.Sprintf("%d.tif", i)))
		if err := os.WriteFile(files[i], data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct{ files, overlap, width, height int }{
		{1, 0, 2048, 512},
		{16, 0, 2048, 512},
		{17, 0, 1024, 512},
		{40, 0, 1024, 512},
		{40, 4, 1024, 1024},
	} {
		job := Job{Inputs: map[string]Input{"t": {Files: files[:c.files], List: true}}, Func: nothing,
			Outputs: map[string]Output{"o": {Path: filepath.Join(dir, "o.tif"), Type: ndarray.Uint8, Bands: 1,
				NoOverviews: true}},
			Controls:    Controls{Overlap: c.overlap},
			Concurrency: Concurrency{Workers: 2}}
		p, err := MakePlan(t.Context(), job)
		if err != nil {
			t.Fatal(err)
		}
		if b := p.Blocks; b.WindowWidth != c.width || b.WindowHeight != c.height {
			t.Errorf("%d files, overlap %d: blocks of %d x %d, expected %d x %d", c.files, c.overlap, b.WindowWidth,
				b.WindowHeight, c.width, c.height)
		}
	}
}

// TestSmallTilesOfManyInputs plans a job whose inputs take more than a kilobyte for each pixel.
func TestSmallTilesOfManyInputs(t *testing.T) {
	dir := t.TempDir()
	one := write(t, filepath.Join(dir, "one.tif"), mapGrid(1024, 1024, 0, 0), make([]float64, 1024*1024), nil)
	job := Job{Inputs: map[string]Input{"t": {Files: slices.Repeat([]string{one}, 160), List: true}}, Func: nothing,
		Outputs: map[string]Output{"o": {Path: filepath.Join(dir, "o.tif"), Type: ndarray.Uint8, Bands: 1, TileSize: 64,
			NoOverviews: true}},
		Concurrency: Concurrency{Workers: 2}}
	p, err := MakePlan(t.Context(), job)
	if err != nil {
		t.Fatal(err)
	}
	if b := p.Blocks; b.WindowWidth != 512 || b.WindowHeight != 64 {
		t.Errorf("blocks of %d x %d, expected 512 x 64", b.WindowWidth, b.WindowHeight)
	}
}

func TestTileCache(t *testing.T) {
	dir := t.TempDir()
	strips := filepath.Join(dir, "strips.tif")
	pytest.Run(t, []string{"rasterio", "numpy"}, `
import json, sys, numpy as np, rasterio
px = (np.arange(2000 * 1500) % 251).astype('uint8').reshape(1500, 2000)
with rasterio.open(json.load(sys.stdin), 'w', driver='GTiff', width=2000, height=1500, count=1, dtype='uint8',
                   compress='deflate', blockysize=7) as d:
    d.write(px, 1)
print('null')
`, strips, nil)
	for i, overlap := range []int{0, 9, 0, 9} {
		src := open(t, strips)
		c := &countingSource{File: src}
		job := decodeOnce[i/2]
		job.Controls.Overlap, job.Controls.Margin = overlap, block.MarginReflect
		job.Inputs = map[string]Input{"a": {Files: []string{strips}, Source: c}}
		job.Func = func(_ context.Context, b *Block) error {
			w := b.Columns()
			for i, v := range Band[uint8](b, "a", 1) {
				col, row := b.Window.Col-overlap+i%w, b.Window.Row-overlap+i/w
				col, row = expr.Fold(block.MarginReflect, col, 0, 2000), expr.Fold(block.MarginReflect, row, 0, 1500)
				if int(v) != (row*2000+col)%251 {
					return fmt.Errorf("column %d, row %d is %d", col, row, v)
				}
			}
			return nil
		}
		mustRun(t, job)
		if n := c.cache.Decoded(); n != (1500+6)/7 {
			t.Errorf("overlap %d, %d readers: %d strips were decoded %d times", overlap, job.Concurrency.Readers,
				(1500+6)/7, n)
		}
	}
}

func TestMaskDecodedOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "masked.tif")
	pytest.Run(t, []string{"rasterio", "numpy"}, `
import json, sys, numpy as np, rasterio
px = (np.arange(2000 * 1500) % 251).astype('uint8').reshape(1500, 2000)
with rasterio.Env(GDAL_TIFF_INTERNAL_MASK='YES'):
    with rasterio.open(json.load(sys.stdin), 'w', driver='GTiff', width=2000, height=1500, count=1, dtype='uint8',
                       compress='deflate', blockysize=7) as d:
        d.write(px, 1); d.write_mask(np.where(px % 5 == 0, 0, 255).astype('uint8'))
print('null')
`, path, nil)
	for _, job := range decodeOnce {
		c := &countingSource{File: open(t, path)}
		job.Inputs = map[string]Input{"a": {Files: []string{path}, Source: c}}
		job.Func = func(_ context.Context, b *Block) error {
			px := Band[uint8](b, "a", 1)
			for i, v := range b.Valid("a").Raw() {
				if (v == 0) != (px[i]%5 == 0) {
					return fmt.Errorf("pixel %d of block %d counts: %d", i, b.Number, v)
				}
			}
			return nil
		}
		mustRun(t, job)
		m := c.Info().MaskTile
		want := int64((1500+6)/7 + ((2000+m.Width-1)/m.Width)*((1500+m.Height-1)/m.Height))
		if n := c.cache.Decoded(); n != want || m.Height == 0 {
			t.Errorf("%d strips and tiles of the mask (%v) were decoded %d times", want, m, n)
		}
	}
}

// largeRaster is a child that writes and reads a raster of 6000 x 6000 within 64 MiB, and prints
// its peak memory.
func largeRaster(args []string) error {
	grid := mapGrid(6000, 6000, 0, 0)
	made := filepath.Join(args[0], "made.tif")
	c := Controls{Grid: &grid, MemoryBytes: 64 << 20}
	_, err := Run(context.Background(), Job{Outputs: map[string]Output{"o": {Path: made}}, Controls: c,
		Func: func(_ context.Context, b *Block) error {
			for i, out := 0, Out[float32](b, "o"); i < len(out); i++ {
				out[i] = float32(i*7%1013) / 3
			}
			return nil
		}})
	if err != nil {
		return err
	}
	c.Grid = nil
	_, err = Run(context.Background(), Job{Inputs: map[string]Input{"a": File(made)},
		Outputs:  map[string]Output{"o": {Path: filepath.Join(args[0], "sum.tif")}},
		Controls: c, Expressions: map[string]string{"o": "a * 2 + 1"}})
	if err != nil {
		return err
	}
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(status)) {
		if kb, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			fmt.Print(strings.TrimSuffix(strings.TrimSpace(kb), " kB"))
		}
	}
	return nil
}

func TestMemoryBounded(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: writes and reads 144 MB of pixels")
	}
	if _, err := os.Stat("/proc/self/status"); err != nil {
		t.Skip("there is no /proc to ask for the memory")
	}
	c := proctest.New("large raster", t.TempDir()).Start(t)
	_, output, err := c.Wait()
	if err != nil {
		t.Fatal(err, output)
	}
	// The budget, and the memory of the test binary and the collector.
	if kb := parse(t, output); kb > 140<<10 {
		t.Errorf("%v KiB were resident with a budget of 64 MiB", kb)
	} else {
		t.Logf("%v KiB resident", kb)
	}
}
