package stores

import (
	"context"
	"errors"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"leat/apply"
	"leat/worker/subprocess"
)

// workerFunctions are the functions that TestMain gives to workers.
var workerFunctions = apply.Functions{"copy": {Func: func(_ context.Context, b *apply.Block) error {
	b.SetOut("out", b.In("a"))
	return nil
}}, "fail": {Func: func(_ context.Context, b *apply.Block) error {
	if b.Number == 3 {
		return errors.New("the function has failed")
	}
	b.SetOut("out", b.In("a"))
	return nil
}}}

func TestWorkersOpenURLs(t *testing.T) {
	s := newShop(t)
	scene(t, s.path("a.tif"), testGrid, 1, 1, nil)
	stores := newStores(t, "")
	want := filepath.Join(t.TempDir(), "want.tif")
	job := apply.Job{Inputs: map[string]apply.Input{"a": apply.File(s.url("a.tif"))}, Functions: workerFunctions,
		Function: "copy",
		Outputs:  map[string]apply.Output{"out": {Path: want, TileSize: 64}},
		Controls: apply.Controls{WindowWidth: 128, WindowHeight: 128}, Open: stores.Open}
	if _, err := apply.Run(t.Context(), job); err != nil {
		t.Fatal(err)
	}
	got := filepath.Join(t.TempDir(), "got.tif")
	job.Outputs = map[string]apply.Output{"out": {Path: got, TileSize: 64}}
	job.Concurrency = apply.Concurrency{On: subprocess.New(nil), Workers: 2, Reading: apply.ReadByWorkers}
	if _, err := apply.Run(t.Context(), job); err != nil {
		t.Fatal(err)
	}
	sameFile(t, got, want)
}

// TestWorkerRequestsInputsAtOnce holds back the pixels of each of three files until those of all
// were requested for the one block of the run.
func TestWorkerRequestsInputsAtOnce(t *testing.T) {
	s := newShop(t)
	stores := newStores(t, "")
	want, got := filepath.Join(t.TempDir(), "want.tif"), filepath.Join(t.TempDir(), "got.tif")
	job := apply.Job{Inputs: map[string]apply.Input{}, Expressions: map[string]string{"out": "a + b + c"},
		Outputs:  map[string]apply.Output{"out": {Path: want, TileSize: 64}},
		Controls: apply.Controls{WindowWidth: 704, WindowHeight: 576}, Open: stores.Open}
	for i, name := range []string{"a", "b", "c"} {
		scene(t, s.path(name+".tif"), testGrid, 1, uint64(i+1), nil)
		job.Inputs[name] = apply.File(s.url(name + ".tif"))
	}
	mustRun(t, job)

	var mu sync.Mutex
	asked, all := map[string]bool{}, make(chan struct{})
	late := atomic.Bool{}
	s.before = func(r *http.Request) {
		if strings.HasPrefix(r.Header.Get("Range"), "bytes=0-") { // the header
			return
		}
		mu.Lock()
		if asked[r.URL.Path] = true; len(asked) == 3 {
			select {
			case <-all:
			default:
				close(all)
			}
		}
		mu.Unlock()
		select {
		case <-all:
		case <-time.After(time.Minute):
			late.Store(true)
		}
	}
	job.Outputs = map[string]apply.Output{"out": {Path: got, TileSize: 64}}
	job.Concurrency = apply.Concurrency{On: subprocess.New(nil), Workers: 1, Reading: apply.ReadByWorkers}
	mustRun(t, job)
	sameFile(t, got, want)
	select {
	case <-all:
	default:
		t.Error("no pixels were requested after the header")
	}
	if late.Load() {
		t.Error("the inputs were requested one after another")
	}
}
