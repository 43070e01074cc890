package apply

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"pgregory.net/rapid"

	"leat/apply/internal/resolve"
	"leat/block"
	"leat/ndarray"
	"leat/raster"
)

// modelFile is a raster in the coordinates of a common origin, for a brute-force model.
type modelFile struct {
	block.Window
	px        []int16
	nodata    int16
	hasNodata bool
}

// at returns the pixel that a function must see at a position in common coordinates, if the job's
// grid is grid.
func (f *modelFile) at(x, y int, grid block.Window, margin block.Margin) (v int16, valid bool) {
	inside := func(w block.Window) bool { return x >= w.Col && x < w.Col+w.Width && y >= w.Row && y < w.Row+w.Height }
	if margin != block.MarginNodata && !inside(f.Window) {
		all := f.Union(grid)
		x = foldByHand(x, all.Col, all.Col+all.Width, margin)
		y = foldByHand(y, all.Row, all.Row+all.Height, margin)
	}
	if inside(f.Window) {
		v = f.px[(y-f.Row)*f.Width+x-f.Col]
		return v, !f.hasNodata || v != f.nodata
	}
	return f.nodata, false // 0 if the file has none
}

// foldByHand walks to the coordinate that is used instead of x, one step at a time.
func foldByHand(x, lo, hi int, m block.Margin) int {
	for x < lo || x >= hi {
		switch {
		case m == block.MarginNearest && x < lo:
			x++
		case m == block.MarginNearest:
			x--
		case x < lo:
			x = lo + (lo - x) - 1
		default:
			x = hi - (x - hi) - 1
		}
	}
	return x
}

func (f *modelFile) write(t *rapid.T, path string) {
	px := make([]int16, len(f.px))
	copy(px, f.px)
	o := Output{Path: path, NoOverviews: true, NoStatistics: true, TileSize: 32}
	if f.hasNodata {
		o.Nodata = fmt.Sprint(f.nodata)
	}
	if _, err := Run(context.Background(), sliceJob(mapGrid(f.Width, f.Height, f.Col, f.Row), px, o)); err != nil {
		t.Fatal(err)
	}
}

func drawFile(t *rapid.T, name string) *modelFile {
	f := &modelFile{Window: block.Window{Col: rapid.IntRange(-90, 90).Draw(t, name+" col"),
		Row:   rapid.IntRange(-60, 60).Draw(t, name+" row"),
		Width: rapid.IntRange(1, 120).Draw(t, name+" width"), Height: rapid.IntRange(1, 90).Draw(t, name+" height")}}
	if rapid.Bool().Draw(t, name+" nodata") {
		f.hasNodata, f.nodata = true, -7
	}
	r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, name+" seed"), 1))
	for range f.Width * f.Height {
		v := int16(r.IntN(2000) - 1000)
		if r.IntN(6) == 0 {
			v = -7
		}
		f.px = append(f.px, v)
	}
	return f
}

func TestFocalFunctionMatchesBruteForce(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	rapid.Check(t, func(t *rapid.T) { focalCase(t, dir) })
}

func focalCase(t *rapid.T, dir string) {
	files := map[string]*modelFile{"a": drawFile(t, "a"), "b": drawFile(t, "b")}
	job := Job{Inputs: map[string]Input{}, Outputs: map[string]Output{}, Merge: func(int, any) error { return nil }}
	for name, f := range files {
		path := filepath.Join(dir, name+".tif")
		f.write(t, path)
		job.Inputs[name] = File(path)
	}
	c := &job.Controls
	c.Footprint = Footprint(rapid.IntRange(0, 2).Draw(t, "footprint"))
	c.Margin = block.Margin(rapid.IntRange(0, 2).Draw(t, "margin"))
	c.Overlap = rapid.IntRange(0, 9).Draw(t, "overlap")
	job.Concurrency = Concurrency{Workers: rapid.IntRange(1, 4).Draw(t, "workers"),
		Readers: rapid.IntRange(1, 3).Draw(t, "readers")}
	c.Reference = rapid.SampledFrom([]string{"a", "b"}).Draw(t, "reference")
	ref := files[c.Reference].Window
	if rapid.Bool().Draw(t, "given grid") {
		ref = block.Window{Col: 5, Row: -9, Width: 70, Height: 60}
		g := mapGrid(ref.Width, ref.Height, ref.Col, ref.Row)
		c.Grid, c.Reference = &g, ""
	}
	var grid block.Window // in common coordinates
	switch c.Footprint {
	case Intersection:
		grid = files["a"].Intersect(files["b"].Window)
	case Union:
		grid = files["a"].Union(files["b"].Window)
	case Reference:
		grid = ref
	}
	if grid.Empty() {
		job.Func = nothing
		if _, err := Run(context.Background(), job); err == nil {
			t.Fatal("no error for inputs that have no pixel in common")
		}
		return
	}
	part := block.Window{Col: rapid.IntRange(0, grid.Width-1).Draw(t, "part col"),
		Row: rapid.IntRange(0, grid.Height-1).Draw(t, "part row")}
	part.Width = rapid.IntRange(1, grid.Width-part.Col).Draw(t, "part width")
	part.Height = rapid.IntRange(1, grid.Height-part.Row).Draw(t, "part height")
	switch rapid.SampledFrom([]string{"all", "window", "bbox"}).Draw(t, "part") {
	case "window":
		c.Window = &part
		grid = part.Shift(grid.Col, grid.Row)
	case "bbox":
		grid = part.Shift(grid.Col, grid.Row)
		g := mapGrid(grid.Width, grid.Height, grid.Col, grid.Row)
		minX, minY, maxX, maxY := g.Bounds()
		c.BBox = &[4]float64{minX - 4.9, minY + 4.9, maxX + 4.9, maxY - 4.9} // less than half a pixel off
	}

	r := rapid.IntRange(0, c.Overlap).Draw(t, "radius")
	want := model(files, grid, c, r)
	var first []byte
	for i, window := range [][2]int{{16, 16}, {48, 32}, {0, 0}} {
		path := filepath.Join(dir, "out.tif")
		job.Outputs["out"] = Output{Path: path, TileSize: 16, NoStatistics: true, NoOverviews: true}
		c.WindowWidth, c.WindowHeight = window[0], window[1]
		job.Func = func(_ context.Context, b *Block) error { return focal(b, files, grid, c.Margin, r) }
		if _, err := Run(context.Background(), job); err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			checkFocal(t, path, grid, want)
			first, _ = os.ReadFile(path)
		} else if again, _ := os.ReadFile(path); string(again) != string(first) {
			t.Fatalf("windows of %v give other bytes", window)
		}
	}
}

// model computes sum and count of the valid pixels of both files around each pixel of the grid.
func model(files map[string]*modelFile, grid block.Window, c *Controls, r int) []int32 {
	n := grid.Width * grid.Height
	want := make([]int32, 2*n)
	for i := range n {
		x, y := grid.Col+i%grid.Width, grid.Row+i/grid.Width
		for _, f := range files {
			for dy := -r; dy <= r; dy++ {
				for dx := -r; dx <= r; dx++ {
					if v, ok := f.at(x+dx, y+dy, grid, c.Margin); ok {
						want[i] += int32(v)
						want[n+i]++
					}
				}
			}
		}
	}
	return want
}

// focal is the job's function; it also compares each array, margin included, with the model.
func focal(b *Block, files map[string]*modelFile, grid block.Window, margin block.Margin, r int) error {
	out := b.NewOut(ndarray.Int32, 2)
	clear(out.Raw())
	sums, counts := ndarray.Slice[int32](out.At(0)), ndarray.Slice[int32](out.At(1))
	for name, f := range files {
		px, valid := Band[int16](b, name, 1), ndarray.Slice[uint8](b.Valid(name).At(0))
		for i := range px {
			x := grid.Col + b.Window.Col - b.Overlap() + i%b.Columns()
			y := grid.Row + b.Window.Row - b.Overlap() + i/b.Columns()
			if v, ok := f.at(x, y, grid, margin); v != px[i] || ok != (valid[i] == 1) {
				return fmt.Errorf("%s at %d,%d: %d (%d), not %d (%v)", name, x, y, px[i], valid[i], v, ok)
			}
		}
		for row := b.Overlap(); row < b.Rows()-b.Overlap(); row++ {
			for col := b.Overlap(); col < b.Columns()-b.Overlap(); col++ {
				for dy := -r; dy <= r; dy++ {
					for dx := -r; dx <= r; dx++ {
						if i := (row+dy)*b.Columns() + col + dx; valid[i] == 1 {
							sums[row*b.Columns()+col] += int32(px[i])
							counts[row*b.Columns()+col]++
						}
					}
				}
			}
		}
	}
	b.SetOut("out", out)
	return nil
}

func checkFocal(t *rapid.T, path string, grid block.Window, want []int32) {
	f, err := resolve.OpenRaster(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	g := f.Info().Grid
	if w := mapGrid(grid.Width, grid.Height, grid.Col,
		grid.Row); g.Width != w.Width || g.Height != w.Height || g.Transform != w.Transform {
		t.Fatalf("the output's grid is %+v, not %+v", g, w)
	}
	a := ndarray.New(ndarray.Int32, 2, g.Height, g.Width)
	if err := f.Read(context.Background(), []int{1, 2}, g.Window(), a); err != nil {
		t.Fatal(err)
	}
	for i, v := range ndarray.Slice[int32](a) {
		if v != want[i] {
			t.Fatalf("pixel %d of %d: %d, not %d", i, len(want), v, want[i])
		}
	}
}

func TestMarginOfSubWindow(t *testing.T) {
	const w, h = 40, 30
	px := terrain[uint16](w, h, 1)
	path := write(t, filepath.Join(t.TempDir(), "a.tif"), mapGrid(w, h, 0, 0), px, nil)
	window := block.Window{Col: 10, Row: 8, Width: 4, Height: 3}
	for _, m := range []block.Margin{block.MarginNodata, block.MarginReflect, block.MarginNearest} {
		calls := 0
		mustRun(t, Job{Inputs: map[string]Input{"a": File(path)},
			Controls: Controls{Window: &window, Overlap: 5, Margin: m},
			Func: func(_ context.Context, b *Block) error {
				calls++
				got := Band[uint16](b, "a", 1)
				want := ndarray.Slice[uint16](cut(px, w, h, window.Grow(5)).At(0))
				for i := range want {
					if got[i] != want[i] || b.Valid("a").Raw()[i] != 1 {
						return fmt.Errorf("pixel %d of the margin is %d, not %d", i, got[i], want[i])
					}
				}
				return nil
			}})
		if calls != 1 {
			t.Errorf("%d blocks", calls)
		}
	}
}

func TestBlockPosition(t *testing.T) {
	path := write(t, filepath.Join(t.TempDir(), "a.tif"), mapGrid(70, 50, 3, 4), terrain[uint8](70, 50, 1),
		func(o *Output) { o.Nodata = "9" })
	job := Job{Inputs: map[string]Input{"a": File(path), "l": Files(path, path)}, Params: "given",
		Setup:       func(_ context.Context, w WorkerInfo) (any, error) { return w.Worker, nil },
		Outputs:     map[string]Output{"o": {Path: filepath.Join(t.TempDir(), "o.tif"), TileSize: 32}},
		Controls:    Controls{Overlap: 2, WindowWidth: 32, WindowHeight: 32},
		Concurrency: Concurrency{Workers: 1}}
	job.Func = func(_ context.Context, b *Block) error {
		Out[uint8](b, "o")
		x, y := b.Coordinates()
		wantX := 500000 + 10*(3+float64(b.Window.Col-2)+0.5)
		wantY := 5000000 - 10*(4+float64(b.Window.Row-2)+0.5)
		col, row := b.Pixel(x[5], y[7])
		w, h := b.PixelSize()
		n, has := b.Nodata("a", 1)
		switch {
		case b.Blocks().Count() != 6 || b.Blocks().Cols() != 3 || b.Blocks().Rows() != 2 || b.Number != b.Row*3+b.Col:
			return fmt.Errorf("block %d of %d at %d, %d", b.Number, b.Blocks().Count(), b.Col, b.Row)
		case b.Number < 0 || b.Number > 5:
			return fmt.Errorf("first or last are wrong in block %d", b.Number)
		case b.Rows() != b.Window.Height+4 || b.Columns() != b.Window.Width+4 || len(x) != b.Columns() ||
			len(y) != b.Rows():
			return fmt.Errorf("%d x %d", b.Columns(), b.Rows())
		case x[0] != wantX || y[0] != wantY || x[1]-x[0] != 10 || y[1]-y[0] != -10 || col != 5 || row != 7:
			return fmt.Errorf("coordinates %v, %v: %v %v, pixel %d %d", x[0], y[0], wantX, wantY, col, row)
		case w != 10 || h != 10 || b.Grid().CRS.Code != "EPSG:32631" || b.Transform() != (raster.Transform{wantX - 5,
			10, 0, wantY + 5, 0, -10}):
			return fmt.Errorf("%v %v %v %v", w, h, b.Grid().CRS, b.Transform())
		case b.Paths("a")[0] != path || len(b.Paths("l")) != 2 || !has || n.String() != "9" || b.Params() != "given" ||
			b.State() != 0:
			return fmt.Errorf("%v %v %v %v", b.Paths("a")[0], b.Paths("l"), n, b.Params())
		}
		return nil
	}
	mustRun(t, job)
}
