package apply

import (
	"os"
	"path/filepath"
	"testing"
)

func TestReferenceFile(t *testing.T) {
	dir := t.TempDir()
	a := write(t, filepath.Join(dir, "a.tif"), mapGrid(40, 30, 0, 0), terrain[uint8](40, 30, 1), nil)
	ref := write(t, filepath.Join(dir, "ref.tif"), mapGrid(20, 10, 5, 7), terrain[uint8](20, 10, 2), nil)
	g, err := GridOf(ref)
	if err != nil || g.Width != 20 || g.Height != 10 || g.Transform != mapGrid(20, 10, 5, 7).Transform {
		t.Fatalf("%+v, %v", g, err)
	}
	run := func(c Controls) []uint8 {
		out := filepath.Join(dir, "out.tif")
		mustRun(t, Job{Inputs: map[string]Input{"a": File(a)}, Outputs: map[string]Output{"x": {Path: out}},
			Expressions: map[string]string{"x": "a"}, Controls: c})
		return pixels[uint8](t, out)
	}
	want := run(Controls{Grid: &g, Footprint: Reference})
	if len(want) != 200 {
		t.Fatalf("%d pixels", len(want))
	}
	samePixels(t, "reference file", 20, run(Controls{Reference: ref, Footprint: Reference}), want)
	samePixels(t, "input", 40, run(Controls{Reference: "a"}), pixels[uint8](t, a))

	job := Job{Inputs: map[string]Input{"a": File(a)}, Func: nothing, Controls: Controls{Reference: "b"}}
	failRun(t, job, `"b"`, "not the name of an input")
	text := filepath.Join(dir, "text")
	if err := os.WriteFile(text, []byte("no raster"), 0o600); err != nil {
		t.Fatal(err)
	}
	job.Controls.Reference = text
	failRun(t, job, "reference: ", text)
}
