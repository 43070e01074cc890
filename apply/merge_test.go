package apply

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"leat/apply/internal/exec"
)

func TestMergeInBlockOrder(t *testing.T) {
	g := mapGrid(1600, 1600, 0, 0)
	type value struct{ block, call int }
	var got []value
	job := Job{Controls: Controls{Grid: &g, WindowWidth: 256, WindowHeight: 256}, Concurrency: Concurrency{Workers: 8}}
	var slow atomic.Bool
	job.Func = func(_ context.Context, b *Block) error {
		if b.Number == 0 { // the first ends last
			for !slow.Load() {
				runtime.Gosched()
			}
		}
		if b.Number == 20 {
			slow.Store(true)
		}
		time.Sleep(time.Duration(rand.IntN(2000)) * time.Microsecond)
		for i := range b.Number % 3 {
			b.Emit(value{b.Number, i})
		}
		return nil
	}
	job.Merge = func(block int, v any) error {
		if v.(value).block != block {
			return fmt.Errorf("value %v came with block %d", v, block)
		}
		got = append(got, v.(value))
		return nil
	}
	res := mustRun(t, job)
	var want []value
	for n := range 49 {
		for i := range n % 3 {
			want = append(want, value{n, i})
		}
	}
	if fmt.Sprint(got) != fmt.Sprint(want) || res.Blocks != 49 || res.Pixels != 1600*1600 {
		t.Errorf("%d blocks, %d pixels, merged %v", res.Blocks, res.Pixels, got)
	}
}

func TestMergeAheadLimit(t *testing.T) {
	g := mapGrid(16*70, 16*70, 0, 0)
	next := 0
	job := Job{Controls: Controls{Grid: &g, WindowWidth: 16, WindowHeight: 16}, Concurrency: Concurrency{Workers: 8},
		Outputs: map[string]Output{"o": {Path: filepath.Join(t.TempDir(), "o.tif"), TileSize: 16, NoOverviews: true}}}
	ahead, release := make(chan struct{}, 1), atomic.Int64{}
	job.Func = func(ctx context.Context, b *Block) error {
		Out[uint8](b, "o")
		if b.Number == 0 {
			select {
			case <-ahead:
			case <-ctx.Done():
			}
		}
		if release.Add(1) == exec.MergeAhead-1 { // all that may run before the first is merged
			ahead <- struct{}{}
		}
		b.Emit(b.Number)
		return nil
	}
	job.Merge = func(_ int, v any) error {
		if v.(int) != next {
			return fmt.Errorf("%v, not %d", v, next)
		}
		next++
		return nil
	}
	if mustRun(t, job); next != 70*70 {
		t.Errorf("%d values", next)
	}
}

func TestMergeError(t *testing.T) {
	dir := t.TempDir()
	g := mapGrid(1600, 1600, 0, 0)
	mine := errors.New("enough")
	after := 0
	job := Job{Controls: Controls{Grid: &g, WindowWidth: 256, WindowHeight: 256}, Concurrency: Concurrency{Workers: 8},
		Outputs: map[string]Output{"o": {Path: filepath.Join(dir, "o.tif"), TileSize: 256}},
		Func:    func(_ context.Context, b *Block) error { Out[uint8](b, "o"); b.Emit(b.Number); return nil },
		Merge: func(block int, v any) error {
			if block >= 11 {
				after++
				return mine
			}
			return nil
		}}
	_, err := Run(t.Context(), job)
	if !errors.Is(err, mine) {
		t.Fatal(err)
	}
	wantError(t, err, "merging block 11", "enough")
	if after != 1 {
		t.Errorf("Merge was called %d times after its error", after-1)
	}
	noTraces(t, dir)
}

func TestEmitWithoutMerge(t *testing.T) {
	g := mapGrid(10, 10, 0, 0)
	failRun(t, Job{Controls: Controls{Grid: &g},
		Func: func(_ context.Context, b *Block) error { b.Emit(1); return nil }}, "block 0", "Job.Merge is nil")
}

func TestJobWithoutOutputs(t *testing.T) {
	const w, h = 700, 500
	px := terrain[uint16](w, h, 4)
	path := write(t, filepath.Join(t.TempDir(), "a.tif"), mapGrid(w, h, 0, 0), px, nil)
	var want, got int64
	for _, v := range px {
		want += int64(v)
	}
	mustRun(t, Job{Inputs: map[string]Input{"a": File(path)}, Controls: Controls{WindowWidth: 256, WindowHeight: 256},
		Func: func(_ context.Context, b *Block) error {
			var s int64
			for _, v := range Band[uint16](b, "a", 1) {
				s += int64(v)
			}
			b.Emit(s)
			return nil
		},
		Merge: func(_ int, v any) error { got += v.(int64); return nil }})
	if got != want {
		t.Errorf("%d, not %d", got, want)
	}
}

func TestSetupAndCloseOncePerWorker(t *testing.T) {
	g := mapGrid(1000, 1000, 0, 0)
	var setups, closes atomic.Int64
	job := Job{Controls: Controls{Grid: &g, WindowWidth: 256, WindowHeight: 256}, Concurrency: Concurrency{Workers: 3},
		Setup: func(_ context.Context, w WorkerInfo) (any, error) { setups.Add(1); return new(int), nil },
		Close: func(s any) (any, error) { closes.Add(1); *s.(*int)++; return nil, nil },
		Func:  func(_ context.Context, b *Block) error { *b.State().(*int)++; return nil }}
	mustRun(t, job)
	if setups.Load() != 3 || closes.Load() != 3 {
		t.Errorf("%d set up, %d closed", setups.Load(), closes.Load())
	}
	job.Func = func(_ context.Context, b *Block) error { return errors.New("no") }
	job.Close = func(any) (any, error) { closes.Add(1); return nil, errors.New("can't close") }
	failRun(t, job, "no")
	if closes.Load() != 6 {
		t.Errorf("after an error %d of 3 were closed", closes.Load()-3)
	}
	job.Setup = func(context.Context, WorkerInfo) (any, error) { return nil, errors.New("no model") }
	failRun(t, job, "setting up worker", "no model")
}
