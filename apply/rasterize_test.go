package apply

import (
	"archive/zip"
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"leat/apply/internal/exec"
	"leat/apply/internal/jobspec"
	"leat/apply/internal/plan"
	"leat/apply/internal/resolve"
	"leat/apply/outcome"
	"leat/internal/gdal"
	"leat/internal/proctest"
	"leat/internal/rundir"
	"leat/internal/worker/pbstest"
	"leat/ndarray"
	"leat/raster"
	"leat/timing"
	"leat/worker"
	"leat/worker/pbs"
	"leat/worker/subprocess"
)

func TestPlanVectors(t *testing.T) {
	dir := vectorFiles(t)
	gpkg := filepath.Join(dir, "a.gpkg")
	out := t.TempDir()
	n := countBurning(t)
	job := vectorJob(out, vectorGrid(), map[string]Vector{
		"a": {Path: gpkg, Layer: "fields", Attribute: "class", Where: "class > 2", AllTouched: true, Null: ptr(-1)},
		"b": {Path: gpkg, Layer: "fields", Attribute: "class", Where: "class > 2", AllTouched: true, Null: ptr(-1),
			Nodata: "-1"},
		"c": {Path: gpkg, SQL: "SELECT * FROM roads", Burn: ptr(3)},
	})
	p, err := MakePlan(t.Context(), job)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []outcome.PlanInput{
		{Name: "a", Description: "layer fields, 42 features, those with class > 2 (Polygon) in EPSG:32631 (WGS 84 / UTM zone 31N), x ", Access: "rasterized", Why: "once, when the run begins, to a file of at most 234 KiB in " + out},
		{Name: "b", Description: "attribute class burned as int32, -1 where there is none, all that they touch",
			Access: "rasterized", Why: "together with a, which is the same"},
		{Name: "c", Description: `the result of "SELECT * FROM roads"`, Access: "rasterized", Why: "at most 58.6 KiB"},
	} {
		got := p.Inputs[i]
		if got.Name != want.Name || got.Path != gpkg || !strings.Contains(got.Description,
			want.Description) || got.Access != want.Access || !strings.Contains(got.Why, want.Why) {
			t.Errorf("%+v", got)
		}
	}
	if n.Load() != 0 {
		t.Error("the plan rasterized")
	}
	noDirs(t, out)
	if len(p.Notes) > 0 {
		t.Errorf("%q", p.Notes)
	}
	outer := vectorGrid()
	outer.Transform = outer.Transform.Shift(1000, 0)
	if p, err = MakePlan(t.Context(), vectorJob(t.TempDir(), outer,
		map[string]Vector{"a": {Path: filepath.Join(dir, "degrees.geojson")}})); err != nil {
		t.Fatal(err)
	}
	if len(p.Notes) != 1 || !strings.HasPrefix(p.Notes[0].Text,
		"no feature of a ("+filepath.Join(dir, "degrees.geojson")+") lies on the grid: they lie in x 4995") {
		t.Errorf("%q", p.Notes)
	}
	// The memory of the plan includes the rasters.
	r, plan, err := prepare(t.Context(), &job, nil)
	if err != nil {
		t.Fatal(err)
	}
	rasters := rasterizer(r, plan)
	defer rasters.Drop()
	in, _, err := rasters.Rasterize(t.Context(), r.Inputs)
	if err != nil {
		t.Fatal(err)
	}
	for i, f := range in.Files {
		if got, planned := storageOf(f.Info), storageOf(r.Inputs.Files[i].Info); got != planned {
			t.Errorf("%s is stored as %+v and was planned as %+v", f.Name, got, planned)
		}
		st, err := os.Stat(f.From)
		if err != nil || st.Mode().Perm() != 0o600 {
			t.Errorf("%v: %v", st.Mode(), err)
		}
		if st, err = os.Stat(filepath.Dir(f.From)); err != nil || st.Mode().Perm() != 0o700 {
			t.Errorf("%v: %v", st.Mode(), err)
		}
	}
}

// rasterizer returns what makes the rasters of a planned job.
func rasterizer(job *resolve.Job, p *plan.Plan) *exec.Rasterizer {
	return &exec.Rasterizer{Plan: p.Rasterizing, Vectors: job.Values.Vectors, Timings: timing.New(), Log: logger(nil)}
}

// storage is how a raster is stored, as far as the memory of a plan depends on it.
type storage struct {
	tileWidth, tileHeight, bands int
	interleave                   string
	compressed                   bool
}

func storageOf(i *raster.Info) storage {
	return storage{i.TileWidth, i.TileHeight, len(i.Bands), i.Interleave, i.Compression != "none"}
}

// remoteLauncher is a launcher whose workers share no directory with this machine.
type remoteLauncher struct{ worker.Launcher }

func (remoteLauncher) Capabilities() worker.Capabilities {
	return worker.Capabilities{NoSharedFS: true}
}

func TestInvalidVectors(t *testing.T) {
	t.Parallel()
	dir := vectorFiles(t)
	gpkg, shp := filepath.Join(dir, "a.gpkg"), filepath.Join(dir, "fields.shp")
	grid := vectorGrid()
	bare := grid
	bare.CRS = raster.CRS{}
	red := write(t, filepath.Join(dir, "red.tif"), grid, terrain[uint8](300, 200, 1), nil)
	remote := remoteLauncher{subprocess.New(nil)}
	for name, c := range map[string]struct {
		change  func(*Job)
		want    []string
		mistake bool
	}{
		"a name twice": {func(j *Job) { j.Inputs = map[string]Input{"v": File(red)} },
			[]string{"v is the name of an input and of a vector"}, true},
		"a name that is none": {func(j *Job) { j.Vectors["1"] = Vector{Path: shp} }, []string{`"1"`}, true},
		"no file": {func(j *Job) { j.Vectors["w"] = Vector{} }, []string{"vector w: no file is given"},
			true},
		"in a store": {func(j *Job) { j.Vectors["v"] = Vector{Path: "s3://bucket/a.gpkg"} },
			[]string{"s3://bucket/a.gpkg is in a store", "field Vector.Path"}, true},
		"as reference": {func(j *Job) { j.Controls.Reference = "v" },
			[]string{"the reference v", "is a vector"}, true},
		"no grid": {func(j *Job) { j.Controls.Grid = nil }, []string{"vectors have no grid"}, true},
		"as output": {func(j *Job) { j.Outputs["v"] = Output{Path: shp} },
			[]string{"output v is also the vector v"}, true},
		"workers on other machines": {func(j *Job) { j.Concurrency = Concurrency{On: remote, Workers: 2} },
			[]string{"share no directory with this machine", "field Concurrency.SharedTemp"}, true},
		"no such file": {func(j *Job) { j.Vectors["v"] = Vector{Path: "/nowhere.gpkg"} },
			[]string{"vector v: /nowhere.gpkg: no such file or directory"}, false},
		"no such layer": {func(j *Job) { j.Vectors["v"] = Vector{Path: gpkg, Layer: "rivers"} },
			[]string{"no layer rivers", "fields, roads, wells"}, true},
		"which layer": {func(j *Job) { j.Vectors["v"] = Vector{Path: gpkg} },
			[]string{"3 layers", "fields, roads, wells"}, true},
		"no such attribute": {func(j *Job) { j.Vectors["v"] = Vector{Path: shp, Attribute: "clss"} },
			[]string{"no attribute clss", "class, height, big, name"}, true},
		"an attribute of text": {func(j *Job) { j.Vectors["v"] = Vector{Path: shp, Attribute: "name"} },
			[]string{"name is not a number (String)"}, true},
		"a statement": {func(j *Job) { j.Vectors["v"] = Vector{Path: gpkg, SQL: "SELEKT"} },
			[]string{`the statement "SELEKT"`}, true},
		"a condition": {func(j *Job) { j.Vectors["v"] = Vector{Path: shp, Where: "class >"} }, []string{shp},
			true},
		"a type": {func(j *Job) {
			j.Vectors["v"] = Vector{Path: shp, Burn: ptr(300),
				Type: ndarray.Uint8}
		}, []string{"300", "uint8"}, true},
		"a grid without system": {func(j *Job) { j.Controls.Grid = &bare },
			[]string{"the grid names no coordinate reference system"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			out := t.TempDir()
			job := vectorJob(out, grid, map[string]Vector{"v": {Path: shp}})
			c.change(&job)
			for _, run := range []func() error{
				func() error { _, err := MakePlan(t.Context(), job); return err },
				func() error { _, err := Run(t.Context(), job); return err },
			} {
				err := run()
				wantError(t, err, c.want...)
				if errors.As(err, new(*outcome.JobError)) != c.mistake {
					t.Errorf("%T", err)
				}
			}
			if list, _ := os.ReadDir(out); len(list) > 0 {
				t.Errorf("%v was left", list)
			}
		})
	}
}

func TestAttributeOutOfRange(t *testing.T) {
	t.Parallel()
	dir := vectorFiles(t)
	out := t.TempDir()
	job := vectorJob(out, vectorGrid(), map[string]Vector{"v": {Path: filepath.Join(dir, "fields.shp"),
		Attribute: "height", Type: ndarray.Int16}})
	if err := planError(job); err == nil || !strings.Contains(err.Error(), "the attribute height of feature") {
		t.Errorf("the plan says %v", err)
	}
	failRun(t, job, "vector v", "the attribute height of feature", "int16")
	if list, _ := os.ReadDir(out); len(list) > 0 {
		t.Errorf("%v was left", list)
	}
}

func TestVectorChangedDuringRasterize(t *testing.T) {
	dir := vectorFiles(t)
	atPoints(t, func(point string) error {
		if point == "apply.rasterize" {
			later := time.Now().Add(time.Hour)
			return os.Chtimes(filepath.Join(dir, "fields.dbf"), later, later)
		}
		return nil
	})
	out := t.TempDir()
	failRun(t, vectorJob(out, vectorGrid(), map[string]Vector{"v": {Path: filepath.Join(dir, "fields.shp")}}),
		"vector v", "fields.dbf was changed at", "while it was rasterized")
	noDirs(t, out)
}

func TestRasterizeCanceled(t *testing.T) {
	dir := vectorFiles(t)
	out := t.TempDir()
	ctx, cancel := context.WithCancelCause(t.Context())
	stop := errors.New("enough")
	started, stage := make(chan *Running, 1), ""
	atPoints(t, func(point string) error {
		if point == "apply.rasterize" {
			stage = (<-started).Status().Stage
			cancel(stop)
		}
		return nil
	})
	r, err := Start(ctx, vectorJob(out, vectorGrid(), map[string]Vector{"v": {Path: filepath.Join(dir, "fields.shp")}}))
	if err != nil {
		t.Fatal(err)
	}
	started <- r
	if _, err := r.Wait(); !errors.Is(err, stop) {
		t.Error(err)
	}
	if stage != "rasterizing" || r.Status().Stage != "done" {
		t.Errorf("stages %s and %s", stage, r.Status().Stage)
	}
	if list, _ := os.ReadDir(out); len(list) > 0 {
		t.Errorf("%v was left", list)
	}
}

func TestRasterizeDiskFull(t *testing.T) {
	dir := vectorFiles(t)
	small, out := smallDisk(t, "128k"), t.TempDir()
	noise := []string{"WKT,n"}
	r := rand.New(rand.NewPCG(1, 2))
	for range 40000 { // pixels that do not compress
		noise = append(noise, fmt.Sprintf(`"POINT (%d %d)",%d`, 500000+r.IntN(8000), 5000000-r.IntN(8000),
			r.Uint32()/2))
	}
	for name, text := range map[string]string{"n.csv": strings.Join(noise, "\n"), "n.csvt": "WKT,Integer",
		"n.prj": ""} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, grid := range map[string]raster.Grid{"at the beginning": mapGrid(40000, 40000, 0, 0),
		"on the way": mapGrid(800, 800, 0, 0)} {
		grid.CRS = raster.CRS{}
		job := vectorJob(out, grid, map[string]Vector{"v": {Path: filepath.Join(dir, "n.csv"), Attribute: "n"}})
		o := job.Outputs["v"]
		o.TempDir = small
		job.Outputs["v"] = o
		n := countBurning(t)
		err := failRun(t, job, small, "full", "field Output.TempDir")
		t.Logf("%s: %v", name, err)
		if n.Load() != 0 {
			t.Error("a raster was made")
		}
		noDirs(t, small)
		noTraces(t, small)
	}
}

// vectorOutput is a child that runs the job of vectors: the directory of the vectors, that of
// outputs, and whether it resumes.
func vectorOutput(args []string) error {
	job := burnJob(args[0], args[1])
	job.Resume = args[2] == "true"
	_, err := Run(context.Background(), job)
	return err
}

func burnJob(vectors, dir string) Job {
	job := vectorJob(dir, vectorGrid(), map[string]Vector{"a": {Path: filepath.Join(vectors, "fields.shp"),
		Attribute: "class"}, "b": {Path: filepath.Join(vectors, "a.gpkg"), Layer: "roads"}})
	job.Controls.WindowWidth, job.Controls.WindowHeight = 64, 64
	job.Expressions["b"] = "a + b"
	return job
}

func TestResumeRasterizeAfterKill(t *testing.T) {
	vectors := vectorFiles(t)
	fresh := t.TempDir()
	mustRun(t, burnJob(vectors, fresh))
	for _, at := range []struct {
		point string
		pass  int
	}{{"apply.rasterize", 1}, {"apply.rasterized", 1}, {"apply.rasterized", 2}, {"apply.record", 9},
		{"apply.laid-out", 1}} {
		for _, after := range []string{"rerun", "resumed", "discarded"} {
			if !everyCase() && after != "resumed" && at.pass != 1 {
				continue
			}
			dir := t.TempDir()
			if killed, output, err := proctest.New("vector output", vectors, dir, "false").KillAt(at.point,
				at.pass).Start(t).Wait(); !killed {
				t.Fatalf("%v: the child was not killed: %v\n%s", at, err, output)
			}
			left := 1
			if at.point == "apply.laid-out" { // all blocks are done
				left = 0
			}
			if list, _ := filepath.Glob(filepath.Join(dir, rundir.Prefix+"*")); len(list) != left {
				t.Errorf("%v: %q were left", at, list)
			}
			job := burnJob(vectors, dir)
			if after == "discarded" {
				if _, err := Discard(t.Context(), job.Outputs); err != nil {
					t.Error(err)
				}
				if list, _ := os.ReadDir(dir); len(list) > 0 {
					t.Errorf("%v was left", list)
				}
				continue
			}
			job.Resume = after == "resumed"
			n := countBurning(t)
			res := mustRun(t, job)
			if want := int64(2); job.Resume && left == 0 && n.Load() != 0 || !(job.Resume && left == 0) &&
				n.Load() != want {
				t.Errorf("%v, %s: %d rasters were made", at, after, n.Load())
			}
			if at.point == "apply.record" && job.Resume && res.Resumed == 0 {
				t.Error("no block was resumed")
			}
			for name, o := range job.Outputs {
				sameFileBytes(t, fmt.Sprint(at, after), o.Path, fileBytes(t, filepath.Join(fresh, name+".tif")))
			}
			noDirs(t, dir)
			noTraces(t, dir)
		}
	}
}

func TestResumeRejectsChangedVectors(t *testing.T) {
	vectors := vectorFiles(t)
	dir := t.TempDir()
	mustRun(t, burnJob(vectors, dir))
	want := fileBytes(t, filepath.Join(dir, "b.tif"))
	interrupt(t, burnJob(vectors, dir))
	noDirs(t, dir)
	vector := func(set func(v *Vector)) func(*Job) {
		return func(j *Job) { v := j.Vectors["a"]; set(&v); j.Vectors["a"] = v }
	}
	later := time.Now().Add(time.Hour).Truncate(time.Second)
	touch := func(name string) func(*Job) {
		return func(*Job) {
			if err := os.Chtimes(filepath.Join(vectors, name), later, later); err != nil {
				t.Fatal(err)
			}
		}
	}
	for name, c := range map[string]struct {
		change func(*Job)
		want   string
	}{
		"attribute": {vector(func(v *Vector) { v.Attribute = "height" }),
			"input a: the attribute to burn was 'class' and is 'height'"},
		"value": {vector(func(v *Vector) { v.Attribute = ""; v.Burn = ptr(2) }),
			"input a: the attribute to burn was 'class' and is none"},
		"null": {vector(func(v *Vector) { v.Null = ptr(9) }),
			"input a: the value where no feature lies was 0 and is 9"},
		"condition": {vector(func(v *Vector) { v.Where = "class > 1" }),
			"input a: the condition was none and is 'class > 1'"},
		"statement": {vector(func(v *Vector) { v.SQL = "SELECT * FROM fields" }),
			"input a: the statement was none and is 'SELECT * FROM fields'"},
		"all touched": {vector(func(v *Vector) { v.AllTouched = true }),
			"input a: burning all pixels that a feature touches was off and is on"},
		"type":   {vector(func(v *Vector) { v.Type = ndarray.Uint8 }), "input a: the type was int32 and is uint8"},
		"nodata": {vector(func(v *Vector) { v.Nodata = "0" }), "input a: nodata was none and is 0"},
		"options": {vector(func(v *Vector) { v.OpenOptions = []string{"ENCODING=UTF-8"} }),
			"input a: the list of open options was none"},
		"file": {vector(func(v *Vector) { v.Path = filepath.Join(vectors, "degrees.geojson") }),
			"input a: the file was "},
		"layer": {func(j *Job) { v := j.Vectors["b"]; v.Layer = "wells"; j.Vectors["b"] = v },
			"input b: the layer was 'roads' and is 'wells'"},
		".shp":  {touch("fields.shp"), "input a: " + filepath.Join(vectors, "fields.shp") + " was changed"},
		".dbf":  {touch("fields.dbf"), "input a: " + filepath.Join(vectors, "fields.dbf") + " was changed"},
		".prj":  {touch("fields.prj"), "input a: " + filepath.Join(vectors, "fields.prj") + " was changed"},
		".gpkg": {touch("a.gpkg"), "input b: " + filepath.Join(vectors, "a.gpkg") + " was changed"},
		"gone": {func(j *Job) { delete(j.Vectors, "a"); j.Expressions = map[string]string{"a": "b", "b": "b"} },
			"the number of files of input a was 1 and is none"},
	} {
		t.Run(name, func(t *testing.T) {
			times := map[string]time.Time{}
			list, err := os.ReadDir(vectors)
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range list {
				if i, err := e.Info(); err == nil {
					times[e.Name()] = i.ModTime()
				}
			}
			job := burnJob(vectors, dir)
			job.Resume = true
			c.change(&job)
			_, err = Run(t.Context(), job)
			wantError(t, err, "can't be continued: ", c.want)
			if !errors.As(err, new(*outcome.ResumeError)) {
				t.Errorf("%T", err)
			}
			for name, at := range times {
				if err := os.Chtimes(filepath.Join(vectors, name), at, at); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
	n := countBurning(t)
	job := burnJob(vectors, dir)
	job.Resume = true
	if res := mustRun(t, job); res.Resumed == 0 || n.Load() != 2 {
		t.Errorf("%d blocks were resumed, %d rasters made", res.Resumed, n.Load())
	}
	sameFileBytes(t, "resumed", filepath.Join(dir, "b.tif"), want)
}

func TestVectorLabelHidesPasswords(t *testing.T) {
	for path, want := range map[string]string{
		"PG:dbname=a host=b password=secret user=c": "PG:dbname=a host=b password=... user=c",
		"/a directory/with = and spaces.gpkg":       "/a directory/with = and spaces.gpkg",
		"roads.gpkg":                                "roads.gpkg",
	} {
		if got := (&jobspec.Vector{Path: path}).Label(); got != want {
			t.Errorf("%s, not %s", got, want)
		}
	}
}

func TestVectorsWithBatchWorkers(t *testing.T) {
	vectors := vectorFiles(t)
	here := t.TempDir()
	mustRun(t, burnJob(vectors, here))
	pbstest.New(t, pbstest.Settings{})
	for _, single := range []bool{false, true} {
		out, shared := t.TempDir(), t.TempDir()
		job := burnJob(vectors, out)
		job.Concurrency = Concurrency{On: pbs.New(nil), Workers: 2, Listen: "127.0.0.1", SharedTemp: shared}
		if single {
			job.Concurrency.Workers, job.Concurrency.OneBlockPerJob = 0, true
			job.Controls.WindowWidth, job.Controls.WindowHeight = 256, 128
			mustRun(t, func() Job { j := burnJob(vectors, here); j.Controls = job.Controls; return j }())
		}
		mustRun(t, job)
		for name, o := range job.Outputs {
			sameFileBytes(t, fmt.Sprint("single blocks: ", single), o.Path,
				fileBytes(t, filepath.Join(here, name+".tif")))
		}
		for _, dir := range []string{out, shared} {
			noDirs(t, dir)
		}
	}
}

func TestRasterizeWithinMemory(t *testing.T) {
	dir := vectorFiles(t)
	found, err := gdal.CacheBytes()
	if err != nil {
		t.Fatal(err)
	}
	const before = 256 << 20 // other tests may have set another size for the process
	if err := gdal.SetCacheBytes(before); err != nil {
		t.Fatal(err)
	}
	defer gdal.SetCacheBytes(found)
	grid := mapGrid(3000, 2500, 0, 0)
	job := vectorJob(t.TempDir(), grid, map[string]Vector{"v": {Path: filepath.Join(dir, "fields.shp"),
		Attribute: "height"}, "w": {Path: filepath.Join(dir, "fields.shp"), Attribute: "class"}})
	job.Expressions = map[string]string{"v": "v + w"}
	delete(job.Outputs, "w")
	job.Concurrency.Workers = 2
	for budget, parallel := range map[int64]int{0: 2, 100 << 20: 1} {
		job.Controls.MemoryBytes = budget
		r, plan, err := prepare(t.Context(), &job, nil)
		if err != nil {
			t.Fatal(err)
		}
		planned := plan.Rasterizing
		if plan.MemoryBytes > plan.BudgetBytes || planned.Parallel > parallel ||
			(planned.CacheBytes > 0) != (budget > 0) {
			t.Errorf("of %d bytes: %d, %+v", budget, plan.MemoryBytes, planned)
		}
		during := int64(0)
		atPoints(t, func(point string) error {
			if point == "apply.rasterize" {
				during, _ = gdal.CacheBytes()
			}
			return nil
		})
		rasters := rasterizer(r, plan)
		if _, _, err := rasters.Rasterize(t.Context(), r.Inputs); err != nil {
			t.Fatal(err)
		}
		if planned.CacheBytes > 0 && during != planned.CacheBytes {
			t.Errorf("GDAL's cache may take %d bytes, not %d", during, planned.CacheBytes)
		}
		rasters.Drop()
		if now, _ := gdal.CacheBytes(); now != before {
			t.Errorf("GDAL's cache may take %d bytes now, and %d before", now, before)
		}
	}
}

func TestVectorsInArchive(t *testing.T) {
	vectors := vectorFiles(t)
	archive := filepath.Join(t.TempDir(), "fields.zip")
	f, err := os.Create(archive)
	if err != nil {
		t.Fatal(err)
	}
	z := zip.NewWriter(f)
	for _, name := range []string{"fields.shp", "fields.shx", "fields.dbf", "fields.prj"} {
		w, err := z.Create(name)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(fileBytes(t, filepath.Join(vectors, name))); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(z.Close(), f.Close()); err != nil {
		t.Fatal(err)
	}
	path := "/vsizip/" + archive + "/fields.shp"
	job := vectorJob(t.TempDir(), vectorGrid(), map[string]Vector{"v": {Path: path, Attribute: "class"}})
	job.Controls.WindowWidth, job.Controls.WindowHeight = 64, 64
	interrupt(t, job)
	job.Resume = true
	failRun(t, job, "input v: "+"a change of "+path+" can't be detected: it is not a regular file")
	job.Resume = false
	mustRun(t, job)
	if want := rasterized(t, filepath.Join(vectors, "fields.shp"), vectorGrid(), "Int32", 0, "-a",
		"class"); !bytes.Equal(raw(t, job.Outputs["v"].Path), want) {
		t.Error("the pixels are not gdal_rasterize's")
	}
}
