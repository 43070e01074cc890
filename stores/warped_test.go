package stores

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"leat/apply"
	"leat/apply/outcome"
	"leat/internal/gdal"
)

// offGrid writes a raster on the tests' grid and one on another grid, and returns a job that warps
// the second to the first.
func offGrid(t *testing.T, s *shop) func(b, out string) apply.Job {
	if err := gdal.Available(); err != nil {
		t.Skip(err)
	}
	scene(t, s.path("a.tif"), testGrid, 1, 1, nil)
	other := testGrid
	other.Width, other.Height = 300, 200
	other.Transform[0], other.Transform[1], other.Transform[5] = 501003, 17, -19
	scene(t, s.path("b.tif"), other, 1, 2, func(o *apply.Output) { o.Nodata = "5" })
	return func(b, out string) apply.Job {
		job := ratio(s.path("a.tif"), b, out)
		job.Inputs["b"] = apply.Input{Files: []string{b}, Resample: "bilinear"}
		job.Controls.Reference, job.Controls.Footprint = "a", apply.Union
		job.Controls.WindowWidth, job.Controls.WindowHeight = 128, 128
		return job
	}
}

func TestWarpOfStagedInput(t *testing.T) {
	s := newShop(t)
	job := offGrid(t, s)
	out := t.TempDir()
	mustRun(t, job(s.path("b.tif"), filepath.Join(out, "local.tif")))
	s.reset()
	stores := newStores(t, t.TempDir())
	remote := job(s.url("b.tif"), filepath.Join(out, "remote.tif"))
	remote.Open = stores.Open
	p, err := apply.MakePlan(t.Context(), remote)
	if err != nil {
		t.Fatal(err)
	}
	st, err := os.Stat(s.path("b.tif"))
	if err != nil {
		t.Fatal(err)
	}
	if i := p.Inputs[1]; i.Access != "staged" || !strings.Contains(i.Why, "warped") || !strings.Contains(i.Warped,
		"by bilinear") || i.NeedBytes != st.Size() {
		t.Errorf("%+v", i)
	}
	if n := s.sent("b.tif"); n >= st.Size() {
		t.Errorf("a plan brought %d of %d bytes", n, st.Size())
	}
	remote.Concurrency.Workers = 3
	mustRun(t, remote)
	sameFile(t, filepath.Join(out, "remote.tif"), filepath.Join(out, "local.tif"))
	// From a header alone, without nodata, and with all bands.
	for _, change := range []func(*apply.Job){
		func(j *apply.Job) { j.Controls.NoMask = true },
		func(j *apply.Job) { in := j.Inputs["b"]; in.Nodata = []string{"none"}; j.Inputs["b"] = in },
		func(j *apply.Job) { in := j.Inputs["b"]; in.Resample = "average"; j.Inputs["b"] = in },
	} {
		local, remote := job(s.path("b.tif"), filepath.Join(out, "local.tif")),
			job(s.url("b.tif"), filepath.Join(out, "remote.tif"))
		remote.Open = stores.Open
		change(&local)
		change(&remote)
		mustRun(t, local)
		mustRun(t, remote)
		sameFile(t, filepath.Join(out, "remote.tif"), filepath.Join(out, "local.tif"))
	}
}

func TestWarpNeedsStage(t *testing.T) {
	s := newShop(t)
	job := offGrid(t, s)
	refused := func(stores *Stores, change func(*apply.Job), field string) {
		t.Helper()
		dir := t.TempDir()
		j := job(s.url("b.tif"), filepath.Join(dir, "out.tif"))
		j.Open = stores.Open
		change(&j)
		_, err := apply.Run(t.Context(), j)
		wantError(t, err, s.url("b.tif"))
		if f := new(outcome.FieldError); !errors.As(err, &f) || f.Field != field {
			t.Errorf("the error is about %+v, expected %s: %v", f, field, err)
		}
		t.Log(err)
		if files, _ := os.ReadDir(dir); len(files) > 0 {
			t.Errorf("%v was left", files)
		}
	}
	none := func(*apply.Job) {}
	refused(newStores(t, ""), none, "Input.Source")
	refused(newStores(t, t.TempDir()), func(j *apply.Job) { in := j.Inputs["b"]; in.Overviews = true; j.Inputs["b"] = in }, "Input.Overviews")
	if err := os.WriteFile(s.path("b.tif.aux.xml"), []byte("<PAMDataset></PAMDataset>"), 0o600); err != nil {
		t.Fatal(err)
	}
	refused(newStores(t, t.TempDir()), none, "Input.Source")
	// On the same grid, none of this matters.
	j := job(s.url("a.tif"), filepath.Join(t.TempDir(), "out.tif"))
	j.Open = newStores(t, "").Open
	res := mustRun(t, j)
	if slices.ContainsFunc(res.Plan.Inputs, func(i outcome.PlanInput) bool { return i.Warped != "" }) {
		t.Errorf("%+v", res.Plan.Inputs)
	}
}
