package apply

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"leat/apply/outcome"
	"leat/raster"
	"leat/worker/subprocess"
)

// world writes a raster in pixels of two degrees from 60 degrees north, whose columns begin at
// west. A pixel holds the number of its place, which does not depend on turns, or 0 for nodata.
func world(t testing.TB, dir, name string, west, columns int) string {
	t.Helper()
	g := raster.Grid{Width: columns, Height: 30, HasTransform: true, CRS: raster.CRS{Code: "EPSG:4326"},
		Transform: raster.Transform{float64(west), 2, 0, 60, 0, -2}}
	return write(t, filepath.Join(dir, name), g, placeNumbers(west, columns), func(o *Output) { o.Nodata = "0" })
}

func placeNumbers(west, columns int) []uint16 {
	px := make([]uint16, columns*30)
	for i := range px {
		column := ((west/2+i%columns)%180 + 180) % 180
		if px[i] = uint16(1 + column + 180*(i/columns)); px[i]%7 == 0 {
			px[i] = 0
		}
	}
	return px
}

func turnNotes(res *outcome.Plan) []string {
	return slices.DeleteFunc(noteTexts(res.Notes), func(n string) bool { return !strings.Contains(n, "360 degrees") })
}

func TestLongitudesATurnApart(t *testing.T) {
	t.Parallel()
	needGDAL(t)
	dir := t.TempDir()
	in := map[string]Input{}
	for name, w := range map[string][2]int{"east": {0, 180}, "both": {-180, 180}, "part": {250, 20}, "same": {-110, 20},
		"fiji": {170, 10}, "wide": {-180, 181}} {
		in[name] = File(world(t, dir, name+".tif", w[0], w[1]))
	}
	grid := open(t, filepath.Join(dir, "both.tif")).Info().Grid
	for _, c := range []struct {
		inputs  string // by name; the first is the result
		control Controls
		west    int // of the result
		columns int
		note    bool
	}{
		{"east both", Controls{}, 0, 90, true},
		{"east both", Controls{Reference: "east"}, 0, 180, false},
		{"east both", Controls{Reference: "both"}, -180, 180, false},
		{"both east", Controls{Reference: "both"}, -180, 180, false},
		{"both east", Controls{Reference: "east"}, 0, 180, false},
		{"east", Controls{Grid: &grid, Footprint: Reference}, -180, 180, false},
		{"east both", Controls{Grid: &grid, Footprint: Reference}, -180, 180, false},
		{"part both", Controls{Reference: "both"}, -110, 20, false},
		{"part both", Controls{Reference: "part"}, 250, 20, false},
		{"both part", Controls{Reference: "part"}, 250, 20, false},
		{"part same", Controls{Reference: "same"}, -110, 20, false},
		{"east part", Controls{}, 250, 20, false},
		{"fiji both", Controls{}, 170, 5, true},
		{"fiji both", Controls{Reference: "fiji"}, 170, 10, false},
		{"wide both", Controls{}, -180, 180, false},
		{"east both", Controls{BBox: &[4]float64{10, 0, 90, 60}}, 10, 40, false},
		{"east both", Controls{BBox: &[4]float64{-90, 0, 90, 60}}, 0, 45, true},
	} {
		what := fmt.Sprint(c.inputs, " ", c.control.Reference, c.control.Grid != nil, c.control.BBox)
		names := strings.Fields(c.inputs)
		out := filepath.Join(t.TempDir(), "o.tif")
		job := Job{Inputs: map[string]Input{}, Expressions: map[string]string{"o": names[0]},
			Outputs: map[string]Output{"o": {Path: out, Nodata: "0", NoOverviews: true}}, Controls: c.control}
		for _, n := range names {
			i := in[n]
			i.Resample = "cubic" // which must not touch pixels that are only moved
			job.Inputs[n] = i
		}
		res := mustRun(t, job)
		if notes := turnNotes(res.Plan); (len(notes) > 0) != c.note {
			t.Errorf("%s: notes %q", what, notes)
		}
		g := open(t, out).Info().Grid
		if g.Transform[0] != float64(c.west) || g.Width != c.columns {
			t.Errorf("%s: %d columns from %v", what, g.Width, g.Transform[0])
			continue
		}
		samePixels(t, what, c.columns, pixels[uint16](t, out), placeNumbers(c.west, c.columns)[:c.columns*g.Height])
		if job.Concurrency = (Concurrency{On: subprocess.New(nil), Workers: 1, Reading: ReadByWorkers}); c.west == 250 {
			want := fileBytes(t, out)
			mustRun(t, job)
			sameFileBytes(t, what+" by a worker process", out, want)
		}
	}
}

func TestDisjointLongitudesATurnApart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	east, west := world(t, dir, "east.tif", 250, 20), world(t, dir, "west.tif", -110, 20)
	job := Job{Inputs: map[string]Input{"a": File(east), "b": File(west)}, Expressions: map[string]string{"o": "a + b"},
		Outputs: map[string]Output{"o": {Path: filepath.Join(dir, "o.tif")}}}
	err := failRun(t, job, "no pixel in common", "longitudes 250 to 290", "-110 to -70")
	if f := new(outcome.FieldError); !errors.As(err, &f) || f.Field != "Controls.Reference" || f.Value != "a" {
		t.Errorf("%#v", err)
	}
	job.Inputs["b"] = File(world(t, dir, "other.tif", 0, 20))
	if err := failRun(t, job, "no pixel in common"); strings.Contains(err.Error(), "360") {
		t.Error(err)
	}
}

// Metres are not turned.
func TestProjectedGridsHaveNoTurns(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	a := write(t, filepath.Join(dir, "a.tif"), mapGrid(400, 3, 0, 0), make([]uint8, 1200), nil)
	b := write(t, filepath.Join(dir, "b.tif"), mapGrid(400, 3, 36, 0), make([]uint8, 1200), nil)
	res := mustRun(t, Job{Inputs: map[string]Input{"a": File(a), "b": File(b)},
		Expressions: map[string]string{"o": "a + b"}, Controls: Controls{Reference: "a"},
		Outputs: map[string]Output{"o": {Path: filepath.Join(dir, "o.tif")}}})
	if notes := turnNotes(res.Plan); len(notes) > 0 || res.Plan.Inputs[1].Warped != "" {
		t.Errorf("notes %q, %q", notes, res.Plan.Inputs[1].Warped)
	}
}

func TestPixelSizeOfLongitudesATurnApart(t *testing.T) {
	t.Parallel()
	needGDAL(t)
	dir := t.TempDir()
	in := map[string]Input{"a": File(world(t, dir, "a.tif", 0, 180)), "b": File(world(t, dir, "b.tif", -180, 180))}
	for _, size := range []float64{2, 4} {
		p, err := MakePlan(t.Context(), Job{Inputs: in, Expressions: map[string]string{"o": "a + b"},
			Outputs:  map[string]Output{"o": {Path: filepath.Join(dir, "o.tif")}},
			Controls: Controls{PixelSize: [2]float64{size, size}}})
		if err != nil {
			t.Fatal(err)
		}
		if notes := turnNotes(p); len(notes) != 1 {
			t.Errorf("pixels of %v degrees: notes %q", size, notes)
		}
	}
}
