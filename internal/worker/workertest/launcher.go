package workertest

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"leat/internal/worker/coordinator"
	"leat/internal/worker/protocol"
	"leat/worker"
)

// Setup configures the suite for a launcher.
type Setup struct {
	// Launcher returns a launcher for one test, with all that it needs to run, such as a simulated
	// batch system, which ends with the test.
	Launcher func(t *testing.T) worker.Launcher
	// Command starts a worker; nil: this test binary, whose TestMain calls Main.
	Command []string
	// Address is where the coordinator listens for workers of launchers that are not local; "":
	// 127.0.0.1:0.
	Address string
	// Dir starts workers with StartOptions.Dir even if the launcher does not need it.
	Dir bool
	// Left lists what the batch system still has of workers that were stopped; nil: there is no
	// batch system, or it can't be queried.
	Left func(t *testing.T, k worker.Launcher) []string
	// MaxWorkers bounds the workers that run at once; 0: 8.
	MaxWorkers int
	// Patience is the timeout of each step of a test; 0: a minute.
	Patience time.Duration
}

// Launcher runs the suite. It sends signals to workers, which therefore must run on this machine.
func Launcher(t *testing.T, s Setup) {
	if s.Command == nil {
		exe, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		s.Command = []string{exe, "worker"}
	}
	if s.Address == "" {
		s.Address = "127.0.0.1:0"
	}
	if s.MaxWorkers == 0 {
		s.MaxWorkers = 8
	}
	if s.Patience == 0 {
		s.Patience = time.Minute
	}
	for _, c := range []struct {
		name string
		test func(*testing.T, Setup)
	}{
		{"any number of workers gives the same bytes", anyNumber},
		{"a worker may join late", lateJoiner},
		{"workers may be killed at any time", killed},
		{"a run whose workers are all killed fails", allKilled},
		{"exits of workers are reported with their logs", allExit},
		{"a block that kills its workers is named", deadlyBlock},
		{"the only worker is replaced", onlyReplaced},
		{"workers are replaced up to the bound", replacedUpToBound},
		{"a worker that a block kills is replaced twice", deadlyReplaced},
		{"a silent worker is lost, and its block computed again", silent},
		{"an error of the function ends the run and is named", functionFails},
		{"a cancelled run leaves nothing", cancelled},
		{"a missing program is named", noProgram},
		{"workers for one block each", single},
		{"a lost worker for one block is replaced", singleLost},
	} {
		t.Run(c.name, func(t *testing.T) { c.test(t, s) })
	}
}

func (s Setup) workers(n int) int { return min(n, s.MaxWorkers) }

func anyNumber(t *testing.T, s Setup) {
	counts := []int{1, 2, 8}
	if testing.Short() {
		counts = []int{3}
	}
	for _, n := range counts {
		tr := s.trial(t, plan{blocks: 60, workers: s.workers(n)})
		tr.try(tr.run())
		tr.complete()
		tr.nothingLeft()
		st := tr.c.Status()
		if st.LostWorkers != 0 || st.Ended != "done" {
			t.Errorf("%d workers were lost of %d; the run has ended as %q", st.LostWorkers, n, st.Ended)
		}
	}
}

func lateJoiner(t *testing.T, s Setup) {
	// The second worker holds blocks when the gate opens, and no other worker gets copies of them:
	// so it is certain to compute some.
	tr := s.trial(t, plan{blocks: 200, workers: s.workers(2), job: job{Gate: "yes", GateFrom: 1},
		channel: func(o *coordinator.Options) { o.NoCopies = true }})
	start := func(i int) worker.Fleet {
		f, err := tr.kind.Start(t.Context(), worker.StartOptions{
			Workers: 1, First: i, Command: s.Command, RunID: "workertest", Endpoint: tr.o.Endpoint, Dir: tr.o.Dir,
			Connect: tr.c.Connect, OnExit: tr.c.Exited, Logger: tr.o.Logger,
		})
		tr.try(err)
		if f.Jobs() == "" {
			t.Error("Jobs returns no name")
		}
		t.Cleanup(func() { stop(tr, f) })
		return f
	}
	end := make(chan error, 1)
	first := start(0)
	waited := make(chan struct{})
	go func() {
		defer close(waited)
		end <- tr.c.Wait(t.Context())
	}()
	tr.until("a first block is done", end, func(st worker.Status) bool { return st.Done >= 1 })
	second := start(1)
	tr.until("both have joined, and have blocks", end, func(st worker.Status) bool {
		list := joined(st)
		return len(list) == 2 && len(list[0].Held) > 0 && len(list[1].Held) > 0
	})
	tr.secret()
	tr.openGate()
	tr.try(tr.await(end))
	<-waited
	tr.complete()
	by := tr.doneBy()
	for i := range 2 {
		if name := worker.WorkerName(tr.kind.Name(), i); by[name] == 0 {
			t.Errorf("worker %s has computed no block: %v", name, by)
		}
	}
	stop(tr, first)
	stop(tr, second)
	tr.nothingLeft()
}

func stop(tr *trial, f worker.Fleet) {
	tr.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), tr.s.Patience)
	defer cancel()
	if err := f.Stop(ctx); err != nil {
		tr.Error(err)
	}
}

func killed(t *testing.T, s Setup) {
	n := s.workers(4)
	barrier := func(o *coordinator.Options) { o.Barrier = s.Patience }
	t.Run("while they work", func(t *testing.T) {
		tr := s.trial(t, plan{blocks: 100, workers: n, job: job{Sleep: 5 * time.Millisecond}, channel: barrier})
		end := tr.begin(t.Context())
		for i := range n - 1 {
			tr.until("work goes on", end, func(st worker.Status) bool { return st.Done >= 10*(i+1) })
			for _, w := range tr.status().Workers {
				if w.Name == worker.WorkerName(tr.kind.Name(), i) {
					tr.signal(w, syscall.SIGKILL)
				}
			}
		}
		tr.try(tr.await(end))
		tr.complete()
		tr.nothingLeft()
	})
	t.Run("while they hold blocks", func(t *testing.T) {
		tr := s.trial(t, plan{blocks: 100, workers: n, job: job{Gate: "yes", GateFrom: 50}, channel: barrier})
		end := tr.begin(t.Context())
		tr.until("all have blocks that wait", end, func(st worker.Status) bool {
			for _, w := range st.Workers {
				if len(w.Held) == 0 {
					return false
				}
			}
			return st.Done == 50
		})
		for _, w := range joined(tr.status())[1:] {
			tr.signal(w, syscall.SIGKILL)
		}
		tr.until("they are lost", end, func(st worker.Status) bool { return len(joined(st)) == 1 })
		tr.openGate()
		tr.try(tr.await(end))
		tr.complete()
		tr.nothingLeft()
		if st := tr.c.Status(); st.LostWorkers != int64(n-1) || st.Reissued < int64(n-1) {
			t.Errorf("%d workers of %d killed ones are lost, %d blocks were leased again", st.LostWorkers, n-1,
				st.Reissued)
		}
	})
}

func allKilled(t *testing.T, s Setup) {
	n := s.workers(3)
	tr := s.trial(t, plan{blocks: 100, workers: n, job: job{Gate: "yes", GateFrom: 5},
		channel: func(o *coordinator.Options) { o.Barrier = s.Patience }})
	end := tr.begin(t.Context())
	tr.until("work goes on", end, func(st worker.Status) bool { return st.Done >= 5 })
	for _, w := range joined(tr.status()) {
		tr.signal(w, syscall.SIGKILL)
	}
	begin := time.Now()
	err := tr.await(end)
	t.Logf("the run ended %v after its workers: %v", time.Since(begin).Round(time.Millisecond), err)
	var lost *worker.LostError
	if !errors.As(err, &lost) || !strings.Contains(err.Error(), worker.WorkerName(tr.kind.Name(), 0)) {
		t.Errorf("not a LostError that names the workers: %v", err)
	}
	tr.nothingLeft()
}

func allExit(t *testing.T, s Setup) {
	tr := s.trial(t, plan{blocks: 10, workers: 1, job: job{Acts: []act{{Block: 3, Do: "exit"}}}})
	err := tr.run()
	var lost *worker.LostError
	if !errors.As(err, &lost) || len(lost.Exits) == 0 {
		t.Fatalf("not a LostError with the worker's exit: %v", err)
	}
	x := lost.Exits[0]
	if x.Name != worker.WorkerName(tr.kind.Name(), 0) || x.Job == "" || x.Err == nil || !strings.Contains(x.Log,
		lastWords) {
		t.Errorf("the worker's end: %+v", x)
	}
	tr.nothingLeft()
}

func deadlyBlock(t *testing.T, s Setup) {
	n := s.workers(5)
	if n < 4 {
		t.Skipf("expected 4 workers, to lose 2 and their copies; the launcher has %d", n)
	}
	// The deadly block is the only one left when it begins, so that no other block is lost with it.
	tr := s.trial(t, plan{blocks: 8, workers: n,
		job: job{Gate: "yes", GateFrom: 7, Acts: []act{{Block: 7, Do: "crash"}}}, channel: func(o *coordinator.Options) {
			o.Reissues = 1
			o.NoCopies = true
			o.Barrier = s.Patience
		}})
	end := tr.begin(t.Context())
	tr.until("one block is left", end, func(st worker.Status) bool { return st.Done == 7 })
	tr.openGate()
	err := tr.await(end)
	var lost *worker.LostError
	if !errors.As(err, &lost) || lost.Block != 7 || !strings.Contains(err.Error(), "block 7") {
		t.Errorf("not a LostError of block 7: %v", err)
	}
	tr.nothingLeft()
}

func onlyReplaced(t *testing.T, s Setup) {
	tr := s.trial(t, plan{blocks: 40, workers: 1, replace: 1, job: job{Gate: "yes", GateFrom: 20}})
	end := tr.begin(t.Context())
	tr.until("work goes on", end, func(st worker.Status) bool { return st.Done == 20 })
	for _, w := range joined(tr.status()) {
		tr.signal(w, syscall.SIGKILL)
	}
	tr.until("another has joined", end, func(st worker.Status) bool {
		list := joined(st)
		return len(list) == 1 && list[0].Name == worker.WorkerName(tr.kind.Name(), 1) && len(list[0].Held) > 0
	})
	tr.openGate()
	tr.try(tr.await(end))
	tr.complete()
	tr.nothingLeft()
	if st := tr.c.Status(); st.LostWorkers != 1 || st.ReplacedWorkers != 1 {
		t.Errorf("%d workers were lost, %d replaced", st.LostWorkers, st.ReplacedWorkers)
	}
}

func replacedUpToBound(t *testing.T, s Setup) {
	n := s.workers(2)
	tr := s.trial(t, plan{blocks: 100, workers: n, replace: 1, job: job{Gate: "yes", GateFrom: 20},
		channel: func(o *coordinator.Options) { o.Barrier = s.Patience }})
	end := tr.begin(t.Context())
	for range n + 1 {
		tr.until("a worker has blocks", end, func(st worker.Status) bool {
			list := joined(st)
			return st.Done >= 20 && len(list) > 0 && len(list[0].Held) > 0
		})
		lost := tr.status().LostWorkers
		tr.signal(joined(tr.status())[0], syscall.SIGKILL)
		if lost == int64(n) {
			break
		}
		tr.until("it is lost", end, func(st worker.Status) bool { return st.LostWorkers == lost+1 })
	}
	err := tr.await(end)
	var lost *worker.LostError
	if !errors.As(err, &lost) || !strings.Contains(err.Error(), "the limit is 1 within an hour") {
		t.Errorf("not a LostError that names the bound: %v", err)
	}
	tr.nothingLeft()
	if st := tr.c.Status(); st.LostWorkers != int64(n+1) || st.ReplacedWorkers != 1 {
		t.Errorf("%d workers of %d were lost, %d replaced", st.LostWorkers, n+1, st.ReplacedWorkers)
	}
}

// namesBlock5 matches an error that names block 5, alone or among others that the worker had.
var namesBlock5 = regexp.MustCompile(`blocks? [0-9 ]*\b5\b[0-9 ]*, .* may be the cause`)

func deadlyReplaced(t *testing.T, s Setup) {
	tr := s.trial(t, plan{blocks: 8, workers: 1, replace: 100, job: job{Acts: []act{{Block: 5, Do: "crash"}}}})
	err := tr.run()
	var lost *worker.LostError
	if !errors.As(err, &lost) || !namesBlock5.MatchString(err.Error()) {
		t.Errorf("not a LostError that names block 5: %v", err)
	}
	tr.nothingLeft()
	if st := tr.c.Status(); st.LostWorkers != 3 || st.ReplacedWorkers != 2 {
		t.Errorf("%d workers were lost, %d replaced", st.LostWorkers, st.ReplacedWorkers)
	}
}

func silent(t *testing.T, s Setup) {
	n := s.workers(2)
	times := protocol.Times{Heartbeat: 200 * time.Millisecond, HeartbeatTimeout: 3 * time.Second}
	tr := s.trial(t, plan{blocks: 40, workers: n,
		job: job{Gate: "yes", GateFrom: 20, Acts: []act{{Block: 4, Do: "stop", Once: "stopped"}}},
		channel: func(o *coordinator.Options) {
			o.Barrier = s.Patience
			o.Times = times
		}})
	end := tr.begin(t.Context())
	tr.until("one is lost", end, func(st worker.Status) bool { return st.LostWorkers == 1 })
	tr.openGate()
	tr.try(tr.await(end))
	tr.complete()
	tr.nothingLeft()
}

func functionFails(t *testing.T, s Setup) {
	for _, do := range []string{"fail", "fail to read", "panic"} {
		t.Run(do, func(t *testing.T) {
			// The other worker hangs meanwhile, and ignores its context.
			tr := s.trial(t, plan{blocks: 100, workers: s.workers(2),
				job: job{Sleep: time.Millisecond, Acts: []act{{Block: 11, Do: "hang"}, {Block: 30, Do: do}}},
				channel: func(o *coordinator.Options) {
					o.Barrier = s.Patience
				}})
			err := tr.run()
			var f *worker.Failure
			if !errors.As(err, &f) {
				t.Fatalf("not a Failure: %v", err)
			}
			host, _ := os.Hostname()
			if f.Block != 30 || f.Host != host || !strings.HasPrefix(f.Worker,
				tr.kind.Name()+"-") || f.Kind != tr.kind.Name() || !strings.Contains(f.Message,
				failure) || f.Stack == "" {
				t.Errorf("%+v", f)
			}
			for _, want := range []string{f.Worker, host, "block 30", failure} {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q is not in %q", want, err)
				}
			}
			tr.nothingLeft()
		})
	}
}

func cancelled(t *testing.T, s Setup) {
	why := errors.New("cancelled by the test")
	for name, c := range map[string]struct {
		when func(n int) func(worker.Status) bool
		job  job
	}{
		"before all have started": {func(int) func(worker.Status) bool { return func(worker.Status) bool { return true } }, job{Gate: "yes"}},
		"while they work": {func(n int) func(worker.Status) bool {
			return func(st worker.Status) bool { return len(joined(st)) == n && st.Held >= n }
		}, job{Gate: "yes"}},
		"while they hang": {func(n int) func(worker.Status) bool {
			return func(st worker.Status) bool { return len(joined(st)) == n && st.Held >= n }
		}, job{Acts: []act{{Block: -1, Do: "hang"}}}},
	} {
		t.Run(name, func(t *testing.T) {
			n := s.workers(3)
			tr := s.trial(t, plan{blocks: 100, workers: n, job: c.job})
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			end := tr.begin(ctx)
			tr.until("time to cancel", end, c.when(n))
			begin := time.Now()
			cancel(why)
			err := tr.await(end)
			t.Logf("the run ended %v after it was cancelled", time.Since(begin).Round(time.Millisecond))
			if !errors.Is(err, why) {
				t.Errorf("not the cause: %v", err)
			}
			tr.nothingLeft()
		})
	}
}

func noProgram(t *testing.T, s Setup) {
	tr := s.trial(t, plan{blocks: 10, workers: s.workers(2)})
	tr.o.Command = []string{filepath.Join(t.TempDir(), "no-such-program"), "worker"}
	if err := tr.run(); err == nil || !strings.Contains(err.Error(), "no-such-program") {
		t.Errorf("not an error that names the program: %v", err)
	}
	tr.nothingLeft()
}

func single(t *testing.T, s Setup) {
	n := s.workers(6)
	tr := s.trial(t, plan{blocks: n, workers: n, channel: func(o *coordinator.Options) { o.OneBlockPerJob = true }})
	if !tr.kind.Capabilities().OneBlockPerJob {
		t.Skip("the kind starts no workers for one block each")
	}
	tr.try(tr.run())
	tr.complete()
	tr.nothingLeft()
	for w, n := range tr.doneBy() {
		if n != 1 {
			t.Errorf("worker %s did %d blocks", w, n)
		}
	}
}

func singleLost(t *testing.T, s Setup) {
	n := s.workers(4)
	tr := s.trial(t, plan{blocks: n, workers: n, job: job{Acts: []act{{Block: 1, Do: "crash", Once: "crashed"}}},
		channel: func(o *coordinator.Options) { o.OneBlockPerJob = true }})
	if !tr.kind.Capabilities().OneBlockPerJob {
		t.Skip("the kind starts no workers for one block each")
	}
	tr.try(tr.run())
	tr.complete()
	tr.nothingLeft()
}
