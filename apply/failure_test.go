package apply

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"leat/apply/outcome"
)

// oldOutput makes an output that a failing run must not change.
func oldOutput(t *testing.T, dir string) (path string, content []byte) {
	t.Helper()
	path = write(t, filepath.Join(dir, "out.tif"), mapGrid(30, 20, 0, 0), terrain[uint8](30, 20, 9), nil)
	return path, fileBytes(t, path)
}

// noTracesBut checks that a run that failed with err left nothing in a directory except the blocks
// that the error names, and discards these.
func noTracesBut(t *testing.T, err error, dir string, outputs map[string]Output) {
	t.Helper()
	if left := new(outcome.IncompleteError); errors.As(err, &left) {
		var bytes int64
		removed, err := Discard(t.Context(), outputs)
		for i, d := range removed {
			if d.Path != left.Paths[i] {
				t.Errorf("%s was removed, the error names %q", d.Path, left.Paths)
			}
			bytes += d.Bytes
		}
		if err != nil || len(removed) != len(left.Paths) || bytes != left.Bytes || left.Done < 1 ||
			left.Done > left.Total {
			t.Errorf("%v: %+v was removed of %+v", err, removed, left)
		}
	}
	noTraces(t, dir)
}

func TestFailedRunKeepsOldFileAndSpool(t *testing.T) {
	stop := errors.New("enough")
	for name, fail := range map[string]func(cancel func()) error{
		"error":  func(func()) error { return stop },
		"panic":  func(func()) error { panic("broken") },
		"cancel": func(cancel func()) error { cancel(); return nil },
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			path, old := oldOutput(t, dir)
			before := openFiles(t)
			for round := range 12 {
				ctx, cancel := context.WithCancelCause(context.Background())
				at := rand.IntN(16)
				grid := mapGrid(256, 256, 0, 0)
				job := sliceJob(grid, terrain[uint8](256, 256, 1),
					Output{Path: path, TileSize: 64, Overviews: []int{2, 4}})
				work := job.Func
				job.Func = func(ctx context.Context, b *Block) error {
					if b.Number == at {
						if err := fail(func() { cancel(stop) }); err != nil {
							return err
						}
					}
					return work(ctx, b)
				}
				job.Controls.WindowWidth, job.Controls.WindowHeight = 64, 64
				job.Concurrency.Workers = 1 + round%3
				_, err := Run(ctx, job)
				cancel(nil)
				var p *outcome.PanicError
				switch {
				case name == "panic" && (!errors.As(err, &p) || len(p.Stack) == 0):
					t.Fatal("not a panic with its stack:", err)
				case name != "panic" && !errors.Is(err, stop) && (name != "cancel" || err != nil):
					t.Fatal(err)
				case name == "error" || name == "panic":
					wantError(t, err, fmt.Sprintf("block %d ", at))
				}
				if err == nil { // canceled when all was done
					path, old = oldOutput(t, dir)
				}
				sameFileBytes(t, name, path, old)
				noTracesBut(t, err, dir, job.Outputs)
			}
			if after := openFiles(t); after > before {
				t.Errorf("%d descriptors are open, %d were", after, before)
			}
		})
	}
}

func TestOutputDiskFull(t *testing.T) {
	dir := smallDisk(t, "840k")
	path, old := oldOutput(t, dir)
	// Noise does not compress: 600 x 600 bytes fit on the disk once, but not twice; 1200 x 1200 do
	// not even fit into the spool.
	for _, side := range []int{600, 1200} {
		px := make([]uint8, side*side)
		r := rand.New(rand.NewPCG(1, 2))
		for i := range px {
			px[i] = uint8(r.Uint32())
		}
		job := sliceJob(mapGrid(side, side, 0, 0), px, Output{Path: path})
		err := failRun(t, job, path, "full")
		t.Log(err)
		sameFileBytes(t, fmt.Sprint(side), path, old)
		noTracesBut(t, err, dir, job.Outputs)
	}
}

func TestConcurrentRunRejected(t *testing.T) {
	dir := t.TempDir()
	out, elsewhere := filepath.Join(dir, "out.tif"), t.TempDir()
	link := filepath.Join(t.TempDir(), "link.tif")
	grid := mapGrid(64, 64, 0, 0)
	job := sliceJob(grid, terrain[uint8](64, 64, 1), Output{Path: out})
	started, release := make(chan struct{}), make(chan struct{})
	first := job
	first.Func = func(ctx context.Context, b *Block) error { close(started); <-release; return job.Func(ctx, b) }
	done := make(chan error)
	go func() { _, err := Run(context.Background(), first); done <- err }()
	<-started
	if err := os.Symlink(out, link); err != nil {
		t.Fatal(err)
	}
	for _, o := range []Output{{Path: out}, {Path: out, TempDir: elsewhere}, {Path: link}} {
		second := job
		second.Outputs = map[string]Output{"out": o}
		failRun(t, second, "out.tif", "another run")
	}
	other := job
	other.Outputs = map[string]Output{"out": {Path: filepath.Join(dir, "other.tif")}}
	mustRun(t, other)
	close(release)
	if err := <-done; err != nil {
		t.Error("the first run failed:", err)
	}
	noTraces(t, dir)
	noTraces(t, elsewhere)
	mustRun(t, job)
}

func TestSharedTempDir(t *testing.T) {
	temp := t.TempDir()
	a, b := filepath.Join(t.TempDir(), "out.tif"), filepath.Join(t.TempDir(), "out.tif")
	px := terrain[uint8](64, 64, 1)
	job := Job{Controls: Controls{Grid: gridOf(64, 64)},
		Outputs: map[string]Output{"a": {Path: a, TempDir: temp}, "b": {Path: b, TempDir: temp}},
		Func: func(_ context.Context, bl *Block) error {
			bl.SetOut("a", cut(px, 64, 64, bl.Window))
			bl.SetOut("b", cut(px, 64, 64, bl.Window))
			return nil
		}}
	mustRun(t, job)
	sameFileBytes(t, "the other", a, fileBytes(t, b))
	noTraces(t, temp)
	noTraces(t, filepath.Dir(a))
}

func TestRunCanceled(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	job := sliceJob(mapGrid(512, 512, 0, 0), terrain[uint8](512, 512, 1),
		Output{Path: filepath.Join(t.TempDir(), "o.tif"), TileSize: 64})
	job.Controls.WindowWidth, job.Controls.WindowHeight = 64, 64
	work := job.Func
	calls := 0
	job.Concurrency.Workers = 1
	job.Func = func(ctx context.Context, b *Block) error {
		calls++
		cancel()
		<-ctx.Done() // the function's context is canceled
		return work(ctx, b)
	}
	if _, err := Run(ctx, job); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if calls > 1 {
		t.Errorf("%d blocks were computed after the end", calls-1)
	}
}

func TestRunReturnsContextCause(t *testing.T) {
	slow := errors.New("the night is over")
	dir := t.TempDir()
	for _, workers := range []int{1, 4} {
		ctx, cancel := context.WithTimeoutCause(context.Background(), 0, slow)
		job := sliceJob(mapGrid(512, 512, 0, 0), terrain[uint8](512, 512, 1), Output{Path: filepath.Join(dir, "o.tif")})
		job.Concurrency.Workers = workers
		if _, err := Run(ctx, job); !errors.Is(err, slow) {
			t.Error(err)
		}
		cancel()
		noTraces(t, dir)
	}
	// A function's own deadline is an error of its block.
	job := sliceJob(mapGrid(512, 512, 0, 0), terrain[uint8](512, 512, 1), Output{Path: filepath.Join(dir, "o.tif")})
	job.Func = func(context.Context, *Block) error { return context.DeadlineExceeded }
	failRun(t, job, "block 0", "deadline")
}

func TestFunctionCallsGoexit(t *testing.T) {
	for _, workers := range []int{1, 3} {
		job := sliceJob(mapGrid(256, 256, 0, 0), terrain[uint8](256, 256, 1),
			Output{Path: filepath.Join(t.TempDir(), "o.tif"), TileSize: 64})
		job.Controls.WindowWidth, job.Controls.WindowHeight = 64, 64
		job.Concurrency.Workers = workers
		work := job.Func
		job.Func = func(ctx context.Context, b *Block) error {
			if b.Number == 3 {
				runtime.Goexit()
			}
			return work(ctx, b)
		}
		failRun(t, job, "block 3 ", "Goexit")
	}
}

func TestEmitArrayPanics(t *testing.T) {
	job := Job{Controls: Controls{Grid: gridOf(8, 8)}, Merge: func(int, any) error { return nil },
		Func: func(_ context.Context, b *Block) error { b.Emit(b.NewOut(1, 1)); return nil }}
	failRun(t, job, "array", "copy")
}
