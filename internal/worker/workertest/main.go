// Package workertest is the conformance suite of launchers. It runs each of them against the real
// coordinator, with worker processes that are killed or stopped, or fail in other ways.
//
//	func TestMain(m *testing.M) {
//		workertest.Main() // the test binary is the worker, too
//		goleak.VerifyTestMain(m)
//	}
//
//	func TestConformance(t *testing.T) {
//		workertest.Launcher(t, workertest.Setup{Launcher: func(t *testing.T) worker.Launcher {
//			return slurm.New(...)
//		}})
//	}
package workertest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"leat/internal/worker/client"
)

// build identifies the workers of these tests.
const build = "workertest"

// Fetch returns the text of a secret, see [client.FromEnvironment].
type Fetch = func(ctx context.Context, name string) (string, error)

// Main runs this process as a worker of the suite and exits if its environment is that of a worker;
// otherwise it returns. fetch holds the secret stores that the launcher uses.
func Main(fetch ...map[string]Fetch) {
	all := map[string]Fetch{}
	for _, m := range fetch {
		for store, f := range m {
			all[store] = f
		}
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	env, err := client.FromEnvironment(ctx, all)
	if err == nil && env == nil {
		stop()
		return
	}
	if err == nil {
		err = client.Work(ctx, client.Options{Environment: env, Build: build, Open: open})
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// job describes what the workers of a trial do.
type job struct {
	Size  int           // bytes of a block's result
	Sleep time.Duration // in each block
	Acts  []act
	// Gate, if set, is a file. Blocks from GateFrom on do not begin before it exists.
	Gate     string
	GateFrom int
}

// act is what a worker does at a block.
type act struct {
	Block int    // -1: all blocks
	Do    string // a key of acts, or of readActs
	Once  string // a file: only the process that creates it acts
}

// failure is the message of errors and panics of the suite's function.
const failure = "the suite's function has failed"

var readActs = map[string]func() error{
	"fail to read": func() error {
		return &client.StackError{Err: errors.New(failure),
			Trace: []byte("the suite's stack")}
	},
}

var acts = map[string]func() error{
	"fail":  func() error { return &client.StackError{Err: errors.New(failure), Trace: []byte("the suite's stack")} },
	"panic": func() error { panic(failure) },
	"exit": func() error {
		fmt.Fprintln(os.Stderr, lastWords)
		os.Exit(3)
		return nil
	},
	"crash": func() error { return killSelf(syscall.SIGKILL) },
	"stop":  func() error { return killSelf(syscall.SIGSTOP) },
	"hang":  func() error { select {} },
}

// lastWords is written to the log of a worker that exits.
const lastWords = "these are the last words"

func killSelf(s syscall.Signal) error {
	err := syscall.Kill(os.Getpid(), s)
	time.Sleep(time.Second) // until the signal arrives
	return err
}

// handler computes blocks of bytes that depend only on the block's number.
type handler struct {
	job job
	end []byte // of each result: its author
}

// author is the process that computed a block.
type author struct {
	PID     int
	Command string // as others on the machine can see it
}

func open(_ context.Context, j client.JoinInfo) (client.Handler, error) {
	c := &handler{}
	if err := json.Unmarshal(j.Job, &c.job); err != nil {
		return nil, err
	}
	command, err := os.ReadFile("/proc/self/cmdline")
	if err != nil {
		command = []byte(strings.Join(os.Args, "\x00"))
	}
	c.end, err = json.Marshal(author{PID: os.Getpid(), Command: string(command)})
	return c, err
}

// Read waits for the gate. If Compute waited, a block could take the slot of one that need not
// wait, since several blocks are read at once.
func (c *handler) Read(ctx context.Context, l client.Lease) (any, error) {
	for c.job.Gate != "" && l.Block >= c.job.GateFrom {
		if _, err := os.Stat(c.job.Gate); err == nil {
			break
		}
		if err := sleep(ctx, 2*time.Millisecond); err != nil {
			return nil, err
		}
	}
	if err := c.act(l.Block, readActs); err != nil {
		return nil, err
	}
	return l.Block, ctx.Err()
}

func (c *handler) Compute(ctx context.Context, _ int, read any) ([][]byte, error) {
	block := read.(int)
	if err := c.act(block, acts); err != nil {
		return nil, err
	}
	if err := sleep(ctx, c.job.Sleep); err != nil {
		return nil, err
	}
	return [][]byte{content(block, c.job.Size), c.end}, nil
}

func (c *handler) Discard(any) {}

func (c *handler) Notify(json.RawMessage) {}

func (c *handler) Close() ([]byte, error) { return nil, nil }

// act acts at a block, if one of its acts is in table.
func (c *handler) act(block int, table map[string]func() error) error {
	for _, a := range c.job.Acts {
		do := table[a.Do]
		if do == nil || (a.Block != block && a.Block != -1) {
			continue
		}
		if a.Once != "" {
			f, err := os.OpenFile(filepath.Clean(a.Once), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
			if err != nil {
				continue // another process has acted
			}
			_ = f.Close()
		}
		if err := do(); err != nil {
			return err
		}
	}
	return nil
}

func sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// content is a block's result.
func content(block, size int) []byte {
	r := rand.NewPCG(uint64(block), 0x6c656174)
	b := make([]byte, 0, size+8)
	for len(b) < size {
		v := r.Uint64()
		b = append(b, byte(v), byte(v>>8), byte(v>>16), byte(v>>24), byte(v>>32), byte(v>>40), byte(v>>48), byte(v>>56))
	}
	return b[:size]
}
