package coordinator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"leat/internal/worker/client"
	"leat/internal/worker/protocol"
	"leat/worker"
)

// doubles is a Launcher whose workers are goroutines.
type doubles struct {
	t     testing.TB
	facts worker.Capabilities
	plain func(name string) *plain
	// dies selects workers that end before they join.
	dies     func(name string) bool
	startErr error
	onStop   func()
	log      *slog.Logger
	stopErr  error

	mu      sync.Mutex
	started []string
	fleets  []*doubleFleet
}

func (d *doubles) Name() string                      { return "double" }
func (d *doubles) Capabilities() worker.Capabilities { return d.facts }
func (d *doubles) Check(context.Context) error       { return nil }

func (d *doubles) Start(_ context.Context, o worker.StartOptions) (worker.Fleet, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.startErr != nil {
		return nil, d.startErr
	}
	ctx, cancel := context.WithCancel(context.Background())
	f := &doubleFleet{cancel: cancel, err: d.stopErr, onStop: d.onStop}
	for i := o.First; i < o.First+o.Workers; i++ {
		e := &client.Environment{Name: worker.WorkerName("double", i), Kind: "double", Slots: 1, Endpoint: o.Endpoint}
		if d.facts.Local {
			for range 3 {
				file, err := o.Connect()
				if err != nil {
					cancel()
					return nil, err
				}
				conn, err := net.FileConn(file)
				_ = file.Close()
				if err != nil {
					cancel()
					return nil, err
				}
				e.Connections = append(e.Connections, conn)
			}
		}
		d.started = append(d.started, e.Name)
		f.all.Go(func() {
			var err error
			if d.dies != nil && d.dies(e.Name) {
				err = errors.New("exit status 127")
				for _, c := range e.Connections {
					_ = c.Close()
				}
			} else {
				wo := workOptions(e, d.plain(e.Name))
				wo.Logger = d.log
				err = client.Work(ctx, wo)
			}
			if ctx.Err() == nil {
				o.OnExit(worker.Exit{Name: e.Name, Job: "job of " + e.Name, Err: err, Log: "log of " + e.Name})
			}
		})
	}
	d.fleets = append(d.fleets, f)
	return f, nil
}

type doubleFleet struct {
	cancel  context.CancelFunc
	all     sync.WaitGroup
	stopped atomic.Int64
	err     error
	onStop  func()
}

func (f *doubleFleet) Jobs() string { return "the doubles" }

func (f *doubleFleet) Stop(context.Context) error {
	f.stopped.Add(1)
	if f.onStop != nil {
		f.onStop()
	}
	f.cancel()
	f.all.Wait()
	return f.err
}

func (d *doubles) check(t *testing.T) {
	t.Helper()
	for i, f := range d.fleets {
		if f.stopped.Load() != 1 {
			t.Errorf("fleet %d was stopped %d times", i, f.stopped.Load())
		}
	}
}

func runOptions(n int) RunOptions {
	return RunOptions{Workers: n, Command: []string{"/bin/leat", "worker"}, Run: "test", Replace: -1}
}

func newDoubles(t testing.TB) *doubles {
	return &doubles{t: t, facts: worker.Capabilities{Local: true, OneBlockPerJob: true},
		plain: func(string) *plain { return &plain{} }}
}

func TestRunStartsAndStopsWorkers(t *testing.T) {
	for _, local := range []bool{true, false} {
		k := newTaken()
		o := testOptions(50, k)
		o.Workers, o.Barrier = 3, patience
		log := &lines{}
		o.Logger = log.logger()
		c := newTestCoordinator(t, o)
		d := newDoubles(t)
		d.facts.Local = local
		d.log = log.logger()
		// They leave before they are stopped, so that their jobs succeed.
		d.onStop = func() {
			for _, s := range statesOf(c) {
				if s != worker.StateLeft && s != worker.StateGone {
					t.Errorf("a worker's state at the end is %s", s)
				}
			}
		}
		r := runOptions(3)
		if !local {
			r.Endpoint = listen(t, c)
		}
		if err := Run(t.Context(), c, d, r); err != nil {
			t.Fatal(err)
		}
		k.check(t, 50)
		d.check(t)
		if len(d.started) != 3 {
			t.Errorf("%v were started", d.started)
		}
		// RIOS prints "Error in compute worker" after a successful run.
		if n := log.warnings(); n != 0 {
			t.Errorf("%d warnings of a good run", n)
		}
	}
}

func TestFunctionErrorEndsRun(t *testing.T) {
	for _, transport := range transports {
		t.Run(transport, func(t *testing.T) {
			o := testOptions(1000, newTaken())
			o.Workers = 3
			c := newTestCoordinator(t, o)
			d := newDoubles(t)
			d.facts.Local = transport == "sockets"
			d.stopErr = errors.New("a worker would not stop")
			var stopped atomic.Int64
			var busy sync.WaitGroup
			busy.Add(2)
			var once sync.Map
			d.plain = func(name string) *plain {
				return &plain{onCompute: func(ctx context.Context, block int) error {
					if name == "double-1" {
						busy.Wait()
						return &client.StackError{Err: coded{}, Trace: []byte("here\nand there")}
					}
					if _, again := once.LoadOrStore(name, true); !again {
						busy.Done()
					}
					<-ctx.Done() // a long block
					stopped.Add(1)
					return ctx.Err()
				}}
			}
			r := runOptions(3)
			if transport == "tls" {
				r.Endpoint = listen(t, c)
			}
			err := Run(t.Context(), c, d, r)
			var f *worker.Failure
			if !errors.As(err, &f) {
				t.Fatalf("%v", err)
			}
			if f.Kind != "double" || f.Worker != "double-1" || f.Host == "" || f.Block < 0 ||
				f.Message != "division by zero" || f.Stack != "here\nand there" || f.Code != "zero" {
				t.Errorf("%+v", f)
			}
			lines := strings.Split(err.Error(), "\n")
			if want := fmt.Sprintf("worker double-1 on %s, block %d: division by zero", f.Host,
				f.Block); lines[0] != want {
				t.Errorf("%q, expected %q", lines[0], want)
			}
			if len(lines) < 2 || !strings.HasPrefix(lines[1], "after that: ") || !strings.Contains(err.Error(),
				"would not stop") {
				t.Errorf("%q", lines)
			}
			if stopped.Load() != 2 {
				t.Errorf("%d workers were stopped", stopped.Load())
			}
			d.check(t)
		})
	}
}

type coded struct{}

func (coded) Error() string { return "division by zero" }
func (coded) Code() string  { return "zero" }

func TestHandlerErrorsAndPanics(t *testing.T) {
	for _, x := range []struct {
		what  string
		p     *plain
		open  error
		block int
		text  string
		stack string
	}{
		{"Open", nil, errors.New("no such raster"), -1, "no such raster", ""},
		{"Read", &plain{onRead: func(context.Context, client.Lease) error { return errors.New("short read") }}, nil, 0,
			"short read", ""},
		{"Compute", &plain{onCompute: func(context.Context, int) error { return errors.New("") }}, nil, 0,
			"error without text", ""},
		{"a panic in Compute", &plain{onCompute: func(context.Context, int) error { panic("oh") }}, nil, 0, "panic: oh",
			"run_test.go"},
		{"a panic in Read", &plain{onRead: func(context.Context, client.Lease) error { panic(errors.New("oh")) }}, nil, 0,
			"panic: oh", "run_test.go"},
		{"control characters", &plain{onCompute: func(context.Context,
			int) error {
			return errors.New("a\x1b[2Jb\x00\nc")
		}}, nil, 0, "a?[2Jb?\nc", ""},
		{"much text", &plain{onCompute: func(context.Context, int) error {
			return &client.StackError{Err: errors.New(strings.Repeat("\"", 100000)),
				Trace: []byte(strings.Repeat("\\", 100000))}
		}}, nil, 0, strings.Repeat("\"", 500), "\\\\"},
	} {
		t.Run(x.what, func(t *testing.T) {
			c := newTestCoordinator(t, testOptions(1, newTaken()))
			o := workOptions(environmentOf(t, c, "sockets", "test-0"), x.p)
			if x.open != nil {
				o.Open = func(context.Context, client.JoinInfo) (client.Handler, error) { return nil, x.open }
			}
			got := client.Work(t.Context(), o)
			err := waitRun(t, c)
			var f *worker.Failure
			if !errors.As(err, &f) {
				t.Fatalf("%v", err)
			}
			if f.Block != x.block || !strings.HasPrefix(f.Message, x.text) || !strings.Contains(f.Stack,
				x.stack) || f.Worker != "test-0" {
				t.Errorf("%+v", f)
			}
			if got == nil {
				t.Error("Work did not return it")
			}
		})
	}
}

func TestWorkerReadsForEachSlot(t *testing.T) {
	const slots = 4
	c := newTestCoordinator(t, testOptions(20, newTaken()))
	var inside atomic.Int64
	together := make(chan struct{})
	p := &plain{onRead: func(ctx context.Context, _ client.Lease) error {
		if inside.Add(1) == slots {
			close(together)
		}
		select {
		case <-together:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}}
	e := environmentOf(t, c, "sockets", "test-0")
	e.Slots = slots
	startWorker(t, e, p)
	if err := waitRun(t, c); err != nil {
		t.Error(err)
	}
}

// No slot finishes its first block before the worker has read two blocks for each slot and another.
func TestWorkerReadsAheadForEachSlot(t *testing.T) {
	const slots = 3
	o := testOptions(20, newTaken())
	o.Holds = func(slots int) int { return 2*slots + 1 }
	c := newTestCoordinator(t, o)
	var read atomic.Int64
	enough := make(chan struct{})
	p := &plain{holds: 2*slots + 1,
		onRead: func(context.Context, client.Lease) error {
			if read.Add(1) == 2*slots+1 {
				close(enough)
			}
			return nil
		},
		onCompute: func(ctx context.Context, _ int) error {
			select {
			case <-enough:
				return nil
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}}
	e := environmentOf(t, c, "sockets", "test-0")
	e.Slots = slots
	startWorker(t, e, p)
	if err := waitRun(t, c); err != nil {
		t.Error(err)
	}
}

// If a worker is lost with all blocks that it may hold, its blocks are repeated by a worker that
// does not read them ahead.
func TestLossOfWorkerThatReadsAhead(t *testing.T) {
	const blocks, holds = 20, 5
	k := newTaken()
	o := testOptions(blocks, k)
	o.Workers, o.Times = 3, quick
	o.Holds = func(int) int { return holds }
	c := newTestCoordinator(t, o)
	for i, want := range []int{holds, 2} { // of one slot
		r := newRaw(t, c)
		r.join(worker.WorkerName("raw", i))
		if held := r.lease(100); len(held) != want {
			t.Errorf("worker %d has %d leases, expected %d", i, len(held), want)
		}
		until(t, "the loss", func() bool { return c.Status().Workers[i].State == worker.StateLost })
	}
	startWorker(t, environmentOf(t, c, "sockets", "test-0"), &plain{holds: holds})
	if err := waitRun(t, c); err != nil {
		t.Error(err)
	}
	k.check(t, blocks)
	if s := c.Status(); s.Reissued != holds+2 {
		t.Errorf("%d blocks were leased again, expected %d", s.Reissued, holds+2)
	}
}

func TestLargeResultFailsRun(t *testing.T) {
	o := testOptions(1, newTaken())
	o.MaxResult = 5
	c := newTestCoordinator(t, o)
	_ = client.Work(t.Context(), workOptions(environmentOf(t, c, "sockets", "test-0"), &plain{}))
	var f *worker.Failure
	if err := waitRun(t, c); !errors.As(err, &f) || !strings.Contains(f.Message, "at most 5 are allowed") {
		t.Errorf("%v", err)
	}
}

func TestAcceptErrorEndsRun(t *testing.T) {
	full := errors.New("the disk is full")
	for _, panics := range []bool{false, true} {
		o := testOptions(10, newTaken())
		o.Accept = func(context.Context, *Result) error {
			if panics {
				panic("oh")
			}
			return full
		}
		c := newTestCoordinator(t, o)
		d := newDoubles(t)
		err := Run(t.Context(), c, d, runOptions(1))
		if !panics && !errors.Is(err, full) || panics && !strings.Contains(err.Error(),
			"oh") || !strings.Contains(err.Error(), "block ") {
			t.Errorf("%v", err)
		}
		d.check(t)
	}
}

func TestRunCanceled(t *testing.T) {
	o := testOptions(10, newTaken())
	c := newTestCoordinator(t, o)
	d := newDoubles(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	sigint := errors.New("interrupted")
	d.plain = func(string) *plain {
		return &plain{onCompute: func(ctx context.Context, _ int) error {
			cancel(sigint)
			<-ctx.Done()
			return ctx.Err()
		}}
	}
	if err := Run(ctx, c, d, runOptions(1)); !errors.Is(err, sigint) {
		t.Errorf("%v", err)
	}
	d.check(t)
}

func TestStartErrorFailsRun(t *testing.T) {
	c := newTestCoordinator(t, testOptions(10, newTaken()))
	d := newDoubles(t)
	d.startErr = errors.New("sbatch: not today")
	if err := Run(t.Context(), c, d, runOptions(1)); !errors.Is(err, d.startErr) || !strings.Contains(err.Error(),
		"(double)") {
		t.Errorf("%v", err)
	}

	c = newTestCoordinator(t, testOptions(10, newTaken()))
	d = newDoubles(t)
	d.dies = func(string) bool { return true }
	err := Run(t.Context(), c, d, runOptions(2))
	var lost *worker.LostError
	if !errors.As(err, &lost) || len(lost.Exits) != 2 || !strings.Contains(err.Error(),
		"exit status 127") || !strings.Contains(err.Error(), "log of double-1") {
		t.Errorf("%v", err)
	}
	d.check(t)
}

// In RIOS, the mode with one block per job deadlocks, and leaves its jobs behind.
func TestOneBlockWorkersAreReplaced(t *testing.T) {
	for _, local := range []bool{true, false} {
		k := newTaken()
		const blocks = 12
		o := testOptions(blocks, k)
		o.Workers, o.OneBlockPerJob = blocks, true
		c := newTestCoordinator(t, o)
		d := newDoubles(t)
		d.facts.Local = local
		var mu sync.Mutex
		computed := map[string]int{}
		var deaths atomic.Int64
		d.dies = func(name string) bool { return name == "double-3" || name == "double-14" }
		d.plain = func(name string) *plain {
			return &plain{onCompute: func(ctx context.Context, block int) error {
				mu.Lock()
				computed[name]++
				mu.Unlock()
				if (block == 5 || block == 7) && deaths.Add(1) <= 2 {
					c.Exited(worker.Exit{Name: name, Err: errors.New("out of memory")})
					<-ctx.Done()
				}
				return ctx.Err()
			}}
		}
		r := runOptions(blocks)
		if !local {
			r.Endpoint = listen(t, c)
		}
		if err := Run(t.Context(), c, d, r); err != nil {
			t.Fatal(err)
		}
		k.check(t, blocks)
		d.check(t)
		for name, n := range computed {
			if n != 1 {
				t.Errorf("%s computed %d blocks", name, n)
			}
		}
		if n := len(d.started); n != blocks+4 { // two died with a block, two without
			t.Errorf("%d workers were started: %v", n, d.started)
		}
	}
}

func TestOneBlockWorkersThatNeverJoin(t *testing.T) {
	o := testOptions(8, newTaken())
	o.Workers, o.OneBlockPerJob = 8, true
	c := newTestCoordinator(t, o)
	d := newDoubles(t)
	d.dies = func(string) bool { return true }
	err := Run(t.Context(), c, d, runOptions(8))
	var lost *worker.LostError
	if !errors.As(err, &lost) || !strings.Contains(err.Error(), "exit status 127") {
		t.Errorf("%v", err)
	}
	if len(d.started) > 16 {
		t.Errorf("%d were started", len(d.started))
	}
	d.check(t)
}

func TestInvalidRunOptions(t *testing.T) {
	c := newTestCoordinator(t, testOptions(1, newTaken()))
	for name, f := range map[string]func(*doubles, *RunOptions){
		"no workers":   func(_ *doubles, o *RunOptions) { o.Workers = 0 },
		"no run":       func(_ *doubles, o *RunOptions) { o.Run = "" },
		"no command":   func(_ *doubles, o *RunOptions) { o.Command = nil },
		"no endpoint":  func(d *doubles, _ *RunOptions) { d.facts.Local = false },
		"no directory": func(d *doubles, _ *RunOptions) { d.facts.SharedDir = true },
		"no single":    func(d *doubles, _ *RunOptions) { d.facts.OneBlockPerJob = false },
	} {
		d, o := newDoubles(t), runOptions(1)
		f(d, &o)
		ch := c
		if name == "no single" {
			single := testOptions(1, newTaken())
			single.OneBlockPerJob = true
			ch = newTestCoordinator(t, single)
		}
		if err := Run(t.Context(), ch, d, o); err == nil || len(d.started) > 0 {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestInvalidOptions(t *testing.T) {
	_, err := New(Options{Blocks: -1, MaxResult: 10, MaxBytes: 5, Job: []byte("{"), OneBlockPerJob: true,
		Barrier: 1, Times: protocol.Times{Heartbeat: time.Hour}})
	for _, s := range []string{"Blocks", "Accept", "MaxBytes", "Workers", "OneBlockPerJob", "Job", "heartbeats"} {
		if err == nil || !strings.Contains(err.Error(), s) {
			t.Errorf("%s is not in: %v", s, err)
		}
	}
}

func TestAllBlocksDoneAtStart(t *testing.T) {
	o := testOptions(3, newTaken())
	o.Done = func(int) bool { return true }
	c := newTestCoordinator(t, o)
	if err := waitRun(t, c); err != nil {
		t.Error(err)
	}
	o.Blocks = 0
	if err := waitRun(t, newTestCoordinator(t, o)); err != nil {
		t.Error(err)
	}
	// A worker that comes too late ends without an error.
	if err := client.Work(t.Context(), workOptions(environmentOf(t, c, "sockets", "test-0"), &plain{})); err != nil {
		t.Error(err)
	}
}

func TestResumeSkipsDoneBlocks(t *testing.T) {
	k := newTaken()
	o := testOptions(20, k)
	o.Done = func(b int) bool { return b%3 == 0 }
	c := newTestCoordinator(t, o)
	if err := Run(t.Context(), c, newDoubles(t), runOptions(1)); err != nil {
		t.Fatal(err)
	}
	for b := range 20 {
		if _, there := k.bodies[b]; there == (b%3 == 0) {
			t.Errorf("block %d: %v", b, there)
		}
	}
}

func TestOnDemandBlocksAreReleasedOnce(t *testing.T) {
	k := newTaken()
	const blocks, arrays = 40, 3
	o := testOptions(blocks, k)
	o.OnDemand = true
	free := make(chan struct{}, arrays)
	for range arrays {
		free <- struct{}{}
	}
	o.Released = func(b int) {
		k.release(b)
		free <- struct{}{} // full: a block was released twice
	}
	c := newTestCoordinator(t, o)
	go func() {
		for b := range blocks {
			select {
			case <-free:
				c.Offer(b, fmt.Appendf(nil, `{"n":%d}`, b))
			case <-c.over:
				return
			}
		}
	}()
	d := newDoubles(t)
	d.plain = func(string) *plain {
		return &plain{onRead: func(_ context.Context, l client.Lease) error {
			if want := fmt.Sprintf(`{"n":%d}`, l.Block); string(l.Payload) != want {
				return fmt.Errorf("payload %s, expected %s", l.Payload, want)
			}
			return nil
		}}
	}
	if err := Run(t.Context(), c, d, runOptions(2)); err != nil {
		t.Fatal(err)
	}
	k.check(t, blocks)
	_ = c.Close()
	for b := range blocks {
		if k.released[b] != 1 {
			t.Errorf("block %d was released %d times", b, k.released[b])
		}
	}
	if len(c.payloads) != 0 {
		t.Errorf("%d payloads are kept", len(c.payloads))
	}
}

func TestNotePrecedesLaterBlocks(t *testing.T) {
	k := newTaken()
	o := testOptions(60, k)
	var tens atomic.Int64
	o.Note = func() json.RawMessage { return fmt.Appendf(nil, `%d`, tens.Load()) }
	accept := o.Accept
	o.Accept = func(ctx context.Context, r *Result) error {
		tens.Store(int64(r.Block / 10))
		return accept(ctx, r)
	}
	c := newTestCoordinator(t, o)
	d := newDoubles(t)
	var mu sync.Mutex
	var notes []string
	d.plain = func(string) *plain {
		return &plain{
			onNote: func(n string) {
				mu.Lock()
				notes = append(notes, n)
				mu.Unlock()
			},
			onRead: func(_ context.Context, l client.Lease) error {
				mu.Lock()
				defer mu.Unlock()
				// A worker of one slot has two leases: when it is given block b, the result of
				// block b-2 was accepted.
				if want := fmt.Sprint(max(l.Block-2, 0) / 10); len(notes) == 0 || notes[len(notes)-1] < want {
					return fmt.Errorf("block %d comes after the notes %v", l.Block, notes)
				}
				return nil
			},
		}
	}
	if err := Run(t.Context(), c, d, runOptions(1)); err != nil {
		t.Fatal(err)
	}
	if want := []string{"0", "1", "2", "3", "4", "5"}; !slices.Equal(notes, want) {
		t.Errorf("notes: %v", notes)
	}
}

// halfway is a launcher that fails after it has started one worker, which it ends.
type halfway struct {
	*doubles
	c *Coordinator
}

func (h halfway) Start(_ context.Context, o worker.StartOptions) (worker.Fleet, error) {
	r := newRaw(h.t, h.c)
	r.join(worker.WorkerName("double", 0))
	o.OnStartError(h.startErr)
	h.c.Exited(worker.Exit{Name: worker.WorkerName("double", 0), Err: errors.New("killed by SIGKILL")})
	return nil, h.startErr
}

func TestStartErrorIsNoWorkerLoss(t *testing.T) {
	log := &lines{}
	o := testOptions(5, newTaken())
	o.Workers, o.Logger = 2, log.logger()
	c := newTestCoordinator(t, o)
	h := halfway{newDoubles(t), c}
	h.startErr = errors.New("too many open files")
	err := Run(t.Context(), c, h, runOptions(2))
	if err == nil || err.Error() != "starting 2 workers (double): too many open files" {
		t.Errorf("%v", err)
	}
	if log.warnings() != 0 {
		t.Errorf("%q", log.all)
	}
}
