package workertest

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"leat/internal/worker/coordinator"
	"leat/worker"
)

// trial is one run of a coordinator with workers of a launcher.
type trial struct {
	*testing.T
	s      Setup
	kind   worker.Launcher
	c      *coordinator.Coordinator
	o      coordinator.RunOptions
	job    job
	dir    string // workers can read it too
	blocks int

	mu      sync.Mutex
	by      map[int]string // worker by block
	pids    map[int]bool   // of all workers that were seen
	visible []string       // command lines of workers
}

const size = 3000

// plan describes a trial.
type plan struct {
	blocks, workers int
	replace         int // RunOptions.Replace; 0: none
	job             job
	channel         func(*coordinator.Options)
}

func (s Setup) trial(t *testing.T, p plan) *trial {
	t.Helper()
	tr := &trial{T: t, s: s, kind: s.Launcher(t), job: p.job, blocks: p.blocks, dir: t.TempDir(),
		by: map[int]string{}, pids: map[int]bool{}}
	p.job.Size = size
	if p.job.Gate != "" {
		p.job.Gate = tr.gate()
	}
	for i := range p.job.Acts {
		if a := &p.job.Acts[i]; a.Once != "" {
			a.Once = filepath.Join(tr.dir, a.Once)
		}
	}
	text, err := json.Marshal(p.job)
	tr.try(err)
	o := coordinator.Options{
		Job: text, Blocks: p.blocks, MaxResult: size + 64<<10, MaxBytes: 8 << 20, Accept: tr.accept,
		Build: build, Workers: p.workers, Logger: slog.New(slog.NewTextHandler(t.Output(), nil)),
	}
	if p.channel != nil {
		p.channel(&o)
	}
	tr.c, err = coordinator.New(o)
	tr.try(err)
	t.Cleanup(func() {
		if err := tr.c.Close(); err != nil {
			t.Error(err)
		}
	})
	tr.try(tr.kind.Check(t.Context()))
	tr.o = coordinator.RunOptions{Workers: p.workers, Replace: cmp.Or(p.replace, -1), Command: s.Command, Run: "workertest",
		Logger: o.Logger, StopWithin: s.Patience}
	facts := tr.kind.Capabilities()
	if !facts.Local {
		tr.o.Endpoint, err = tr.c.Listen(s.Address)
		tr.try(err)
	}
	if facts.SharedDir || s.Dir {
		tr.o.Dir = filepath.Join(tr.dir, "run")
		tr.try(os.Mkdir(tr.o.Dir, 0o700))
	}
	return tr
}

func (tr *trial) try(err error) {
	tr.Helper()
	if err != nil {
		tr.Fatal(err)
	}
}

func (tr *trial) gate() string { return filepath.Join(tr.dir, "gate") }

func (tr *trial) openGate() { tr.try(os.WriteFile(tr.gate(), nil, 0o600)) }

func (tr *trial) accept(_ context.Context, r *coordinator.Result) error {
	if len(r.Body) < size || !bytes.Equal(r.Body[:size], content(r.Block, size)) {
		return fmt.Errorf("block %d of worker %s has wrong bytes", r.Block, r.Worker)
	}
	var a author
	if err := json.Unmarshal(r.Body[size:], &a); err != nil {
		return fmt.Errorf("block %d of worker %s: %w", r.Block, r.Worker, err)
	}
	tr.mu.Lock()
	defer tr.mu.Unlock()
	if other, ok := tr.by[r.Block]; ok {
		return fmt.Errorf("block %d came from worker %s and then from %s", r.Block, other, r.Worker)
	}
	if r.Worker == "" || r.Host == "" {
		return fmt.Errorf("block %d is of worker %q on host %q", r.Block, r.Worker, r.Host)
	}
	tr.by[r.Block] = r.Worker
	tr.pids[a.PID] = true
	tr.visible = append(tr.visible, a.Command)
	return nil
}

// run runs the trial to its end.
func (tr *trial) run() error {
	tr.Helper()
	return tr.await(tr.begin(tr.Context()))
}

// begin runs the trial in a goroutine.
func (tr *trial) begin(ctx context.Context) <-chan error {
	end := make(chan error, 1)
	go func() { end <- coordinator.Run(ctx, tr.c, tr.kind, tr.o) }()
	return end
}

func (tr *trial) await(end <-chan error) error {
	tr.Helper()
	limit := time.NewTimer(tr.s.Patience)
	defer limit.Stop()
	for {
		select {
		case err := <-end:
			tr.status()
			return err
		case <-time.After(20 * time.Millisecond):
			tr.status()
		case <-limit.C:
			tr.Fatalf("the run does not end: %+v", tr.c.Status())
		}
	}
}

// until waits until is returns true. It fails if the run ends before.
func (tr *trial) until(what string, end <-chan error, is func(worker.Status) bool) {
	tr.Helper()
	for limit := time.Now().Add(tr.s.Patience); ; time.Sleep(2 * time.Millisecond) {
		if is(tr.status()) {
			return
		}
		select {
		case err := <-end:
			tr.Fatalf("the run ended, expected before that: %s: %v", what, err)
		default:
		}
		if time.Now().After(limit) {
			tr.Fatalf("timed out, expected: %s: %+v", what, tr.c.Status())
		}
	}
}

// status returns the coordinator's status. It records workers, for the check that none is left at
// the end.
func (tr *trial) status() worker.Status {
	s := tr.c.Status()
	host, _ := os.Hostname()
	tr.mu.Lock()
	defer tr.mu.Unlock()
	for _, w := range s.Workers {
		if w.PID > 0 && w.Host == host {
			tr.pids[w.PID] = true
		}
	}
	return s
}

// signal sends a signal to a worker.
func (tr *trial) signal(w worker.WorkerStatus, s syscall.Signal) {
	tr.Helper()
	if err := syscall.Kill(w.PID, s); err != nil && !errors.Is(err, syscall.ESRCH) {
		tr.Fatal(err)
	}
}

func joined(s worker.Status) (list []worker.WorkerStatus) {
	for _, w := range s.Workers {
		if w.State == worker.StateJoined {
			list = append(list, w)
		}
	}
	return list
}

// complete checks that there is each block. accept has checked that each came once, with the right
// bytes.
func (tr *trial) complete() {
	tr.Helper()
	tr.mu.Lock()
	defer tr.mu.Unlock()
	for b := range tr.blocks {
		if tr.by[b] == "" {
			tr.Errorf("block %d is missing", b)
		}
	}
	if len(tr.by) != tr.blocks {
		tr.Errorf("%d blocks of %d", len(tr.by), tr.blocks)
	}
}

// doneBy counts the blocks of each worker.
func (tr *trial) doneBy() map[string]int {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	n := map[string]int{}
	for _, w := range tr.by {
		n[w]++
	}
	return n
}

// nothingLeft checks that no worker and no job is left. The launcher has stopped them, but a batch
// system may need a moment.
func (tr *trial) nothingLeft() {
	tr.Helper()
	tr.mu.Lock()
	pids := tr.pids
	tr.mu.Unlock()
	limit := time.Now().Add(tr.s.Patience)
	for pid := range pids {
		for Alive(pid) {
			if time.Now().After(limit) {
				tr.Fatalf("worker process %d is left", pid)
			}
			if tr.kind.Capabilities().Local {
				tr.Errorf("worker process %d is left", pid)
				break
			}
			time.Sleep(5 * time.Millisecond)
		}
	}
	if tr.s.Left == nil {
		return
	}
	for left := tr.s.Left(tr.T, tr.kind); len(left) > 0; left = tr.s.Left(tr.T, tr.kind) {
		if time.Now().After(limit) {
			tr.Fatalf("the system still has %v", left)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// secret checks that the coordinator's token was not on the command line of any process of this
// machine.
func (tr *trial) secret() {
	tr.Helper()
	token := tr.o.Endpoint.Token
	if token == "" {
		return
	}
	tr.mu.Lock()
	lines := slices.Clone(tr.visible)
	tr.mu.Unlock()
	names, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, name := range names {
		if b, err := os.ReadFile(name); err == nil {
			lines = append(lines, string(b))
		}
	}
	for _, l := range lines {
		if strings.Contains(l, token) {
			tr.Errorf("the token is on a command line: %q", strings.ReplaceAll(l, token, "TOKEN"))
		}
	}
}

// Alive reports whether a process of this machine runs: it exists and is not a zombie.
func Alive(pid int) bool {
	if syscall.Kill(pid, 0) != nil {
		return false
	}
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		// Without /proc, only the existence of the process is known.
		_, noProc := os.Stat("/proc/self")
		return noProc != nil || !errors.Is(err, fs.ErrNotExist)
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(rest, "Z") && !strings.HasPrefix(rest, "X")
}
