package stores

import (
	"context"
	"path/filepath"
	"testing"

	"leat/apply"
	"leat/worker/subprocess"
)

// workerFunctions are the functions that TestMain gives to workers.
var workerFunctions = apply.Functions{"copy": {Func: func(_ context.Context, b *apply.Block) error {
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
