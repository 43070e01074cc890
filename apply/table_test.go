package apply

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"leat/apply/outcome"
	"leat/internal/fault"
	"leat/internal/proctest"
	"leat/ndarray"
	"leat/worker/subprocess"
)

// columnSums is a function that emits the number and the sum of the valid pixels of each variable
// in each column of a block.
func columnSums(_ context.Context, b *Block) error {
	first := b.Params().(int)
	all := map[int][]float64{}
	for i, name := range []string{"double", "part"} {
		valid := b.VariableValid(name).At(0).Raw()
		pixels := make([]float64, b.Rows()*b.Columns())
		convertPlane(pixels, b.Variable(name).At(0), 1, 0)
		for n, x := range pixels {
			if valid[n] == 0 {
				continue
			}
			col := first + b.Window.Col + n%b.Columns()
			if all[col] == nil {
				all[col] = make([]float64, 4)
			}
			all[col][2*i]++
			all[col][2*i+1] += x
		}
	}
	b.Emit(all)
	return nil
}

// tableJob returns a job whose only output is a table of sums by column of the raster a.tif in dir.
func tableJob(dir string, side int) Job {
	sums := map[int][]float64{}
	job := Job{Inputs: map[string]Input{"a": {Files: []string{filepath.Join(dir, "a.tif")}, Nodata: []string{"70"}}},
		Functions: testFunctions, Function: "column sums",
		Variables: map[string]string{"double": "a * 2", "part": "a > 80 ? a / 3 : nodata"},
		MakeParams: func(_ context.Context, r Resolved) (MadeParams, error) {
			if len(r.Variables) != 2 || r.Variables["double"] != (Variable{ndarray.Int32, 1}) {
				return MadeParams{}, fmt.Errorf("variables %v", r.Variables)
			}
			return MadeParams{Params: int(r.Grid.Transform[0]-500000) / 10, Bytes: 8}, nil
		},
		Controls: Controls{WindowWidth: side, WindowHeight: side}, Concurrency: Concurrency{Workers: 2}, Resume: true}
	job.Merge = Fold(func(part map[int][]float64) error {
		for col, v := range part {
			if sums[col] == nil {
				sums[col] = make([]float64, 4)
			}
			for i := range v {
				sums[col][i] += v[i]
			}
		}
		return nil
	})
	job.Outputs = map[string]Output{"sums": {Path: filepath.Join(dir, "sums.txt"), Table: &Table{Format: "text",
		Write: func(_ context.Context, f *os.File) error {
			for _, col := range sortedKeys(sums) {
				if _, err := fmt.Fprintf(f, "%d %.6g\n", col, sums[col]); err != nil {
					return err
				}
			}
			return nil
		}}}}
	return job
}

// tableRaster makes the raster of tableJob and returns the text of the table.
func tableRaster(t *testing.T, dir string) string {
	t.Helper()
	const w, h = 256, 200
	px := terrain[uint8](w, h, 3)
	write(t, filepath.Join(dir, "a.tif"), mapGrid(w, h, 7, 0), px, nil)
	var text strings.Builder
	for x := range w {
		s := make([]float64, 4)
		for y := range h {
			v := float64(px[y*w+x])
			if v == 70 {
				continue
			}
			s[0]++
			s[1] += 2 * v
			if v > 80 {
				s[2]++
				s[3] += float64(float32(v / 3))
			}
		}
		fmt.Fprintf(&text, "%d %.6g\n", x+7, s)
	}
	return text.String()
}

func TestTableSameForAnyBlocksAndWorkers(t *testing.T) {
	dir := t.TempDir()
	want := tableRaster(t, dir)
	for _, c := range []struct {
		what    string
		side    int
		workers Concurrency
	}{{"one worker", 64, Concurrency{Workers: 1}}, {"large blocks", 128, Concurrency{Workers: 3}},
		{"processes", 64, Concurrency{Workers: 2, On: subprocess.New(nil)}},
		{"processes that read", 64, Concurrency{Workers: 2, On: subprocess.New(nil), Reading: ReadByWorkers}}} {
		job := tableJob(dir, c.side)
		job.Concurrency = c.workers
		res := mustRun(t, job)
		sameFileBytes(t, c.what, filepath.Join(dir, "sums.txt"), []byte(want))
		if o := res.Outputs[0]; o.Bytes != int64(len(want)) || o.Format != "text" || len(o.Warnings) > 0 {
			t.Errorf("%s: %+v", c.what, o)
		}
	}
	noTraces(t, dir)
}

// tableOutput is a child that runs tableJob.
func tableOutput(args []string) error {
	_, err := Run(context.Background(), tableJob(args[0], 64))
	return err
}

func TestResumeTableAfterKill(t *testing.T) {
	dir := t.TempDir()
	want := tableRaster(t, dir)
	out := filepath.Join(dir, "sums.txt")
	for _, at := range []struct {
		point string
		n     int
	}{{"apply.started", 1}, {"apply.data", 2}, {"apply.record", 1}, {"apply.record", 7}, {"apply.block-done", 16},
		{"apply.laid-out", 1}, {"apply.published", 1}} {
		if killed, text, err := proctest.New("table output", dir).KillAt(at.point, at.n).Start(t).Wait(); !killed {
			t.Fatalf("no child was killed at %s: %v: %s", at.point, err, text)
		}
		if _, err := os.Stat(out); (err == nil) != (at.point == "apply.published") {
			t.Errorf("killed at %s: %v", at.point, err)
		}
		res := mustRun(t, tableJob(dir, 64))
		if done := map[string]int{"apply.record": at.n, "apply.laid-out": 16}[at.point]; res.Resumed < min(done, 15) {
			t.Errorf("killed at pass %d of %s: %d blocks were resumed", at.n, at.point, res.Resumed)
		}
		sameFileBytes(t, "killed at "+at.point, out, []byte(want))
		if err := os.Remove(out); err != nil {
			t.Fatal(err)
		}
	}
	noTraces(t, dir)
}

func TestResumeTableOfOtherVariables(t *testing.T) {
	dir := t.TempDir()
	tableRaster(t, dir)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	fault.Set(func(point string) error {
		if point == "apply.block-done" {
			cancel()
		}
		return nil
	})
	_, err := Run(ctx, tableJob(dir, 64))
	fault.Set(nil)
	if left := new(outcome.IncompleteError); !errors.As(err, &left) || left.Done < 1 {
		t.Fatal(err)
	}
	other := tableJob(dir, 64)
	other.Variables["part"] = "a > 80 ? a / 4 : nodata"
	failRun(t, other, "the variable part was 'a > 80 ? a / 3 : nodata' and is 'a > 80 ? a / 4 : nodata'")
	mustRun(t, tableJob(dir, 64))
}

func TestTableErrors(t *testing.T) {
	dir := t.TempDir()
	tableRaster(t, dir)
	for _, c := range []struct {
		what   string
		change func(*Job)
		want   []string
	}{
		{"unknown input", func(j *Job) { j.Variables["part"] = "b + 1" },
			[]string{"variable part", "no input is named b", "the inputs are a"}},
		{"syntax", func(j *Job) { j.Variables["part"] = "a +" }, []string{"variable part"}},
		{"two bands", func(j *Job) { j.Variables["part"] = "a[2]" }, []string{"variable part"}},
		{"no function", func(j *Job) { j.Function = "" }, []string{"neither a function nor expressions"}},
		{"Merge", func(j *Job) { j.Merge = func(int, any) error { return errors.New("no merging") } }, []string{"no merging"}},
		{"MakeParams", func(j *Job) {
			j.MakeParams = func(context.Context, Resolved) (MadeParams, error) {
				return MadeParams{}, errors.New("no params")
			}
		}, []string{"no params"}},
		{"memory", func(j *Job) {
			j.MakeParams = func(context.Context, Resolved) (MadeParams, error) {
				return MadeParams{Params: 0, Bytes: 1 << 50}, nil
			}
		}, []string{"more than the memory allowed"}},
		{"memory of Merge", func(j *Job) {
			j.MakeParams = func(context.Context, Resolved) (MadeParams, error) {
				return MadeParams{Params: 0, MergeBytes: 1 << 50}, nil
			}
		}, []string{"more than the memory allowed"}},
		{"memory of pixels", func(j *Job) {
			j.MakeParams = func(context.Context, Resolved) (MadeParams, error) {
				return MadeParams{Params: 0, PixelBytes: 1 << 40}, nil
			}
		}, []string{"more than the memory allowed"}},
		{"Write", func(j *Job) {
			j.Outputs["sums"].Table.Write = func(context.Context, *os.File) error { return errors.New("no writing") }
		}, []string{"no writing"}},
		{"clobber", func(j *Job) {
			o := j.Outputs["sums"]
			o.Path, o.NoClobber = filepath.Join(dir, "old.txt"), true
			if err := os.WriteFile(o.Path, []byte("old"), 0o600); err != nil {
				t.Fatal(err)
			}
			j.Outputs["sums"] = o
		}, []string{"old.txt exists and must not be replaced"}},
	} {
		t.Run(c.what, func(t *testing.T) {
			job := tableJob(dir, 64)
			job.Resume = false
			c.change(&job)
			err := failRun(t, job, c.want...)
			noTracesBut(t, err, dir, job.Outputs)
			if _, err := os.Stat(filepath.Join(dir, "sums.txt")); err == nil {
				t.Error("the output exists")
			}
		})
	}
}
