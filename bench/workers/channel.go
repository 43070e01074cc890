package workers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync/atomic"
	"time"

	"leat/internal/worker/client"
	"leat/internal/worker/coordinator"
	"leat/internal/worker/protocol"
	"leat/worker"
	"leat/worker/subprocess"
)

func buildID() (string, error) { return protocol.BuildID() }

// testJob is what this program's workers compute.
type testJob struct {
	Bytes int // of each result
}

// work is this program as a worker whose blocks take no work.
func work(ctx context.Context) error {
	e, err := client.FromEnvironment(ctx, nil)
	if err != nil {
		return err
	}
	if e == nil {
		return errors.New("no run to work for: the benchmark starts its workers itself")
	}
	build, err := buildID()
	if err != nil {
		return err
	}
	return client.Work(ctx, client.Options{Environment: e, Build: build,
		Open: func(_ context.Context, j client.JoinInfo) (client.Handler, error) {
			var job testJob
			if err := json.Unmarshal(j.Job, &job); err != nil {
				return nil, err
			}
			return idle{make([]byte, job.Bytes)}, nil
		}})
}

// idle is a computer whose results are all the same.
type idle [][]byte

func (i idle) Read(context.Context, client.Lease) (any, error)              { return nil, nil }
func (i idle) Compute(context.Context, int, any) (body [][]byte, err error) { return i, nil }
func (i idle) Discard(any)                                                  {}
func (i idle) Notify(json.RawMessage)                                       {}
func (i idle) Close() ([]byte, error)                                       { return nil, nil }

// channel makes one for this program's workers. It must be closed.
func (b *bench) channel(blocks int, job testJob, accept func()) (*coordinator.Coordinator, error) {
	text, err := json.Marshal(job)
	if err != nil {
		return nil, err
	}
	return coordinator.New(coordinator.Options{
		Job: text, Blocks: blocks, OnDemand: true, NoCopies: true, Workers: 1, Build: b.build,
		MaxResult: int64(job.Bytes), MaxBytes: 4*int64(job.Bytes) + 1,
		Accept: func(context.Context, *coordinator.Result) error {
			accept()
			return nil
		},
	})
}

// began is a kind that notes when its workers have been started.
type began struct {
	worker.Launcher
	at time.Time
}

func (k *began) Start(ctx context.Context, o worker.StartOptions) (worker.Fleet, error) {
	f, err := k.Launcher.Start(ctx, o)
	k.at = time.Now()
	return f, err
}

// steps are the times from the call that starts a worker to the moments in its life.
type steps struct {
	started, joined, first, ended time.Duration
}

// firstBlock has a worker of a kind compute one block without work.
func (b *bench) firstBlock(k worker.Launcher, directory string) (s steps, err error) {
	var first atomic.Int64
	var begin time.Time
	c, err := b.channel(1, testJob{}, func() { first.Store(int64(time.Since(begin))) })
	if err != nil {
		return s, err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	o := coordinator.RunOptions{Workers: 1, Command: []string{b.self, "workers", "worker"}, Run: "bench", Dir: directory}
	if !k.Capabilities().Local {
		if o.Endpoint, err = c.Listen("127.0.0.1:0"); err != nil {
			return s, err
		}
	}
	c.Offer(0, nil)
	watched := &began{Launcher: k}
	begin = time.Now()
	if err := coordinator.Run(b.ctx, c, watched, o); err != nil {
		return s, err
	}
	s.ended = time.Since(begin)
	s.started, s.first = watched.at.Sub(begin), time.Duration(first.Load())
	for _, w := range c.Status().Workers {
		s.joined = w.Joined.Sub(begin)
	}
	return s, nil
}

// joining has leat worker join a run, and returns how long that took. Its job is none that leat
// knows, so it goes no further.
func (b *bench) joining() (took time.Duration, err error) {
	c, err := coordinator.New(coordinator.Options{Blocks: 1, OnDemand: true, Workers: 1, Build: b.build,
		AllowMixedBuilds: true,
		MaxBytes:         1,
		Accept:           func(context.Context, *coordinator.Result) error { return nil }})
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	begin := time.Now()
	f, err := subprocess.New(&subprocess.Options{Output: io.Discard}).Start(b.ctx, worker.StartOptions{
		Workers: 1, Command: []string{b.leat.Program, "worker"}, RunID: "bench", Connect: c.Connect, OnExit: c.Exited})
	if err != nil {
		return 0, err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		err = errors.Join(err, f.Stop(ctx))
	}()
	for {
		for _, w := range c.Status().Workers {
			if !w.Joined.IsZero() {
				return w.Joined.Sub(begin), nil
			}
			if w.State == worker.StateGone {
				return 0, errors.New("leat worker has ended before it joined")
			}
		}
		select {
		case <-b.ctx.Done():
			return 0, b.ctx.Err()
		case <-time.After(time.Millisecond):
		}
	}
}

// stream has one worker compute many blocks without work, one at a time, and returns the time of
// one. The worker was there before.
func (b *bench) stream(blocks int, job testJob, tls bool) (each time.Duration, err error) {
	c, err := b.channel(blocks, job, func() {})
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	end, err := b.oneWorker(c, tls)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, end()) }()
	for { // for it to wait for blocks
		s := c.Status()
		if s.Polls > 0 {
			break
		}
		if s.Ended != "" || len(s.Workers) > 0 && s.Workers[0].State == worker.StateGone {
			return 0, errors.Join(errors.New("the worker has ended before its first block"), c.Wait(b.ctx))
		}
		time.Sleep(time.Millisecond)
	}
	begin := time.Now()
	for n := range blocks {
		c.Offer(n, nil)
	}
	if err := c.Wait(b.ctx); err != nil {
		return 0, err
	}
	return time.Since(begin) / time.Duration(blocks), nil
}

// oneWorker starts this program as a worker with one slot: a child with inherited connections, or
// one that comes by TLS.
func (b *bench) oneWorker(c *coordinator.Coordinator, tls bool) (end func() error, err error) {
	if !tls {
		f, err := subprocess.New(&subprocess.Options{Slots: 1, Output: os.Stderr}).Start(b.ctx, worker.StartOptions{
			Workers: 1, Command: []string{b.self, "workers", "worker"}, RunID: "bench", Connect: c.Connect, OnExit: c.Exited})
		if err != nil {
			return nil, err
		}
		return func() error {
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			defer cancel()
			return f.Stop(ctx)
		}, nil
	}
	i, err := c.Listen("127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	secret, err := i.MarshalText()
	if err != nil {
		return nil, err
	}
	file := filepath.Join(b.dir, "invitation")
	if err := os.WriteFile(file, secret, 0o600); err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(b.ctx, b.self, "workers", "worker")
	cmd.Env = append(os.Environ(), worker.EnvFile+"="+file, worker.EnvName+"=bench-0", worker.EnvSlots+"=1")
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	ended := make(chan error, 1)
	go func() {
		err := cmd.Wait()
		ended <- err
		c.Exited(worker.Exit{Name: "bench-0", Job: fmt.Sprintf("process %d", cmd.Process.Pid), Err: err})
	}()
	return func() error {
		if err := cmd.Process.Signal(os.Interrupt); err != nil && !errors.Is(err, os.ErrProcessDone) {
			return err
		}
		return <-ended
	}, nil
}
