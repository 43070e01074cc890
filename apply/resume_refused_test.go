package apply

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"leat/apply/internal/spool"
	"leat/apply/outcome"
	"leat/block"
	"leat/ndarray"
)

// interrupt runs a job of expressions or a function until some blocks are done.
func interrupt(t *testing.T, job Job) *outcome.IncompleteError {
	t.Helper()
	ctx, cancel := context.WithCancelCause(t.Context())
	stop := errors.New("enough")
	plan, err := MakePlan(t.Context(), job)
	if err != nil {
		t.Fatal(err)
	}
	afterBlocks(t, int64(plan.Blocks.Count()/2), func() { cancel(stop) })
	job.Concurrency.Workers = 1
	_, err = Run(ctx, job)
	var left *outcome.IncompleteError
	if !errors.Is(err, stop) || !errors.As(err, &left) {
		t.Fatal("the run was not interrupted:", err)
	}
	return left
}

func TestResumeRejectsChangedJob(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	const w, h = 200, 150
	for i, name := range []string{"a.tif", "b.tif", "c.tif"} {
		write(t, at(name), mapGrid(w, h, 0, 0),
			append(terrain[uint16](w, h, uint64(i)), terrain[uint16](w, h, uint64(i+7))...),
			func(o *Output) { o.Nodata = "0" })
	}
	if err := os.WriteFile(at("a.tif.aux.xml"), []byte("<PAMDataset></PAMDataset>"), 0o600); err != nil {
		t.Fatal(err)
	}
	make := func() Job {
		return Job{
			Inputs:      map[string]Input{"a": File(at("a.tif")), "b": File(at("b.tif"))},
			Expressions: map[string]string{"x": "a[1] + b[2]", "y": "a[2]"},
			Tables:      map[string]string{"unused.csv": "1 2"},
			Outputs: map[string]Output{"x": {Path: at("x.tif"), TileSize: 64, Overviews: []int{2}},
				"y": {Path: at("y.tif"), TileSize: 64}},
			Controls: Controls{WindowWidth: 64, WindowHeight: 64}, Version: "one",
		}
	}
	fresh := make()
	mustRun(t, fresh)
	want := map[string][]byte{"x": fileBytes(t, at("x.tif")), "y": fileBytes(t, at("y.tif"))}
	left := interrupt(t, make())
	spools := map[string][]byte{}
	for _, path := range left.Paths {
		spools[path] = fileBytes(t, path)
	}
	output := func(name string, set func(o *Output)) func(*Job) {
		return func(j *Job) { o := j.Outputs[name]; set(&o); j.Outputs[name] = o }
	}
	input := func(set func(in *Input)) func(*Job) {
		return func(j *Job) { in := j.Inputs["a"]; set(&in); j.Inputs["a"] = in }
	}
	later := time.Now().Add(-time.Hour).Truncate(time.Second)
	for name, c := range map[string]struct {
		change func(*Job)
		want   string
	}{
		"expression": {func(j *Job) { j.Expressions["x"] = "a[1] - b[2]" },
			"the expression of x was 'a[1] + b[2]' and is 'a[1] - b[2]'"},
		"other expression": {func(j *Job) { j.Expressions["y"] = "a[2] + 0" },
			"the expression of y was 'a[2]' and is 'a[2] + 0'"},
		"version":    {func(j *Job) { j.Version = "two" }, "the version was 'one' and is 'two'"},
		"no version": {func(j *Job) { j.Version = "" }, "the version was 'one' and is none"},
		"fewer outputs": {func(j *Job) { delete(j.Outputs, "y"); delete(j.Expressions, "y") },
			"the list of outputs was x, y and is x"},
		"type": {output("x", func(o *Output) { o.Type = ndarray.Float64 }), "output x: the type was "},
		"nodata": {output("x", func(o *Output) { o.Nodata = "7" }),
			"output x: nodata was -2147483648 and is 7"},
		"scale": {output("y", func(o *Output) { o.Scale = 2 }), "output y: the scale was 0 and is 2"},
		"offset": {output("y", func(o *Output) { o.Scale, o.Offset = 1, 3 }),
			"output y: the offset was 0 and is 3"},
		"compression": {output("y", func(o *Output) { o.Compression = "zstd" }),
			"output y: the coding was deflate"},
		"predictor": {output("y", func(o *Output) { o.Predictor = 1 }), "output y: the coding was deflate"},
		"tiles": {output("y", func(o *Output) { o.TileSize = 32 }),
			"output y: the tile size was 64 x 64 and is 32 x 32"},
		"overviews": {output("x", func(o *Output) { o.Overviews = []int{2, 4} }),
			"output x: the list of overview levels was 2 and is 2,4"},
		"no overviews": {output("x", func(o *Output) { o.Overviews, o.NoOverviews = nil, true }),
			"output x: the list of overview levels was 2 and is none"},
		"overview method": {output("x", func(o *Output) { o.OverviewMethod = "mode" }),
			"output x: the overview method was nearest and is mode"},
		"statistics": {output("x", func(o *Output) { o.NoStatistics = true }),
			"output x: the computation of statistics was on and is off"},
		"histogram": {output("x", func(o *Output) { o.NoHistogram = true }),
			"output x: the computation of a histogram was on and is off"},
		"blocks": {func(j *Job) { j.Controls.WindowWidth = 128 },
			"the size of blocks was 64 x 64 and is 128 x 64"},
		"box": {func(j *Job) { j.Controls.Window = &block.Window{Width: 100, Height: 100} },
			"the grid's size was 200 x 150 and is 100 x 100"},
		"box elsewhere": {func(j *Job) { j.Controls.Window = &block.Window{Col: 20, Width: 180, Height: 150} },
			"the grid's transform was "},
		"table": {func(j *Job) { j.Tables = map[string]string{"unused.csv": "1 3"} },
			"the contents of the table unused.csv differ"},
		"times": {input(func(in *Input) { in.Times = []time.Time{later} }),
			"input a: its time was none and is " + later.UTC().Format(time.RFC3339)},
		"masks": {func(j *Job) { j.Controls.NoMask = true },
			"the use of masks and nodata of inputs was on and is off"},
		"unscale": {func(j *Job) { j.Controls.Unscale = true },
			"the scaling of inputs was off and is on"},
		"collisions": {func(j *Job) { j.Controls.NodataCollision = true },
			"the check for results that equal nodata was off and is on"},
		"input nodata": {input(func(in *Input) { in.Nodata = []string{"3"} }),
			"input a: nodata was 0,0 and is 3,3"},
		"input scale": {input(func(in *Input) { in.Scale, in.Offset = 1, 0 }),
			"input a: the scale was 1,1 and is 1 (given),1 (given)"},
		"layers": {input(func(in *Input) { in.Layers = []int{2, 1} }),
			"input a: the list of bands that are read was 1,2 and is 2,1"},
		"a list": {input(func(in *Input) { *in = Files(at("a.tif"), at("c.tif")) }),
			"the number of files of input a was 1 and is 2 (a list)"},
		"another input": {input(func(in *Input) { *in = File(at("c.tif")) }),
			"input a: the file was " + at("a.tif") + " and is " + at("c.tif")},
		"one input more": {func(j *Job) { j.Inputs["c"] = File(at("c.tif")) }, "the number of files of input c was none and is 1"},
		"one input less": {func(j *Job) { delete(j.Inputs, "b"); j.Expressions["x"] = "a[1]" },
			"the number of files of input b was 1 and is none"},
		"a sidecar removed": {func(*Job) { os.Remove(at("a.tif.aux.xml")) },
			"input a: " + at("a.tif.aux.xml") + " is gone"},
		"a changed file": {func(*Job) {
			if err := os.Chtimes(at("a.tif"), later, later); err != nil {
				t.Fatal(err)
			}
		}, "input a: " + at("a.tif") + " was changed at " + later.Format("2006-01-02 15:04:05")},
		"a file that was put there": {func(*Job) {
			st, err := os.Stat(at("b.tif"))
			if err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(os.WriteFile(at("copy"), fileBytes(t, at("b.tif")), 0o600),
				os.Chtimes(at("copy"), st.ModTime(), st.ModTime()), os.Rename(at("copy"), at("b.tif"))); err != nil {
				t.Fatal(err)
			}
		}, "input b: " + at("b.tif") + " is another file than before, of the same size and time"},
	} {
		t.Run(name, func(t *testing.T) {
			before := map[string][]byte{}
			st := map[string]os.FileInfo{}
			for _, n := range []string{"a.tif", "b.tif", "a.tif.aux.xml"} {
				before[n] = fileBytes(t, at(n))
				st[n], _ = os.Stat(at(n))
				if err := os.Link(at(n), at(n+".kept")); err != nil {
					t.Fatal(err)
				}
			}
			job := make()
			job.Resume = true
			c.change(&job)
			for _, run := range []func() error{
				func() error { _, err := Run(t.Context(), job); return err },
				func() error { _, err := MakePlan(t.Context(), job); return err },
			} {
				err := run()
				wantError(t, err, "x.tif.leat-part can't be continued: ", c.want)
				if !errors.As(err, new(*outcome.ResumeError)) {
					t.Errorf("%T", err)
				}
				if strings.Count(err.Error(), c.want) != 1 {
					t.Errorf("it is said several times: %v", err)
				}
			}
			for path, b := range spools {
				if !bytes.Equal(fileBytes(t, path), b) {
					t.Errorf("%s was changed", path)
				}
			}
			for n := range before {
				if err := errors.Join(os.Rename(at(n+".kept"), at(n)),
					os.Chtimes(at(n), st[n].ModTime(), st[n].ModTime())); err != nil {
					t.Fatal(err)
				}
				os.Remove(at(n + ".kept")) // if both names lead to one file, a rename does nothing
			}
		})
	}
	// Options that only matter for laying out may change, and so may all that depends on the
	// machine.
	job := make()
	job.Resume = true
	job.Controls.MemoryBytes, job.Concurrency = 300<<20, Concurrency{Workers: 3, Readers: 1}
	job.Inputs["a"] = File(filepath.Join(dir, "..", filepath.Base(dir), "a.tif"))
	if res := mustRun(t, job); res.Resumed != left.Done {
		t.Errorf("%d blocks were resumed, %d were there", res.Resumed, left.Done)
	}
	for n, b := range want {
		sameFileBytes(t, n, at(n+".tif"), b)
	}
}

func TestResumeAdoptsBlockSize(t *testing.T) {
	const w, h = 1200, 900
	dir := t.TempDir()
	job := sliceJob(mapGrid(w, h, 0, 0), terrain[uint8](w, h, 1),
		Output{Path: filepath.Join(dir, "o.tif"), TileSize: 64})
	whole := job
	mustRun(t, whole)
	want := fileBytes(t, filepath.Join(dir, "o.tif"))
	first := job
	first.Controls.WindowWidth, first.Controls.WindowHeight = 128, 192
	left := interrupt(t, first)
	job.Resume, job.Concurrency.Workers = true, 2
	p, err := MakePlan(t.Context(), job)
	if err != nil || p.Blocks.WindowWidth != 128 || p.Blocks.WindowHeight != 192 || len(p.Notes) > 0 {
		t.Errorf("%v: planned %+v, %q", err, p.Blocks, p.Notes)
	}
	res := mustRun(t, job)
	if res.Resumed != left.Done || res.Plan.Blocks.WindowWidth != 128 || !slices.ContainsFunc(noteTexts(res.Plan.Notes),
		func(n string) bool {
			return n == fmt.Sprintf("%d of 50 blocks were taken from the unfinished output", left.Done)
		}) {
		t.Errorf("%d of %d blocks were resumed; notes %q", res.Resumed, left.Done, res.Plan.Notes)
	}
	sameFileBytes(t, "resumed", filepath.Join(dir, "o.tif"), want)
}

func TestResumeWithoutSpool(t *testing.T) {
	dir := t.TempDir()
	job, calls, _ := resumeJob("nearest", "", dir, 2)
	job.Resume = true
	says := func(notes []outcome.Note) {
		t.Helper()
		if want := "nothing to resume: there is no " + filepath.Join(dir,
			".out.tif.leat-part") + ", so all blocks are computed"; !slices.Contains(noteTexts(notes), want) {
			t.Errorf("%q", notes)
		}
	}
	p, err := MakePlan(t.Context(), job)
	if err != nil {
		t.Fatal(err)
	}
	says(p.Notes)
	res := mustRun(t, job)
	says(res.Plan.Notes)
	if res.Resumed != 0 || calls.Load() != 100 {
		t.Errorf("%d blocks were resumed, %d computed", res.Resumed, calls.Load())
	}
	noTraces(t, dir)
}

func TestResumeMissingSpool(t *testing.T) {
	inputs, dir := resumeInputs(t), t.TempDir()
	const name = "three expressions"
	want := runTruth(t, name, inputs)
	job, _, _ := resumeJob(name, inputs, dir, 1)
	left := interrupt(t, job)
	if len(left.Paths) != 3 {
		t.Fatalf("%q", left.Paths)
	}
	parts := map[string][]byte{}
	for _, path := range left.Paths {
		parts[path] = fileBytes(t, path)
	}
	refused := func(what string, change func(*Job), words ...string) {
		t.Helper()
		again, _, _ := resumeJob(name, inputs, dir, 1)
		again.Resume = true
		change(&again)
		err := failRun(t, again, append(words, "can't be continued: ")...)
		if !errors.As(err, new(*outcome.ResumeError)) || errors.As(err, new(*outcome.IncompleteError)) {
			t.Errorf("%s: %T", what, err)
		}
		for path, b := range parts {
			if !bytes.Equal(fileBytes(t, path), b) {
				t.Errorf("%s: %s was changed", what, path)
			}
		}
	}
	at := func(path string) string { return filepath.Join(dir, path) }
	refused("one more", func(j *Job) {
		j.Expressions["more"], j.Outputs["more"] = "red", Output{Path: at("more.tif"), TileSize: 64}
	}, ".both.tif.leat-part", "the list of outputs was both, low, ndvi and is both, low, more, ndvi; output more has nothing to resume from ("+at(".more.tif.leat-part")+")")
	misspelt := func(j *Job) { o := j.Outputs["both"]; o.Path = at("boht.tif"); j.Outputs["both"] = o }
	refused("misspelt", misspelt, ".low.tif.leat-part",
		"output both has nothing to resume from ("+at(".boht.tif.leat-part")+")")
	delete(parts, left.Paths[1])
	if err := os.Remove(left.Paths[1]); err != nil {
		t.Fatal(err)
	}
	refused("removed", func(*Job) {}, "output low has nothing to resume from ("+left.Paths[1]+")")
	// So is the empty file of a run that was killed before its first block was complete.
	if err := os.WriteFile(left.Paths[1], nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if res := want.check(t, "one is empty", name, inputs, dir, 2); res.Resumed != 0 {
		t.Errorf("%d blocks were resumed", res.Resumed)
	}
}

func TestResumeBlockMissingInOneOutput(t *testing.T) {
	inputs, dir := resumeInputs(t), t.TempDir()
	const name = "three expressions"
	want := runTruth(t, name, inputs)
	job, _, _ := resumeJob(name, inputs, dir, 1)
	left := interrupt(t, job)
	for i, path := range left.Paths { // another block in each
		b := fileBytes(t, path)
		n := 0
		for _, f := range recordsOf(t, b) {
			if f.Kind == spool.KindBlock {
				if n++; n == 10+i {
					b[f.Offset+1] ^= 1
				}
			}
		}
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if res := want.check(t, "three blocks lack an output", name, inputs, dir, 2); res.Resumed != left.Done-3 {
		t.Errorf("%d blocks were resumed of %d", res.Resumed, left.Done)
	}
}

func TestResumeStaleOverviewTile(t *testing.T) {
	// A function that gives different pixels each time: the tiles of all levels must be of the same
	// ones.
	const w, h = 256, 256
	dir := t.TempDir()
	grid := mapGrid(w, h, 0, 0)
	value := uint8(1)
	job := Job{Controls: Controls{Grid: &grid, WindowWidth: 64, WindowHeight: 64}, Concurrency: Concurrency{Workers: 1},
		Outputs: map[string]Output{"a": {Path: filepath.Join(dir, "a.tif"), TileSize: 64, Overviews: []int{2}},
			"b": {Path: filepath.Join(dir, "b.tif"), TileSize: 64}}}
	job.Func = func(_ context.Context, b *Block) error {
		for _, name := range []string{"a", "b"} {
			px := Out[uint8](b, name)
			for i := range px {
				px[i] = value
			}
		}
		return nil
	}
	left := interrupt(t, job)
	// Block 0 of b is torn, so block 0 is done again, with other pixels; its record in a, and the
	// overview tile made from it, stay in the file.
	tear := func(number uint64) {
		t.Helper()
		path := left.Paths[1]
		b := fileBytes(t, path)
		for _, f := range recordsOf(t, b) {
			if f.Kind == spool.KindBlock && f.Number == number {
				b[f.Offset] ^= 1
			}
		}
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	tear(0)
	value, job.Resume = 2, true
	stop := errors.New("enough")
	work := job.Func
	first := true
	again := job
	again.Func = func(ctx context.Context, b *Block) error {
		if !first {
			return stop
		}
		first = false
		return work(ctx, b)
	}
	if _, err := Run(t.Context(), again); !errors.Is(err, stop) {
		t.Fatal(err)
	}
	// The tile that was made from the new pixels is torn too: the older one must not replace it.
	path := left.Paths[0]
	b := fileBytes(t, path)
	var last *spool.Head
	for _, f := range recordsOf(t, b) {
		if f.Kind == spool.KindOverview && f.Number == 1<<48 { // level 1, tile 0
			last = &f
		}
	}
	if last == nil {
		t.Fatal("no overview tile was spooled")
	}
	b[last.Offset] ^= 1
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	mustRun(t, job)
	level, err := open(t, filepath.Join(dir, "a.tif")).Overview(0)
	if err != nil {
		t.Fatal(err)
	}
	full, half := pixels[uint8](t, filepath.Join(dir, "a.tif")), allOf[uint8](t, level)
	if full[0] != 2 || full[100] != 1 || half[0] != 2 || half[50] != 1 {
		t.Errorf("pixels %d and %d, in the overview %d and %d", full[0], full[100], half[0], half[50])
	}
}

func TestMergeWithoutCodecNotResumable(t *testing.T) {
	dir := t.TempDir()
	job, _, _ := resumeJob("emitted values", "", dir, 1)
	job.Emits = nil
	job.Resume = true
	failRun(t, job, "Merge", "Job.Emits", "field Resume")
	job.Resume = false
	stop := errors.New("enough")
	work := job.Func
	job.Func = func(ctx context.Context, b *Block) error {
		if b.Number == 50 {
			return stop
		}
		return work(ctx, b)
	}
	_, err := Run(t.Context(), job)
	if !errors.Is(err, stop) || errors.As(err, new(*outcome.IncompleteError)) {
		t.Errorf("%T: %v", err, err)
	}
	noTraces(t, dir)
	none := Job{Resume: true, Controls: Controls{Grid: gridOf(8, 8)}, Func: nothing}
	failRun(t, none, "no outputs", "field Resume")
}

func TestFailBeforeFirstBlock(t *testing.T) {
	dir := t.TempDir()
	job, _, _ := resumeJob("nearest", "", dir, 4)
	job.Func = func(context.Context, *Block) error { return errors.New("at once") }
	if err := failRun(t, job, "at once"); errors.As(err, new(*outcome.IncompleteError)) {
		t.Error("something is said to be left")
	}
	noTraces(t, dir)
}

func TestConcurrentResumeRejected(t *testing.T) {
	dir := t.TempDir()
	want := runTruth(t, "nearest", "")
	job, _, _ := unfinishedRun(t, "nearest", dir, 30)
	job.Resume = true
	started, release := make(chan struct{}, 100), make(chan struct{})
	first := job
	first.Func = func(ctx context.Context, b *Block) error { started <- struct{}{}; <-release; return job.Func(ctx, b) }
	done := make(chan error)
	go func() {
		res, err := Run(context.Background(), first)
		if err == nil && res.Resumed != 30 {
			err = fmt.Errorf("%d blocks were resumed", res.Resumed)
		}
		done <- err
	}()
	<-started
	err := failRun(t, job, "out.tif", "another run")
	if errors.As(err, new(*outcome.IncompleteError)) {
		t.Error("the second is said to have left something")
	}
	again := job
	again.Resume = false
	if p, err := MakePlan(t.Context(), again); err != nil || p.Replaced != nil {
		t.Errorf("blocks of the run at work are taken for those of an earlier run: %+v, %v", p, err)
	}
	if _, err := Discard(t.Context(), job.Outputs); err == nil {
		t.Error("the file of a run at work was removed")
	} else {
		wantError(t, err, "out.tif is being written by another run of leat", fmt.Sprint("process ", os.Getpid()))
	}
	close(release)
	if err := <-done; err != nil {
		t.Error(err)
	}
	sameFileBytes(t, "the first", job.Outputs["out"].Path, want.files["out"])
	noTraces(t, dir)
}

func TestResumeAfterDiskFull(t *testing.T) {
	const side = 1200
	dir := smallDisk(t, "5m")
	fill := filepath.Join(dir, "fill")
	if err := os.WriteFile(fill, make([]byte, 4<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	px := make([]uint8, side*side)
	for i := range px {
		px[i] = uint8(i*i>>7 ^ i*7>>3 ^ i) // it does not compress well
	}
	make := func(dir string) Job {
		job := sliceJob(mapGrid(side, side, 0, 0), px,
			Output{Path: filepath.Join(dir, "o.tif"), TileSize: 64, Compression: "none", NoOverviews: true})
		job.Controls.WindowWidth, job.Controls.WindowHeight, job.Concurrency.Workers = 64, 64, 2
		return job
	}
	whole := make(t.TempDir())
	mustRun(t, whole)
	job := make(dir)
	err := failRun(t, job, "o.tif", "full", "field Output.TempDir")
	var left *outcome.IncompleteError
	if !errors.As(err, &left) || left.Done < 10 || left.Done > 300 {
		t.Fatalf("%v: %+v", err, left)
	}
	job.Resume = true
	if err := failRun(t, job, "full"); !errors.As(err, &left) { // the disk is still full
		t.Fatal(err)
	}
	if err := os.Remove(fill); err != nil {
		t.Fatal(err)
	}
	res := mustRun(t, job)
	if res.Resumed < left.Done {
		t.Errorf("%d blocks were resumed, %d were there", res.Resumed, left.Done)
	}
	sameFileBytes(t, "resumed", job.Outputs["out"].Path, fileBytes(t, whole.Outputs["out"].Path))
	noTraces(t, dir)
}

func TestDiscardRemovesSpoolsOnly(t *testing.T) {
	dir, temp := t.TempDir(), t.TempDir()
	job, _, _ := resumeJob("nearest", "", dir, 1)
	o := job.Outputs["out"]
	for _, tempDir := range []string{"", temp} {
		o.TempDir = tempDir
		job.Outputs["out"] = o
		old := fileBytes(t, write(t, o.Path, mapGrid(30, 20, 0, 0), terrain[uint8](30, 20, 9), nil))
		if list, err := Discard(t.Context(), job.Outputs); err != nil || len(list) > 0 {
			t.Errorf("%v: %+v were removed where nothing was", err, list)
		}
		left := interrupt(t, job)
		if got := filepath.Dir(left.Paths[0]); tempDir != "" && got != tempDir || tempDir == "" && got != dir {
			t.Errorf("the unfinished output is %q", left.Paths)
		}
		if tempDir != "" {
			noTraces(t, dir)
		}
		list, err := Discard(t.Context(), job.Outputs)
		if err != nil || len(list) != 1 || list[0] != (Discarded{"out", left.Paths[0], left.Bytes}) {
			t.Errorf("%v: %+v, not %+v", err, list, left)
		}
		sameFileBytes(t, "after discarding", o.Path, old)
		noTraces(t, dir)
		noTraces(t, temp)
	}
	if _, err := Discard(t.Context(), map[string]Output{"a": {}}); err == nil {
		t.Error("an output without a name was discarded")
	}
}

func TestResumeWithOtherTempDir(t *testing.T) {
	dir, temp := t.TempDir(), t.TempDir()
	job, path, whole := unfinishedRun(t, "nearest", dir, 40)
	o := job.Outputs["out"]
	o.TempDir = temp
	job.Outputs = map[string]Output{"out": o}
	job.Resume = true
	failRun(t, job, path, "next to the output", "field Output.TempDir")
	if !bytes.Equal(fileBytes(t, path), whole) {
		t.Error("it was changed")
	}
	noTraces(t, temp)
}
