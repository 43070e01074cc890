package apply

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"

	"leat/block"
	"leat/raster"
)

func TestInputsOffGrid(t *testing.T) {
	dir := t.TempDir()
	px := terrain[uint8](40, 30, 1)
	grid := mapGrid(40, 30, 0, 0)
	first := write(t, filepath.Join(dir, "first.tif"), grid, px, nil)
	for name, c := range map[string]struct {
		change func(*raster.Grid)
		want   string
	}{
		"pixel size": {func(g *raster.Grid) { g.Transform[1], g.Transform[5] = 20, -20 },
			"pixel size 20 x 20, not 10 x 10"},
		"slight pixel size": {func(g *raster.Grid) { g.Transform[1] = 10.001 }, "pixel size 10.001 x 10, not 10 x 10"},
		"alignment":         {func(g *raster.Grid) { g.Transform[0] += 2.5 }, "0.25 pixel to the right"},
		"alignment, back": {func(g *raster.Grid) { g.Transform[0] -= 2.5; g.Transform[3] += 2 },
			"its pixels lie 0.25 pixel to the left and 0.2 pixel up from theirs"},
		"CRS":      {func(g *raster.Grid) { g.CRS.Code = "EPSG:32632" }, "CRS EPSG:32632"},
		"no CRS":   {func(g *raster.Grid) { g.CRS = raster.CRS{} }, "CRS none, not EPSG:32631"},
		"rotation": {func(g *raster.Grid) { g.Transform[2] = 1 }, "rotated"},
		"no georeference": {func(g *raster.Grid) {
			*g = raster.Grid{Width: 40, Height: 30,
				Transform: raster.Identity}
		}, "one is georeferenced and the other is not"},
	} {
		t.Run(name, func(t *testing.T) {
			g := grid
			c.change(&g)
			other := write(t, filepath.Join(dir, "other.tif"), g, px, nil)
			err := failRun(t, Job{Inputs: map[string]Input{"a": File(first), "b": File(other)}, Func: nothing}, first,
				other, c.want)
			t.Log(err)
		})
	}
}

func TestInputsWithoutTransform(t *testing.T) {
	dir := t.TempDir()
	plain := func(name string, w, h int) string {
		return write(t, filepath.Join(dir, name), raster.Grid{Width: w, Height: h, Transform: raster.Identity},
			make([]uint8, w*h), nil)
	}
	a, b, c := plain("a.tif", 20, 10), plain("b.tif", 20, 10), plain("c.tif", 20, 11)
	if _, err := MakePlan(t.Context(), Job{Inputs: map[string]Input{"a": File(a), "b": File(b)},
		Func: nothing}); err != nil {
		t.Error(err)
	}
	failRun(t, Job{Inputs: map[string]Input{"a": File(a), "c": File(c)}, Func: nothing}, a, c,
		"20 x 11 pixels, not 20 x 10")
}

func TestGridRounding(t *testing.T) {
	dir := t.TempDir()
	px := terrain[uint8](40, 30, 1)
	g := mapGrid(40, 30, 3, 0)
	a := write(t, filepath.Join(dir, "a.tif"), mapGrid(40, 30, 0, 0), px, nil)
	g.Transform[0] += 1e-4
	g.Transform[1] += 1e-7
	b := write(t, filepath.Join(dir, "b.tif"), g, px, nil)
	p, err := MakePlan(t.Context(), Job{Inputs: map[string]Input{"a": File(a), "b": File(b)}, Func: nothing})
	if err != nil || p.Grid.Width != 37 || p.Grid.Height != 30 {
		t.Errorf("%v %+v", err, p)
	}
}

func TestRotatedGridRejected(t *testing.T) {
	g := mapGrid(10, 10, 0, 0)
	g.Transform[2] = 3
	a := write(t, filepath.Join(t.TempDir(), "a.tif"), g, terrain[uint8](10, 10, 1), nil)
	failRun(t, Job{Inputs: map[string]Input{"a": File(a)}, Func: nothing}, a, "rotated", "field Controls.Grid=EPSG:32631,500000,4999900,500130,5000000,10")
}

func TestEmptyFootprint(t *testing.T) {
	dir := t.TempDir()
	px := terrain[uint8](40, 30, 1)
	a := write(t, filepath.Join(dir, "a.tif"), mapGrid(40, 30, 0, 0), px, nil)
	b := write(t, filepath.Join(dir, "b.tif"), mapGrid(40, 30, 40, 0), px, nil)
	two := map[string]Input{"a": File(a), "b": File(b)}
	one := map[string]Input{"a": File(a)}
	for name, c := range map[string]struct {
		inputs   map[string]Input
		controls Controls
		want     []string
	}{
		"nothing in common": {two, Controls{},
			[]string{"no pixel in common", a, b, "x 500000 to 500400", "x 500400 to 500800", "field Controls.Footprint"}},
		"box outside": {one, Controls{BBox: &[4]float64{0, 0, 10, 10}},
			[]string{"bounding box", a, "x 500000 to 500400"}},
		"box between two centres": {one, Controls{BBox: &[4]float64{500006, 4999996, 500014, 4999999}},
			[]string{"bounding box", a}},
		"box upside down": {one, Controls{BBox: &[4]float64{500000, 4999900, 500100, 4999800}},
			[]string{"bounding box", "min x, min y, max x, max y", "field Controls.BBox"}},
		"window outside": {one, Controls{Window: &block.Window{Col: 30, Width: 11, Height: 1}},
			[]string{"window", "40 x 30"}},
		"window of no pixel": {one, Controls{Window: &block.Window{Col: 3, Width: 0, Height: 1}},
			[]string{"window"}},
		"window before the grid": {one, Controls{Window: &block.Window{Col: -1, Width: 3, Height: 1}},
			[]string{"window"}},
		"unknown reference":     {two, Controls{Reference: "c", Footprint: Reference}, []string{`"c"`, "a, b"}},
		"no reference":          {two, Controls{Footprint: Reference}, []string{"reference", "field Controls.Footprint"}},
		"grid without size":     {nil, Controls{Grid: &raster.Grid{Transform: raster.Identity}}, []string{"0 x 0"}},
		"no inputs and no grid": {nil, Controls{}, []string{"grid"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Log(failRun(t, Job{Inputs: c.inputs, Controls: c.controls, Func: nothing}, c.want...))
		})
	}
}

func TestBBoxSelectsPixelCentres(t *testing.T) {
	a := write(t, filepath.Join(t.TempDir(), "a.tif"), mapGrid(40, 30, 0, 0), terrain[uint8](40, 30, 1), nil)
	box := [4]float64{500104.9, 4999850.1, 500124.9, 4999895.1} // centres at x 105, 115; y 855, 865, 875, 885, 895
	p, err := MakePlan(t.Context(), Job{Inputs: map[string]Input{"a": File(a)}, Controls: Controls{BBox: &box},
		Func: nothing})
	if err != nil {
		t.Fatal(err)
	}
	if want := mapGrid(2, 5, 10, 10); p.Grid.Transform != want.Transform || p.Grid.Width != 2 || p.Grid.Height != 5 {
		t.Errorf("%+v", p.Grid)
	}
}

func TestOutputsOnReferenceGrid(t *testing.T) {
	dir := t.TempDir()
	px := terrain[uint8](40, 30, 1)
	for i, col := range []int{0, 7} {
		write(t, filepath.Join(dir, fmt.Sprintf("%d.tif", i)), mapGrid(40, 30, col, -col), px, nil)
	}
	for f, want := range map[Footprint]raster.Grid{
		Intersection: mapGrid(33, 23, 7, 0), Union: mapGrid(47, 37, 0, -7), Reference: mapGrid(40, 30, 7, -7),
	} {
		out := filepath.Join(dir, "out.tif")
		mustRun(t, Job{Inputs: map[string]Input{"a": File(filepath.Join(dir, "0.tif")),
			"b": File(filepath.Join(dir, "1.tif"))},
			Outputs: map[string]Output{"o": {Path: out}}, Controls: Controls{Footprint: f, Reference: "b"},
			Func: func(_ context.Context, b *Block) error { b.SetOut("o", b.In("b")); return nil }})
		if g := open(t, out).Info().Grid; g.Width != want.Width || g.Height != want.Height ||
			g.Transform != want.Transform || g.CRS.Code != want.CRS.Code {
			t.Errorf("%v: %+v", f, g)
		}
	}
}
