package stores

import (
	"errors"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"leat/apply"
	"leat/apply/outcome"
	"leat/block"
	"leat/internal/fault"
	"leat/objstore"
	"leat/stage"
	"leat/worker/subprocess"
)

// earlyRun is a run whose blocks are computed before their input is staged.
type earlyRun struct {
	shop   *shop
	job    apply.Job
	local  string // output from local files
	more   func() // lets the server answer the requests of the last part
	stores *Stores
}

// newEarlyRun returns a run of an input of three parts. The server holds back the last part until
// more is called.
func newEarlyRun(t *testing.T) *earlyRun {
	s := newShop(t)
	scene(t, s.path("a.tif"), testGrid, 3, 1, kinds["an uncompressed one"])
	dir := t.TempDir()
	e := &earlyRun{shop: s, local: filepath.Join(dir, "local.tif")}
	job := func(path, out string) apply.Job {
		return apply.Job{Inputs: map[string]apply.Input{"a": apply.File(path)},
			Outputs:     map[string]apply.Output{"out": {Path: out, TileSize: 64}},
			Expressions: map[string]string{"out": "a[1] + a[2] * a[3]"},
			Controls:    apply.Controls{WindowWidth: 704, WindowHeight: 64}}
	}
	mustRun(t, job(s.path("a.tif"), e.local))
	more := make(chan struct{})
	e.more = sync.OnceFunc(func() { close(more) })
	s.before = func(r *http.Request) {
		first, _, _ := strings.Cut(strings.TrimPrefix(r.Header.Get("Range"), "bytes="), "-")
		if at, err := strconv.Atoi(first); err == nil && at >= 2<<20 {
			select {
			case <-more:
			case <-r.Context().Done():
			case <-time.After(time.Minute):
				t.Error("no block is computed before the whole file is staged")
			}
		}
	}
	e.stores = New(&Options{StageDir: filepath.Join(dir, "stage"), Stage: stage.Options{MinFree: -1, RangeBytes: 1 << 20},
		Store: objstore.Options{Retry: objstore.Retry{MaxAttempts: 2, MinPause: time.Millisecond}}})
	t.Cleanup(func() {
		e.more()
		if err := e.stores.Close(); err != nil {
			t.Error(err)
		}
	})
	e.job = job(s.url("a.tif"), filepath.Join(dir, "out.tif"))
	e.job.Open = e.stores.Open
	e.job.Concurrency = apply.Concurrency{Workers: 2, Readers: 2}
	return e
}

// withoutLastPart makes a run of 5 blocks that need no pixel of the last part.
func (e *earlyRun) withoutLastPart() {
	e.job.Controls.Window = &block.Window{Width: 700, Height: 320}
	e.job.Expressions, e.job.Functions, e.job.Function = nil, workerFunctions, "copy"
}

// again runs the job once more and returns its output. The whole file must be staged.
func (e *earlyRun) again(t *testing.T) string {
	t.Helper()
	e.shop.reset()
	out := strings.TrimSuffix(e.local, ".tif") + "-again.tif"
	e.job.Outputs = map[string]apply.Output{"out": {Path: out, TileSize: 64}}
	mustRun(t, e.job)
	if n := e.shop.gets("a.tif"); n != 1 {
		t.Errorf("%d requests for a staged file, not one for its header: %q", n, e.shop.rangesOf("a.tif"))
	}
	return out
}

func TestBlocksBeforeTheWholeFile(t *testing.T) {
	e := newEarlyRun(t)
	afterBlocks(t, 3, e.more)
	mustRun(t, e.job)
	sameFile(t, e.job.Outputs["out"].Path, e.local)
	if n := len(e.shop.rangesOf("a.tif")); n != 4 {
		t.Errorf("%d requests, for the header and three parts: %q", n, e.shop.rangesOf("a.tif"))
	}
	sameFile(t, e.again(t), e.local)
}

// TestBlocksDoNotWaitForTheRest holds back a part that no block needs until all blocks are done.
func TestBlocksDoNotWaitForTheRest(t *testing.T) {
	for name, c := range map[string]apply.Concurrency{"here": {Workers: 2, Readers: 2},
		"in a worker process": {On: subprocess.New(nil), Workers: 1, Reading: apply.ReadHere}} {
		t.Run(name, func(t *testing.T) {
			e := newEarlyRun(t)
			e.withoutLastPart()
			e.job.Concurrency = c
			afterBlocks(t, 5, e.more)
			mustRun(t, e.job)
			e.again(t)
		})
	}
}

// TestFailureBeforeTheRest has a function that fails while the last part is held back.
func TestFailureBeforeTheRest(t *testing.T) {
	for name, c := range map[string]apply.Concurrency{"here": {Workers: 1, Readers: 2},
		"in a worker process": {On: subprocess.New(nil), Workers: 1, Reading: apply.ReadHere}} {
		t.Run(name, func(t *testing.T) {
			e := newEarlyRun(t)
			e.withoutLastPart()
			e.job.Concurrency = c
			e.job.Function = "fail"
			_, err := apply.Run(t.Context(), e.job)
			if b := new(outcome.BlockError); !errors.As(err, &b) || b.Block != 3 {
				t.Errorf("expected the error of block 3: %v", err)
			}
			if got := e.shop.rangesOf("a.tif"); len(got) > 4 { // the run has waited until a request was repeated
				t.Errorf("%d requests, for the header and three parts: %q", len(got), got)
			}
		})
	}
}

func TestReplacedAfterFirstBlocks(t *testing.T) {
	e := newEarlyRun(t)
	afterBlocks(t, 3, func() {
		scene(t, e.shop.path("a.tif"), testGrid, 3, 2, kinds["an uncompressed one"])
		e.more()
	})
	_, err := apply.Run(t.Context(), e.job)
	if !errors.Is(err, objstore.ErrChanged) {
		t.Errorf("a file that was replaced while it was staged: %v", err)
	}
}

func TestDiskFullAfterFirstBlocks(t *testing.T) {
	e := newEarlyRun(t)
	afterBlocks(t, 3, func() {
		fault.Set(func(point string) error {
			if point == "stage.write" || point == "stage.allocate" {
				return unix.ENOSPC
			}
			return nil
		})
		e.more()
	})
	mustRun(t, e.job)
	sameFile(t, e.job.Outputs["out"].Path, e.local)
}
