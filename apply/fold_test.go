package apply

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"leat/apply/outcome"
)

func TestFold(t *testing.T) {
	path := write(t, filepath.Join(t.TempDir(), "a.tif"), mapGrid(128, 128, 0, 0), terrain[uint8](128, 128, 1), nil)
	var sum, want int
	for _, v := range pixels[uint8](t, path) {
		want += int(v)
	}
	job := Job{Inputs: map[string]Input{"a": File(path)}, Controls: Controls{WindowWidth: 32, WindowHeight: 32},
		Func: func(_ context.Context, b *Block) error {
			n := 0
			for _, v := range Band[uint8](b, "a", 1) {
				n += int(v)
			}
			Emit(b, n)
			return nil
		},
		Merge: Fold(func(n int) error { sum += n; return nil })}
	mustRun(t, job)
	if sum != want {
		t.Errorf("the sum is %d, expected %d", sum, want)
	}
	job.Merge = Fold(func(float64) error { return nil })
	failRun(t, job, "type int", "expected float64")
}

func TestResultString(t *testing.T) {
	r := &Result{Outputs: make([]outcome.OutputResult, 2), Blocks: 36, Pixels: 30_140_100, Wall: 670 * time.Millisecond}
	if s := r.String(); s != "2 outputs, 36 blocks, 30.1 Mpixel in 0.67 s" {
		t.Error(s)
	}
	r.Outputs, r.Blocks, r.Resumed = r.Outputs[:1], 1, 1
	if s := r.String(); s != "1 output, 1 block, 30.1 Mpixel in 0.67 s (1 from an earlier run)" {
		t.Error(s)
	}
}
