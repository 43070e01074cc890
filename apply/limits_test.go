package apply

import (
	"context"
	"errors"
	"math"
	"path/filepath"
	"strings"
	"testing"

	"leat/apply/internal/jobspec"
	"leat/block"
	"leat/ndarray"
	"leat/raster"
)

func TestLimits(t *testing.T) {
	dir := t.TempDir()
	a := write(t, filepath.Join(dir, "a.tif"), mapGrid(20, 10, 0, 0), make([]uint8, 200), nil)
	huge := mapGrid(math.MaxInt, 5, 0, 0)
	noX := mapGrid(5, 5, 0, 0)
	noX.Transform[0] = math.NaN()
	for name, change := range map[string]func(*Job){
		"row of the window": func(j *Job) {
			j.Controls.Window = &block.Window{Row: math.MaxInt - 5, Width: 5,
				Height: 10}
		},
		"width of the window": func(j *Job) {
			j.Controls.Window = &block.Window{Col: 1, Width: math.MaxInt,
				Height: 10}
		},
		"negative window": func(j *Job) {
			j.Controls.Window = &block.Window{Col: math.MinInt, Width: math.MinInt,
				Height: 1}
		},
		"overlap":               func(j *Job) { j.Controls.Overlap = math.MaxInt },
		"overlap beyond memory": func(j *Job) { j.Controls.Overlap = jobspec.MaxBlockSide },
		"width of blocks":       func(j *Job) { j.Controls.WindowWidth, j.Controls.WindowHeight = math.MaxInt, 1 },
		"workers":               func(j *Job) { j.Concurrency.Workers = math.MaxInt },
		"readers":               func(j *Job) { j.Concurrency.Readers = math.MaxInt },
		"grid":                  func(j *Job) { j.Controls.Grid, j.Controls.Footprint = &huge, Reference },
		"origin of the grid":    func(j *Job) { j.Controls.Grid, j.Controls.Footprint = &noX, Reference },
	} {
		t.Run(name, func(t *testing.T) {
			job := Job{Inputs: map[string]Input{"a": File(a)},
				Outputs: map[string]Output{"o": {Path: filepath.Join(dir, "o.tif")}}, Func: nothing}
			change(&job)
			if p, err := MakePlan(context.Background(), job); err == nil {
				t.Fatalf("no error; the plan has %d x %d pixels and takes %d bytes", p.Grid.Width, p.Grid.Height,
					p.MemoryBytes)
			} else if strings.Contains(err.Error(), "the function was called") {
				t.Fatal("the job was run")
			}
		})
	}
}

func TestInfiniteBBox(t *testing.T) {
	dir := t.TempDir()
	a := write(t, filepath.Join(dir, "a.tif"), mapGrid(20, 10, 0, 0), make([]uint8, 200), nil)
	inf := math.Inf(1)
	for _, box := range [][4]float64{{500100, -inf, inf, inf}, {500100, -1e308, 1e308, 1e308}} {
		p, err := MakePlan(context.Background(),
			Job{Inputs: map[string]Input{"a": File(a)},
				Outputs: map[string]Output{"o": {Path: filepath.Join(dir, "o.tif")}},
				Func:    nothing, Controls: Controls{BBox: &box}})
		if err != nil || p.Grid.Width != 10 || p.Grid.Height != 10 || p.Grid.Transform[0] != 500100 {
			t.Errorf("%v: %+v, %v", box, p, err)
		}
	}
}

func TestNonFiniteTransform(t *testing.T) {
	dir := t.TempDir()
	for _, v := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
		for at := range 6 {
			g := mapGrid(20, 10, 0, 0)
			g.Transform[at] = v
			src := &gridSource{raster.Info{Grid: g, Bands: []raster.Band{{Type: ndarray.Uint8, Scale: 1}}}}
			_, err := MakePlan(context.Background(),
				Job{Inputs: map[string]Input{"a": {Files: []string{"a.tif"}, Source: src}},
					Outputs: map[string]Output{"o": {Path: filepath.Join(dir, "o.tif")}}, Func: nothing})
			if err == nil || !strings.Contains(err.Error(), "not made of finite numbers") {
				t.Errorf("%v at %d of the transform: %v", v, at, err)
			}
		}
	}
}

// gridSource is a raster whose pixels can't be read.
type gridSource struct{ info raster.Info }

func (s *gridSource) Info() *raster.Info { return &s.info }
func (s *gridSource) Close() error       { return nil }
func (s *gridSource) Read(context.Context, []int, raster.Window, *ndarray.Array) error {
	return errors.New("a pixel was read")
}
