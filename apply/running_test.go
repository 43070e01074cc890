package apply

import (
	"context"
	"errors"
	"io"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"leat/apply/outcome"
	"leat/objstore"
	"leat/raster"
)

func TestStatus(t *testing.T) {
	g := mapGrid(1000, 1000, 0, 0)
	var run *Running
	ready := make(chan struct{})
	var seen []int
	job := Job{Controls: Controls{Grid: &g, WindowWidth: 256, WindowHeight: 256},
		Outputs: map[string]Output{"x": {Path: filepath.Join(t.TempDir(), "x.tif"), TileSize: 256}},
		Func: func(_ context.Context, b *Block) error {
			<-ready
			s := run.Status()
			if s.Stage != "blocks" || s.Local[0].Block != b.Number || s.Blocks[b.Number] != BlockHeld ||
				s.Plan.Blocks.Count() != 16 || s.Remote != nil {
				t.Errorf("block %d: %+v", b.Number, s)
			}
			seen = append(seen, s.Done)
			Out[uint8](b, "x")
			return nil
		},
		Concurrency: Concurrency{Workers: 1}}
	run, err := Start(t.Context(), job)
	if err != nil {
		t.Fatal(err)
	}
	close(ready)
	res, err := run.Wait()
	if err != nil {
		t.Fatal(err)
	}
	for i, n := range seen {
		if n != i {
			t.Fatalf("finished blocks: %v", seen)
		}
	}
	s := run.Status()
	if s.Stage != "done" || s.Done != 16 || s.Resumed != 0 || s.Pixels != 1e6 || len(s.Outputs) != 1 || res.Blocks != 16 {
		t.Errorf("at the end: %+v", s)
	}
	if again, err := run.Wait(); again != res || err != nil {
		t.Errorf("a second Wait returns %v and %v", again, err)
	}
	<-run.Done()
}

func TestStartRejectsBadJobs(t *testing.T) {
	run, err := Start(t.Context(), Job{})
	var bad *outcome.JobError
	if run != nil || !errors.As(err, &bad) {
		t.Errorf("%v, %v", run, err)
	}
}

func TestStatusAfterResume(t *testing.T) {
	dir := t.TempDir()
	in := write(t, filepath.Join(dir, "in.tif"), mapGrid(512, 512, 0, 0), terrain[uint8](512, 512, 1), nil)
	job := Job{Inputs: map[string]Input{"a": File(in)}, Expressions: map[string]string{"x": "a + 1"},
		Outputs:  map[string]Output{"x": {Path: filepath.Join(dir, "x.tif"), TileSize: 128}},
		Controls: Controls{WindowWidth: 128, WindowHeight: 128}, Concurrency: Concurrency{Workers: 1}}
	interrupt(t, job)
	job.Resume = true
	run, err := Start(t.Context(), job)
	if err != nil {
		t.Fatal(err)
	}
	res, err := run.Wait()
	if err != nil {
		t.Fatal(err)
	}
	s := run.Status()
	if s.Resumed < 8 || s.Resumed != res.Resumed || s.Done != 16 {
		t.Errorf("%d resumed of %d, result %d", s.Resumed, s.Done, res.Resumed)
	}
	if len(s.Plan.Notes) >= len(res.Plan.Notes) {
		t.Errorf("the result's notes are %q, the plan's %q", res.Plan.Notes, s.Plan.Notes)
	}
}

func TestHookThatEndsItsGoroutine(t *testing.T) {
	job := remoteJob(t, "")
	job.Functions, job.Func = nil, emitsOne
	job.Merge = func(int, any) error { return nil }
	o := job.Outputs["out"]
	o.BeforeClose = func(*raster.Info) error { runtime.Goexit(); return nil }
	job.Outputs["out"] = o
	_, err := Run(t.Context(), job)
	if p := new(outcome.PanicError); !errors.As(err, &p) || p.Of != "BeforeClose" || !strings.Contains(p.Error(), "Goexit") {
		t.Errorf("error %v", err)
	}
}

// exitingStore ends the goroutine that uploads.
type exitingStore struct{}

func (exitingStore) Check(context.Context, string) error          { return nil }
func (exitingStore) Exists(context.Context, string) (bool, error) { return false, nil }
func (exitingStore) Upload(context.Context, string, io.ReaderAt, int64, objstore.UploadOptions) error {
	runtime.Goexit()
	return nil
}

func TestStoreThatEndsItsGoroutine(t *testing.T) {
	g := mapGrid(64, 64, 0, 0)
	res, err := Run(t.Context(), Job{Controls: Controls{Grid: &g}, Store: exitingStore{},
		Outputs: map[string]Output{"x": {Path: "s3://bucket/x.tif", TempDir: t.TempDir()}},
		Func:    func(_ context.Context, b *Block) error { Out[uint8](b, "x"); return nil }})
	if p := new(outcome.PanicError); res != nil || !errors.As(err, &p) {
		t.Errorf("%v, %v", res, err)
	}
}
