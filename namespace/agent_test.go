//go:build unix

package namespace

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"leat/internal/fault"
	"leat/internal/proctest"
)

// An agent is a real process that executes the orders of the test from a socket, one after the
// other, and can be killed at any time. It may be a member of several namespaces, by handle.

type order struct {
	Op      string
	Handle  int
	Spec    orderSpec
	Name    string
	N       int
	Value   int64
	Timeout time.Duration // of the order's context; 0: none
	At      int64         // nanoseconds of the clock at which to begin; 0: at once
	Env     []string      // set before a join, NAME=VALUE
}

// orderSpec is Spec without its function.
type orderSpec struct {
	Key, Name string
	Dirs      []Dir
	Files     []string
	Ranks     Ranks
	Wait      time.Duration
	Command   string
}

type answer struct {
	Err     string
	Is      []string // names of the errors that it is
	Claimed *ClaimedError
	Died    *MemberDiedError
	Took    time.Duration
	PID     int
	Number  int
	Leader  bool
	Ranks   Ranks
	Key     string
	Value   int64
	Text    string
	List    []string // warnings
	Members []Member
}

var errorNames = map[string]error{
	"mismatch": errMismatch, "in use": ErrInUse, "no leader": ErrNoLeader,
	"closed": ErrClosed, "broken": errBarrierBroken,
	"no space": syscall.ENOSPC, "canceled": context.Canceled, "deadline": context.DeadlineExceeded,
}

func (a *answer) fail(err error) {
	if err == nil {
		return
	}
	a.Err = err.Error()
	for name, target := range errorNames {
		if errors.Is(err, target) {
			a.Is = append(a.Is, name)
		}
	}
	errors.As(err, &a.Claimed)
	errors.As(err, &a.Died)
}

func (a answer) is(name string) bool {
	for _, n := range a.Is {
		if n == name {
			return true
		}
	}
	return false
}

// agentState is the child's side.
type agentState struct {
	spaces map[int]*Namespace
	unlock map[string]func() error
	mu     sync.Mutex
	warned []string
	points []string // that were passed
	kids   []*exec.Cmd
}

// agentMain is the process: SOCKET. It ends, without leaving its namespaces, when the test hangs
// up.
func agentMain(args []string) error {
	conn, err := net.Dial("unix", args[0])
	if err != nil {
		return err
	}
	// Mapped memory is touched by random tests only while it is valid; a fault is a bug to be seen.
	debug.SetTraceback("all")
	in, out := json.NewDecoder(conn), json.NewEncoder(conn)
	s := &agentState{spaces: map[int]*Namespace{}, unlock: map[string]func() error{}}
	fault.Set(func(point string) error {
		s.mu.Lock()
		s.points = append(s.points, point)
		s.mu.Unlock()
		proctest.Point(point)
		return nil
	})
	if err := out.Encode(answer{PID: os.Getpid()}); err != nil {
		return err
	}
	for {
		var o order
		if err := in.Decode(&o); err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
		var a answer
		for o.At != 0 && time.Now().UnixNano() < o.At { // spins: a sleep is late by more than what is tested
		}
		ctx, cancel := context.Background(), context.CancelFunc(func() {})
		if o.Timeout > 0 {
			ctx, cancel = context.WithTimeout(ctx, o.Timeout)
		}
		begin := time.Now()
		err := s.do(ctx, &o, &a)
		a.Took = time.Since(begin)
		cancel()
		a.fail(err)
		if err := out.Encode(a); err != nil {
			return err
		}
	}
}

func (s *agentState) do(ctx context.Context, o *order, a *answer) error {
	if o.Op == "join" {
		for _, e := range o.Env {
			name, value, _ := strings.Cut(e, "=")
			os.Setenv(name, value)
		}
		p := o.Spec
		n, err := Join(ctx, Spec{Key: p.Key, Name: p.Name, Dirs: p.Dirs, Files: p.Files, Ranks: p.Ranks, Wait: p.Wait,
			Command: p.Command, Logger: warnTo(func(err error) {
				s.mu.Lock()
				s.warned = append(s.warned, err.Error())
				s.mu.Unlock()
			})})
		if err != nil {
			return err
		}
		s.spaces[o.Handle] = n
		a.Number, a.Leader, a.Ranks, a.Key = n.Number(), n.Leader(), n.Spec().Ranks, n.Spec().Key
		return nil
	}
	switch o.Op {
	case "descriptors":
		a.N(descriptors())
		return nil
	case "warnings":
		s.mu.Lock()
		a.List = append(a.List, s.warned...)
		s.mu.Unlock()
		return nil
	case "points":
		s.mu.Lock()
		a.List = append(a.List, s.points...)
		s.mu.Unlock()
		return nil
	case "gc":
		_, err := GC(false)
		return err
	case "spawn": // an agent of its own for the socket Name, for whose end this process does not wait
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), "LEAT_PROCTEST=agent", "LEAT_PROCTEST_ARGS="+o.Name)
		s.kids = append(s.kids, cmd)
		return cmd.Start()
	case "sleep": // starts a process that does nothing and outlives this one
		cmd := exec.Command("sleep", "30")
		s.kids = append(s.kids, cmd)
		err := cmd.Start()
		if err == nil {
			a.PID = cmd.Process.Pid
		}
		return err
	}
	n := s.spaces[o.Handle]
	if n == nil {
		return fmt.Errorf("no namespace %d", o.Handle)
	}
	switch o.Op {
	case "close":
		return n.Close()
	case "members":
		var err error
		a.Members, err = n.Members()
		return err
	case "leader gone":
		return closedWithin(ctx, n.LeaderGone())
	case "lost":
		if err := closedWithin(ctx, n.Lost()); err != nil {
			return err
		}
		a.fail(n.Err())
		return nil
	case "env":
		a.List = n.Environ()
	case "add": // to counter Name, N times 1
		c, err := n.Counter(o.Name)
		if err != nil {
			return err
		}
		for range o.N {
			a.Value = c.Add(1)
		}
	case "load":
		c, err := n.Counter(o.Name)
		if err != nil {
			return err
		}
		a.Value = c.Load()
	case "region":
		r, err := n.Region(o.Name, o.N)
		if err != nil {
			return err
		}
		a.Value = int64(r[0])
		r[0], r[o.N-1] = byte(o.Value), byte(o.Value)
	case "wait": // at barrier Name for N, Value times (at least once)
		b, err := n.Barrier(o.Name, o.N)
		if err != nil {
			return err
		}
		for range max(o.Value, 1) {
			if err := b.Wait(ctx); err != nil {
				return err
			}
		}
	case "check rounds": // as wait, and nobody may be a round ahead: which the counter shows
		b, err := n.Barrier(o.Name, o.N)
		if err != nil {
			return err
		}
		c, err := n.Counter(o.Name)
		if err != nil {
			return err
		}
		for round := range o.Value {
			c.Add(1)
			if err := b.Wait(ctx); err != nil {
				return err
			}
			if got := c.Load(); got < (round+1)*int64(o.N) || got >= (round+2)*int64(o.N) {
				return fmt.Errorf("after round %d the counter is %d", round, got)
			}
		}
	case "lock":
		m, err := n.Mutex(o.Name)
		if err != nil {
			return err
		}
		s.unlock[o.Name], err = m.Lock(ctx)
		return err
	case "try lock":
		m, err := n.Mutex(o.Name)
		if err != nil {
			return err
		}
		unlock, err := m.TryLock()
		if unlock != nil {
			a.Value = 1
			return errors.Join(err, unlock())
		}
		return err
	case "unlock":
		return s.unlock[o.Name]()
	case "count under lock": // in goroutines: N times each, on memory that is not atomic
		return countUnderLock(ctx, n, o.Name, int(o.Value), o.N)
	case "dir":
		var err error
		a.Text, err = n.Dir(o.Name)
		return err
	default:
		return fmt.Errorf("no order %q", o.Op)
	}
	return nil
}

// N sets the value.
func (a *answer) N(n int, err error) { a.Value = int64(n); a.fail(err) }

func closedWithin(ctx context.Context, c <-chan struct{}) error {
	select {
	case <-c:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// agent is the test's side. Its methods fail the test where the process is gone.
type agent struct {
	t    testing.TB
	cmd  *proctest.Command
	conn net.Conn
	in   *json.Decoder
	out  *json.Encoder
	pid  int
}

// rendezvous listens for agents.
type rendezvous struct {
	net.Listener
	path string
}

func newRendezvous(t testing.TB) rendezvous {
	t.Helper()
	dir, err := os.MkdirTemp("", "leat") // t.TempDir's are too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "s")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close(); os.RemoveAll(dir) })
	return rendezvous{l, path}
}

// meet waits for a process that was started for the rendezvous.
func (r rendezvous) meet(t testing.TB) *agent {
	t.Helper()
	if err := r.Listener.(*net.UnixListener).SetDeadline(time.Now().Add(100 * time.Second)); err != nil {
		t.Fatal(err)
	}
	conn, err := r.Accept()
	if err != nil {
		t.Fatalf("the agent did not come: %v", err)
	}
	t.Cleanup(func() { conn.Close() })
	a := &agent{t: t, conn: conn, in: json.NewDecoder(conn), out: json.NewEncoder(conn)}
	a.pid = a.receive().PID
	return a
}

// newAgent starts a process. prepare, if not nil, may change how.
func newAgent(t testing.TB, prepare func(*proctest.Command)) *agent {
	t.Helper()
	r := newRendezvous(t)
	cmd := proctest.New("agent", r.path)
	if prepare != nil {
		prepare(cmd)
	}
	cmd.Start(t)
	a := r.meet(t)
	a.cmd = cmd
	return a
}

func newAgents(t testing.TB, n int) []*agent {
	t.Helper()
	list := make([]*agent, n)
	for i := range list {
		list[i] = newAgent(t, nil)
	}
	return list
}

func (a *agent) send(o order) {
	a.t.Helper()
	if err := a.out.Encode(o); err != nil {
		a.t.Fatalf("%s: process %d is gone: %v", o.Op, a.pid, err)
	}
}

func (a *agent) receive() answer {
	a.t.Helper()
	got, err := a.tryReceive()
	if err != nil {
		a.t.Fatalf("process %d is gone: %v", a.pid, err)
	}
	return got
}

func (a *agent) tryReceive() (answer, error) {
	if err := a.conn.SetReadDeadline(time.Now().Add(5 * time.Minute)); err != nil {
		return answer{}, err
	}
	var got answer
	err := a.in.Decode(&got)
	return got, err
}

// try gives an order and returns the answer, failure or not.
func (a *agent) try(o order) answer {
	a.t.Helper()
	a.send(o)
	return a.receive()
}

// must gives an order that may not fail.
func (a *agent) must(o order) answer {
	a.t.Helper()
	got := a.try(o)
	if got.Err != "" {
		a.t.Fatalf("%s: %s", o.Op, got.Err)
	}
	return got
}

func (a *agent) join(s orderSpec) answer {
	a.t.Helper()
	return a.must(order{Op: "join", Spec: s})
}

func (a *agent) tryJoin(s orderSpec) answer {
	a.t.Helper()
	return a.try(order{Op: "join", Spec: s})
}

// kill sends SIGKILL and does not wait.
func (a *agent) kill() {
	a.t.Helper()
	if err := syscall.Kill(a.pid, syscall.SIGKILL); err != nil {
		a.t.Fatal(err)
	}
}

// killWait kills and waits for the end.
func (a *agent) killWait() {
	a.t.Helper()
	a.kill()
	if killed, output, err := a.cmd.Wait(); !killed {
		a.t.Fatalf("not killed: %v\n%s", err, output)
	}
}

// rank is the world of a rank of a job on this machine.
func rank(i, n int) Ranks { return Ranks{Rank: i, Ranks: n, LocalRank: i, LocalRanks: n} }

// all sends one order to several and returns their answers.
func all(list []*agent, o func(i int) order) []answer {
	for i, a := range list {
		a.send(o(i))
	}
	got := make([]answer, len(list))
	for i, a := range list {
		got[i] = a.receive()
	}
	return got
}

// descriptors counts what this process has open.
func descriptors() (int, error) {
	names, err := os.ReadDir("/proc/self/fd")
	return len(names) - 1, err // one is the listing's
}

// countUnderLock adds 1 to a number in shared memory, without atomics, under a mutex.
func countUnderLock(ctx context.Context, n *Namespace, name string, goroutines, times int) error {
	r, err := n.Region(name, 8)
	if err != nil {
		return err
	}
	b := r
	errs := make(chan error)
	for range goroutines {
		go func() {
			errs <- func() error {
				m, err := n.Mutex(name)
				if err != nil {
					return err
				}
				for range times {
					unlock, err := m.Lock(ctx)
					if err != nil {
						return err
					}
					// Byte by byte, as something that takes long.
					var v int64
					for i := range 8 {
						v |= int64(b[i]) << (8 * i)
					}
					v++
					for i := range 8 {
						b[i] = byte(v >> (8 * i))
					}
					if err := unlock(); err != nil {
						return err
					}
				}
				return nil
			}()
		}()
	}
	for range goroutines {
		err = errors.Join(err, <-errs)
	}
	return err
}

// warnTo returns a logger that passes the error of each warning to f.
func warnTo(f func(error)) *slog.Logger { return slog.New(warnHandler{f}) }

type warnHandler struct{ f func(error) }

func (h warnHandler) Enabled(context.Context, slog.Level) bool { return true }
func (h warnHandler) WithAttrs([]slog.Attr) slog.Handler       { return h }
func (h warnHandler) WithGroup(string) slog.Handler            { return h }

func (h warnHandler) Handle(_ context.Context, r slog.Record) error {
	r.Attrs(func(a slog.Attr) bool {
		h.f(a.Value.Any().(error))
		return true
	})
	return nil
}
