//go:build linux

package index

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"leat/internal/proctest"
)

// arena is a directory in which processes play, with who stops them all at some instruction to see
// whether everything is as it must be.
type arena struct {
	t    *testing.T
	dir  string
	f    directory
	mu   sync.Mutex // of those that can be stopped
	live map[int]int
	said []string
}

func newArena(t *testing.T) *arena {
	a := &arena{t: t, dir: inMemory(t), live: map[int]int{}}
	a.f = directory(filepath.Join(a.dir, "bytes"))
	must(t, os.Mkdir(string(a.f), 0o700))
	return a
}

// run has player number n play until it ends, and reports whether it was killed. ready, if not nil,
// is called once it plays.
func (a *arena) run(n int, c *proctest.Command, ready func()) (killed bool) {
	pid := filepath.Join(a.dir, "pid."+strconv.Itoa(n))
	permit := filepath.Join(a.dir, "go."+strconv.Itoa(n))
	_, _ = os.Remove(pid), os.Remove(permit)
	c.Start(a.t)
	var hung atomic.Bool
	watch := time.AfterFunc(2*time.Minute, func() {
		hung.Store(true)
		a.mu.Lock()
		defer a.mu.Unlock()
		if fd, ok := a.live[n]; ok {
			_ = unix.PidfdSendSignal(fd, unix.SIGQUIT, nil, 0) // it says where it is
		}
	})
	for !exists(pid) {
		time.Sleep(time.Millisecond)
	}
	number, err := os.ReadFile(pid)
	p, err1 := strconv.Atoi(string(number))
	if err := errors.Join(err, err1); err != nil {
		a.t.Error(err)
	}
	if fd, err := unix.PidfdOpen(p, 0); err == nil {
		a.mu.Lock()
		a.live[n] = fd
		a.mu.Unlock()
	} else {
		a.t.Error(err)
	}
	if err := os.WriteFile(permit, nil, 0o600); err != nil {
		a.t.Error(err)
	}
	if ready != nil {
		ready()
	}
	killed, out, err := c.Wait()
	watch.Stop()
	a.mu.Lock()
	defer a.mu.Unlock()
	if fd, ok := a.live[n]; ok {
		unix.Close(fd)
		delete(a.live, n)
	}
	switch {
	case hung.Load():
		a.t.Errorf("player %d did not come to an end\n%s", n, out)
	case !killed && err != nil:
		a.t.Errorf("player %d: %v\n%s", n, err, out)
	case !killed:
		a.said = append(a.said, strings.TrimSpace(out))
	}
	return killed
}

// look stops all players wherever they are, and checks what must be so at any instruction.
func (a *arena) look() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, fd := range a.live {
		_ = unix.PidfdSendSignal(fd, unix.SIGSTOP, nil, 0)
	}
	defer func() {
		for _, fd := range a.live {
			_ = unix.PidfdSendSignal(fd, unix.SIGCONT, nil, 0)
		}
	}()
	for _, fd := range a.live { // until all of its threads have stopped, or it has ended
		if err := unix.Waitid(unix.P_PIDFD, fd, nil, unix.WSTOPPED|unix.WEXITED|unix.WNOWAIT,
			nil); err != nil && !errors.Is(err, unix.ECHILD) {
			return fmt.Errorf("waiting for a player to stop: %w", err)
		}
	}
	bytes, files, err := a.f.sums()
	if err != nil {
		return err
	}
	b, err := os.ReadFile(filepath.Join(a.dir, "stage", "index"))
	if err != nil || len(b) < recordsAt {
		return nil // not yet
	}
	h := at[header](b, 0)
	if string(h.magic[:]) != magic {
		return nil
	}
	counted, countedFiles := h.bytes.Load(), h.files.Load()
	switch {
	case counted < bytes || countedFiles < files:
		err = fmt.Errorf("%d bytes and %d files are counted, there are %d and %d", counted, countedFiles, bytes, files)
	case counted > gameLimits.Bytes || countedFiles > gameLimits.Files:
		err = fmt.Errorf("%d bytes and %d files are beyond the limits %+v", counted, countedFiles, gameLimits)
	}
	for i := uint32(1); i < h.next.Load(); i++ {
		r := (*record)(unsafe.Pointer(&b[recordsAt+int(i)*recordSize]))
		if byte(r.seq.Load()) == stateValid {
			err = errors.Join(err, a.f.check(Object{Key: r.key, Version: r.version, Place: r.place}))
		}
	}
	return err
}

// monitor looks until done is closed, and counts how often it did.
func (a *arena) monitor(done <-chan struct{}, looks *atomic.Int64) {
	for {
		select {
		case <-done:
			return
		case <-time.After(time.Duration(1+rand.IntN(10)) * time.Millisecond):
		}
		if err := a.look(); err != nil {
			a.t.Errorf("at look %d: %v", looks.Load(), err)
			return
		}
		looks.Add(1)
	}
}

func (a *arena) stop()  { must(a.t, os.WriteFile(filepath.Join(a.dir, "stop"), nil, 0o600)) }
func (a *arena) again() { _ = os.Remove(filepath.Join(a.dir, "stop")) }

// wantExact opens the directory alone: the index must be whole, and say exactly what is in the
// directory.
func (a *arena) wantExact() {
	a.t.Helper()
	g, err := joinGame(a.dir)
	must(a.t, err)
	defer func() { must(a.t, g.leave()) }()
	all, err := audit(g.l)
	if err != nil {
		a.t.Error(err)
	}
	for _, o := range all {
		if _, err := os.Stat(a.f.path(o.Place)); err != nil {
			a.t.Errorf("in the index: %v", err)
		}
	}
	bytes, files, err := a.f.sums()
	must(a.t, err)
	if b, f := g.l.Taken(); b != bytes || f != files || int64(len(all)) != files {
		a.t.Errorf("%d bytes and %d files are counted, there are %d and %d", b, f, bytes, files)
	}
	if names, err := g.l.procs.Names(); len(names) != 1 || err != nil {
		a.t.Errorf("processes: %q, %v", names, err)
	}
}

func TestRandomProcesses(t *testing.T) {
	a := newArena(t)
	players, length := 4, 2*time.Second
	if testing.Short() {
		players, length = 3, time.Second/2
	}
	done := make(chan struct{})
	var wg, monitor sync.WaitGroup
	for n := range players {
		wg.Go(func() {
			if a.run(n, proctest.New("player", a.dir, strconv.Itoa(n), strconv.FormatUint(rand.Uint64(), 10)), nil) {
				t.Errorf("player %d was killed", n)
			}
		})
	}
	var looks atomic.Int64
	monitor.Go(func() { a.monitor(done, &looks) })
	time.Sleep(length)
	// on a machine that does much else
	for end := time.Now().Add(time.Minute); looks.Load() < 5 && time.Now().Before(end) && !t.Failed(); {
		time.Sleep(time.Millisecond)
	}
	a.stop()
	wg.Wait()
	close(done)
	monitor.Wait()
	if looks.Load() < 5 {
		t.Errorf("only %d looks", looks.Load())
	}
	g := ok(joinGame(a.dir))(t)
	if g.l.h.unclean.Load() != 0 { // nobody died: the index is right without a check
		t.Error("a check was needed")
	}
	must(t, g.leave())
	a.wantExact()
	t.Logf("%d looks; %q", looks.Load(), a.said)
}
