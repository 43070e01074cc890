package apply

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"pgregory.net/rapid"

	"leat/block"
	"leat/ndarray"
	"leat/raster"
)

// TestFocalExpressionMatchesBruteForce computes sums of neighbours over files that cover different
// parts of the grid, and compares them with the rule of the guide's section "At the edges".
func TestFocalExpressionMatchesBruteForce(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	rapid.Check(t, func(t *rapid.T) { focalExpressionCase(t, dir) })
}

func focalExpressionCase(t *rapid.T, dir string) {
	files := map[string]*modelFile{"a": drawFile(t, "a"), "b": drawFile(t, "b")}
	side := 1 + 2*rapid.IntRange(0, 4).Draw(t, "r")
	out := Output{Path: filepath.Join(dir, "out.tif"), TileSize: 16, NoStatistics: true, NoOverviews: true,
		Type: ndarray.Int32, Nodata: "-99999999"}
	job := Job{Inputs: map[string]Input{}, Outputs: map[string]Output{"out": out},
		Expressions: map[string]string{"out": fmt.Sprintf("[focal_sum(a - b, %d), focal_count(a - b, %d)]", side, side)}}
	for name, f := range files {
		path := filepath.Join(dir, name+".tif")
		f.write(t, path)
		job.Inputs[name] = File(path)
	}
	c := &job.Controls
	c.Reference = "a"
	c.Margin = block.Margin(rapid.IntRange(0, 2).Draw(t, "margin"))
	c.Footprint = Footprint(rapid.IntRange(0, 2).Draw(t, "footprint"))
	all := files["a"].Union(files["b"].Window)
	grid := [...]block.Window{Intersection: files["a"].Intersect(files["b"].Window), Union: all,
		Reference: files["a"].Window}[c.Footprint]
	if grid.Empty() {
		return
	}
	if rapid.Bool().Draw(t, "part") {
		part := block.Window{Col: rapid.IntRange(0, grid.Width-1).Draw(t, "col"),
			Row: rapid.IntRange(0, grid.Height-1).Draw(t, "row")}
		part.Width = rapid.IntRange(1, grid.Width-part.Col).Draw(t, "width")
		part.Height = rapid.IntRange(1, grid.Height-part.Row).Draw(t, "height")
		c.Window, grid = &part, part.Shift(grid.Col, grid.Row)
	}
	var first []byte
	for i, window := range [][2]int{{16, 32}, {48, 16}, {0, 0}} {
		c.WindowWidth, c.WindowHeight = window[0], window[1]
		job.Concurrency.Workers = i + 1
		if _, err := Run(context.Background(), job); err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(out.Path)
		if err != nil {
			t.Fatal(err)
		}
		if first == nil {
			first = got
		} else if string(first) != string(got) {
			t.Fatalf("windows of %v give other bytes", window)
		}
	}
	checkFocal(t, out.Path, grid, focalModel(files, grid, all, c.Margin, side/2))
}

// focalModel computes sum and number of the valid differences a - b around each pixel of the grid.
func focalModel(files map[string]*modelFile, grid, all block.Window, margin block.Margin, r int) []int32 {
	n := grid.Width * grid.Height
	want := make([]int32, 2*n)
	for i := range n {
		for dy := -r; dy <= r; dy++ {
			for dx := -r; dx <= r; dx++ {
				x, y := grid.Col+i%grid.Width+dx, grid.Row+i/grid.Width+dy
				if margin != block.MarginNodata {
					x = foldByHand(x, all.Col, all.Col+all.Width, margin)
					y = foldByHand(y, all.Row, all.Row+all.Height, margin)
				}
				a, aok := files["a"].at(x, y, grid, block.MarginNodata)
				b, bok := files["b"].at(x, y, grid, block.MarginNodata)
				if aok && bok {
					want[i] += int32(a) - int32(b)
					want[n+i]++
				}
			}
		}
		if want[n+i] == 0 {
			want[i] = -99999999
		}
	}
	return want
}

// TestFocalVariables checks that a function gets variables with focal functions without their
// margin.
func TestFocalVariables(t *testing.T) {
	const w, h = 40, 30
	px := terrain[uint16](w, h, 1)
	path := write(t, filepath.Join(t.TempDir(), "a.tif"), mapGrid(w, h, 0, 0), px, nil)
	job := Job{Inputs: map[string]Input{"a": File(path)}, Variables: map[string]string{"v": "shift(a, 1, -2)"},
		Controls: Controls{WindowWidth: 256, WindowHeight: 256, Margin: block.MarginNearest},
		Func: func(_ context.Context, b *Block) error {
			v := b.Variable("v")
			if b.Overlap() != 0 || b.Rows() != h || b.Columns() != w || v.Shape[1] != h || v.Shape[2] != w {
				return fmt.Errorf("overlap %d, %d x %d, the variable's shape is %v", b.Overlap(), b.Columns(), b.Rows(), v.Shape)
			}
			for i, got := range ndarray.Slice[uint16](v.At(0)) {
				x, y := min(i%w+2, w-1), max(i/w-1, 0)
				if want := px[y*w+x]; got != want {
					return fmt.Errorf("pixel %d is %d, not %d", i, got, want)
				}
			}
			return nil
		}}
	mustRun(t, job)
	job.Controls.Overlap = 1
	failRun(t, job, "field Controls.Overlap", "expected 0 with focal functions")
}

// TestFocalMemory checks that the plan counts the memory of focal functions and of their margin.
func TestFocalMemory(t *testing.T) {
	const side = 3000
	path := write(t, filepath.Join(t.TempDir(), "a.tif"), mapGrid(side, side, 0, 0), make([]float32, side*side), nil)
	planned := map[string]int64{}
	for _, text := range []string{"a", "focal_mean(a, 3)", "focal_mean(a, 1001)"} {
		p, err := MakePlan(context.Background(), Job{Inputs: map[string]Input{"a": File(path)},
			Outputs:     map[string]Output{"out": {Path: filepath.Join(t.TempDir(), "out.tif")}},
			Expressions: map[string]string{"out": text}, Concurrency: Concurrency{Workers: 2},
			Controls: Controls{WindowWidth: 512, WindowHeight: 512, MemoryBytes: 4 << 30}})
		if err != nil {
			t.Fatal(err)
		}
		planned[text] = p.MemoryBytes
		if text == "focal_mean(a, 1001)" && p.Blocks.Overlap != 500 {
			t.Errorf("the overlap is %d", p.Blocks.Overlap)
		}
	}
	// Each of two workers holds the operand, 1512 x 1512 values with their validity.
	if least := planned["a"] + 2*1512*1512*5; planned["focal_mean(a, 3)"] <= planned["a"] ||
		planned["focal_mean(a, 1001)"] < least {
		t.Errorf("planned are %v, expected at least %d", planned, least)
	}
}

func TestFocalNeedsGround(t *testing.T) {
	dir := t.TempDir()
	plain := write(t, filepath.Join(dir, "plain.tif"), raster.Grid{Width: 4, Height: 4, Transform: raster.Transform{0, 1, 0, 0, 0, 1}}, make([]float32, 16), nil)
	job := Job{Inputs: map[string]Input{"a": File(plain)}, Outputs: map[string]Output{"out": {Path: filepath.Join(dir, "out.tif")}},
		Expressions: map[string]string{"out": "slope(a)"}}
	failRun(t, job, "the grid is not georeferenced")
	job.Expressions["out"] = "tri(a)"
	mustRun(t, job)
}
