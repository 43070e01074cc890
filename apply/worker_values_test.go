package apply

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"leat/apply/outcome"
	"leat/internal/worker/pbstest"
	"leat/worker"
	"leat/worker/pbs"
	"leat/worker/subprocess"
)

// sumParams are the parameters of "sums".
type sumParams struct {
	// Blocks from From on wait for the file Gate; "": none waits.
	Gate string
	From int
	// Close is how Close fails, see sumClosing.
	Close string
}

// workerSum is the value of a worker.
type workerSum struct {
	Worker, Slot int
	Blocks       []int
	Sum          int64
	Filler       []byte
}

// sumState is the state of a worker.
type sumState struct {
	sum    workerSum
	params sumParams
}

func init() {
	testFunctions["sums"] = Function{Func: sumBlock, Params: Gob[sumParams](), WorkerValues: Gob[workerSum](),
		Setup: func(_ context.Context, w WorkerInfo) (any, error) {
			return &sumState{sum: workerSum{Worker: w.Worker, Slot: w.Slot}}, nil
		},
		Close:  sumClosing,
		Errors: []error{errHeron}}
	testFunctions["sums without a codec"] = Function{Func: sumBlock, Close: sumClosing, Params: Gob[sumParams]()}
	testFunctions["sums without Close"] = Function{Func: sumBlock, WorkerValues: Gob[workerSum](), Params: Gob[sumParams]()}
	testFunctions["sums, badly encoded"] = Function{Func: sumBlock, WorkerValues: Gob[int](), Params: Gob[sumParams](),
		Setup: testFunctions["sums"].Setup, Close: sumClosing}
}

func sumBlock(ctx context.Context, b *Block) error {
	s := b.State().(*sumState)
	s.params = b.Params().(sumParams)
	if g := s.params.Gate; g != "" && b.Number >= s.params.From {
		for _, err := os.Stat(g); err != nil; _, err = os.Stat(g) {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(time.Millisecond):
			}
		}
	}
	for _, v := range Band[uint16](b, "red", 1) {
		s.sum.Sum += int64(v)
	}
	s.sum.Blocks = append(s.sum.Blocks, b.Number)
	b.SetOut("out", b.In("red"))
	return nil
}

func sumClosing(state any) (any, error) {
	s := state.(*sumState)
	if len(s.sum.Blocks) == 0 {
		return s.sum, nil
	}
	switch s.params.Close {
	case "error":
		return s.sum, errHeron
	case "panic":
		panic(errHeron)
	case "goexit":
		runtime.Goexit()
	case "kill":
		if err := syscall.Kill(os.Getpid(), syscall.SIGKILL); err != nil {
			return nil, err
		}
		select {}
	case "large":
		s.sum.Filler = make([]byte, 33<<20)
	}
	return s.sum, nil
}

// sumJob returns a job that sums the pixels of 64 blocks in its workers, and how to check what was
// merged. Its output replaces an older file.
func sumJob(t *testing.T, p sumParams) (job *Job, check func(*testing.T)) {
	const side = 512
	dir := t.TempDir()
	px := terrain[uint16](side, side, 3)
	in := write(t, filepath.Join(dir, "red.tif"), mapGrid(side, side, 0, 0), px, nil)
	var want, got int64
	for _, v := range px {
		want += int64(v)
	}
	var blocks []int
	var order [][2]int
	out := filepath.Join(t.TempDir(), "out.tif")
	if err := os.WriteFile(out, oldFile, 0o600); err != nil {
		t.Fatal(err)
	}
	job = &Job{Inputs: map[string]Input{"red": File(in)}, Functions: testFunctions, Function: "sums", Params: p,
		Outputs:  map[string]Output{"out": {Path: out, TileSize: 64}},
		Controls: Controls{WindowWidth: 64, WindowHeight: 64}}
	job.MergeWorkers = func(number int, value any) error {
		v := value.(workerSum)
		if v.Worker != number {
			t.Errorf("the value of worker %d came as that of %d", v.Worker, number)
		}
		if !bytes.Equal(fileBytes(t, out), oldFile) {
			t.Error("the output is published")
		}
		order = append(order, [2]int{number, v.Slot})
		blocks = append(blocks, v.Blocks...)
		got += v.Sum
		return nil
	}
	return job, func(t *testing.T) {
		t.Helper()
		slices.Sort(blocks)
		for i, b := range blocks {
			if b != i {
				t.Fatalf("the values have the blocks %v", blocks)
			}
		}
		if got != want || len(blocks) != 64 {
			t.Errorf("%d of %d blocks, with the sum %d, not %d", len(blocks), 64, got, want)
		}
		if !slices.IsSortedFunc(order, func(a, b [2]int) int { return slices.Compare(a[:], b[:]) }) {
			t.Errorf("the values came in the order %v", order)
		}
		blocks, order, got = nil, nil, 0
		if err := os.WriteFile(out, oldFile, 0o600); err != nil {
			t.Fatal(err)
		}
		noTraces(t, filepath.Dir(out))
	}
}

var oldFile = []byte("an older file")

// wantUntouched fails the test unless a failed run left its old output and nothing to resume.
func wantUntouched(t *testing.T, job *Job, err error) {
	t.Helper()
	if left := new(outcome.IncompleteError); errors.As(err, &left) {
		t.Errorf("%v is kept", left.Paths)
	}
	out := job.Outputs["out"].Path
	sameFileBytes(t, "after an error", out, oldFile)
	noTraces(t, filepath.Dir(out))
}

func TestWorkerValues(t *testing.T) {
	t.Parallel()
	job, check := sumJob(t, sumParams{})
	counts := []int{1, 2, 3, 4, 5, 6, 7, 8}
	if testing.Short() {
		counts = []int{1, 4}
	}
	for _, n := range counts {
		for name, c := range map[string]Concurrency{
			"goroutines":                {Workers: n},
			"processes":                 {On: subprocess.New(nil), Workers: n},
			"processes of three slots":  {On: subprocess.New(&subprocess.Options{Slots: 3}), Workers: n},
			"processes that read":       {On: subprocess.New(nil), Workers: n, Reading: ReadByWorkers},
			"processes, with a barrier": {On: subprocess.New(nil), Workers: n, Barrier: time.Minute},
		} {
			t.Run(fmt.Sprintf("%d %s", n, name), func(t *testing.T) {
				job.Concurrency = c
				res := mustRun(t, *job)
				check(t)
				if w := res.Workers; w != nil && (w.Copies != 0 || w.Superseded != 0) {
					t.Errorf("%d copies, %d superseded", w.Copies, w.Superseded)
				}
			})
		}
	}
}

func TestWorkerValuesOverTCP(t *testing.T) {
	pbstest.New(t, pbstest.Settings{})
	for _, n := range []int{3, 0} {
		job, check := sumJob(t, sumParams{})
		job.Concurrency = Concurrency{On: pbs.New(nil), Workers: n, OneBlockPerJob: n == 0, Listen: "127.0.0.1"}
		if n == 0 { // one worker for each of a few blocks
			job.Controls.WindowWidth, job.Controls.WindowHeight = 256, 512
			var blocks []int
			job.MergeWorkers = Fold(func(v workerSum) error { blocks = append(blocks, v.Blocks...); return nil })
			mustRun(t, *job)
			if slices.Sort(blocks); !slices.Equal(blocks, []int{0, 1}) {
				t.Errorf("the values have the blocks %v", blocks)
			}
			continue
		}
		mustRun(t, *job)
		check(t)
	}
}

// killHolder kills the first worker process with as many finished blocks, or none, that holds a
// block, and returns its name.
func killHolder(t *testing.T, r *Running, finished bool) string {
	t.Helper()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(time.Millisecond) {
		for _, w := range remoteStatus(r).Workers {
			if w.State == worker.StateJoined && (w.Done > 0) == finished && len(w.Held) > 0 {
				if err := syscall.Kill(w.PID, syscall.SIGKILL); err != nil {
					t.Fatal(err)
				}
				return w.Name
			}
		}
	}
	t.Fatalf("no worker to kill: %+v", remoteStatus(r).Workers)
	return ""
}

func TestKilledWorkerLosesValue(t *testing.T) {
	gate := filepath.Join(t.TempDir(), "gate")
	job, _ := sumJob(t, sumParams{Gate: gate, From: 20})
	job.Concurrency = Concurrency{On: subprocess.New(nil), Workers: 2}
	job.MergeWorkers = func(int, any) error { t.Error("a value is merged"); return nil }
	r, err := Start(t.Context(), *job)
	if err != nil {
		t.Fatal(err)
	}
	name := killHolder(t, r, true)
	_, err = r.Wait()
	var lost *worker.LostError
	if !errors.As(err, &lost) || lost.Worker != name || lost.Block != -1 || len(lost.Exits) != 1 {
		t.Errorf("%v: %+v", err, lost)
	}
	wantUntouched(t, job, err)
}

func TestKilledWorkerWithoutValue(t *testing.T) {
	gate := filepath.Join(t.TempDir(), "gate")
	job, check := sumJob(t, sumParams{Gate: gate})
	job.Concurrency = Concurrency{On: subprocess.New(nil), Workers: 2}
	r, err := Start(t.Context(), *job)
	if err != nil {
		t.Fatal(err)
	}
	killHolder(t, r, false)
	for end := time.Now().Add(time.Minute); remoteStatus(r).LostWorkers == 0; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("no worker was lost")
		}
	}
	if err := os.WriteFile(gate, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Wait(); err != nil {
		t.Fatal(err)
	}
	check(t)
}

// However workers are killed, the run fails for that reason or has the right sum.
func TestRandomKillsWithWorkerValues(t *testing.T) {
	t.Parallel()
	rounds, whole, lostValues := 40, 0, 0
	if testing.Short() {
		rounds = 4
	}
	for range rounds {
		job, check := sumJob(t, sumParams{})
		job.Concurrency = Concurrency{On: subprocess.New(&subprocess.Options{Slots: 2}), Workers: 4}
		r, err := Start(t.Context(), *job)
		if err != nil {
			t.Fatal(err)
		}
		kills := killWorkers(r, 2)
		_, err = r.Wait()
		var lost *worker.LostError
		switch {
		case err == nil:
			check(t)
			whole++
		case errors.As(err, &lost) && lost.Worker != "" && kills > 0:
			wantUntouched(t, job, err)
			lostValues++
		default:
			t.Errorf("%d kills: %v", kills, err)
		}
	}
	t.Logf("%d runs succeeded, %d failed", whole, lostValues)
}

func TestCloseFailsWithValue(t *testing.T) {
	t.Parallel()
	for how, want := range map[string]func(err error, remote bool) bool{
		"error": func(err error, remote bool) bool {
			var b *outcome.BlockError
			return errors.As(err, &b) && b.Stage == "closing" && b.Block == -1 && errors.Is(err, errHeron)
		},
		"panic": func(err error, remote bool) bool {
			var b *outcome.BlockError
			var p *outcome.PanicError
			return errors.As(err, &b) && b.Stage == "closing" && len(b.Stack) > 0 && errors.As(err, &p) && p.Of == "Close"
		},
		"goexit": func(err error, remote bool) bool {
			var b *outcome.BlockError
			var p *outcome.PanicError
			return (!remote || errors.As(err, &b) && b.Stage == "closing") && errors.As(err, &p) && p.Of == "Close"
		},
		"kill": func(err error, remote bool) bool {
			var lost *worker.LostError
			return errors.As(err, &lost) && lost.Worker != "" && len(lost.Exits) == 1
		},
		"large": func(err error, remote bool) bool {
			var b *outcome.BlockError
			return errors.As(err, &b) && b.Stage == "closing" && strings.Contains(err.Error(), "at most 33554432 are allowed")
		},
	} {
		for name, c := range map[string]Concurrency{"goroutines": {Workers: 2}, "processes": {On: subprocess.New(nil), Workers: 2}} {
			if c.On == nil && (how == "kill" || how == "large") { // it kills the run itself; no limit
				continue
			}
			t.Run(how+", "+name, func(t *testing.T) {
				job, _ := sumJob(t, sumParams{Close: how})
				job.MergeWorkers = func(int, any) error { t.Error("a value is merged"); return nil }
				job.Concurrency = c
				_, err := Run(t.Context(), *job)
				if !want(err, c.On != nil) {
					t.Errorf("%v", err)
				}
				wantUntouched(t, job, err)
			})
		}
	}
}

func TestWorkerValueNotEncodable(t *testing.T) {
	job, _ := sumJob(t, sumParams{})
	job.Function, job.Concurrency = "sums, badly encoded", Concurrency{On: subprocess.New(nil), Workers: 1}
	_, err := Run(t.Context(), *job)
	var b *outcome.BlockError
	if !errors.As(err, &b) || b.Stage != "closing" || !strings.Contains(err.Error(), "WorkerValues") {
		t.Errorf("%v", err)
	}
	wantUntouched(t, job, err)
}

func TestMergeWorkersFails(t *testing.T) {
	for how, merge := range map[string]func(int, any) error{
		"error":      func(int, any) error { return errHeron },
		"panic":      func(int, any) error { panic(errHeron) },
		"other type": Fold(func(int) error { return nil }),
	} {
		t.Run(how, func(t *testing.T) {
			job, _ := sumJob(t, sumParams{})
			job.MergeWorkers = merge
			_, err := Run(t.Context(), *job)
			var p *outcome.PanicError
			if errors.Is(err, errHeron) == (how == "other type") || errors.As(err, &p) != (how == "panic") ||
				p != nil && p.Of != "MergeWorkers" || err == nil {
				t.Errorf("%v", err)
			}
			wantUntouched(t, job, err)
		})
	}
}

func TestCancelWithWorkerValues(t *testing.T) {
	for name, c := range map[string]Concurrency{"goroutines": {Workers: 2}, "processes": {On: subprocess.New(nil), Workers: 2}} {
		t.Run(name, func(t *testing.T) {
			job, _ := sumJob(t, sumParams{Gate: filepath.Join(t.TempDir(), "never"), From: 10})
			job.MergeWorkers = func(int, any) error { t.Error("a value is merged"); return nil }
			job.Concurrency = c
			ctx, cancel := context.WithCancelCause(t.Context())
			afterBlocks(t, 3, func() { cancel(errHeron) })
			_, err := Run(ctx, *job)
			if !errors.Is(err, errHeron) {
				t.Errorf("%v", err)
			}
			wantUntouched(t, job, err)
		})
	}
}

func TestResumeRefusedWithMergeWorkers(t *testing.T) {
	job, _ := sumJob(t, sumParams{})
	plain := *job // a job without values keeps its blocks
	plain.MergeWorkers, plain.Concurrency.Workers = nil, 1
	ctx, cancel := context.WithCancel(t.Context())
	afterBlocks(t, 3, cancel)
	_, err := Run(ctx, plain)
	left := new(outcome.IncompleteError)
	if !errors.As(err, &left) {
		t.Fatalf("%v", err)
	}
	kept := fileBytes(t, left.Paths[0])
	job.Resume = true
	_, err = Run(t.Context(), *job)
	var j *outcome.JobError
	var f *outcome.FieldError
	if !errors.As(err, &j) || !errors.As(err, &f) || f.Field != "Resume" || !strings.Contains(err.Error(), "MergeWorkers") {
		t.Errorf("%v", err)
	}
	sameFileBytes(t, "kept blocks", left.Paths[0], kept)
	job.Resume = false
	p, err := MakePlan(t.Context(), *job)
	if err != nil || p.Replaced == nil || len(p.Replaced.Changes) != 1 {
		t.Errorf("%+v, %v", p, err)
	}
}

func TestMergeWorkersInvalid(t *testing.T) {
	base, _ := sumJob(t, sumParams{})
	for name, change := range map[string]func(*Job){
		"expressions": func(j *Job) {
			j.Function, j.Functions, j.Expressions, j.Params = "", nil, map[string]string{"out": "red"}, nil
			j.Close = func(any) (any, error) { return nil, nil }
		},
		"without Close": func(j *Job) { j.Function = "sums without Close" },
		"processes, without a codec": func(j *Job) {
			j.Function, j.Concurrency = "sums without a codec", Concurrency{On: subprocess.New(nil), Workers: 1}
		},
	} {
		job := *base
		change(&job)
		var j *outcome.JobError
		if _, err := Run(t.Context(), job); !errors.As(err, &j) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Without MergeWorkers the value of Close is ignored, and the run can be resumed.
func TestCloseValueIgnored(t *testing.T) {
	for _, c := range []Concurrency{{Workers: 2}, {On: subprocess.New(nil), Workers: 2}} {
		job, _ := sumJob(t, sumParams{Close: "large"})
		job.MergeWorkers, job.Concurrency = nil, c
		var closed atomic.Int64
		if c.On == nil {
			f := testFunctions["sums"]
			f.Close = func(any) (any, error) { return closed.Add(1), nil }
			job.Functions = Functions{"sums": f}
		}
		mustRun(t, *job)
		if c.On == nil && closed.Load() != 2 {
			t.Errorf("%d workers were closed", closed.Load())
		}
	}
}
