//go:build linux

package index

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"leat/internal/fault"
	"leat/internal/lockfile"
	"leat/internal/proctest"
)

// stopper opens a directory, and at a point of that prints its id and does what its second argument
// says: "stop" has it stopped, "wait" waits for a file called go.
func stopper(args []string) error {
	dir, how := args[0], args[1]
	fault.Set(func(point string) error {
		if point != "index.gate" {
			return nil
		}
		if err := os.WriteFile(filepath.Join(dir, "new"), []byte(strconv.Itoa(os.Getpid())), 0o600); err != nil {
			return err
		}
		if err := os.Rename(filepath.Join(dir, "new"), filepath.Join(dir, "inside")); err != nil {
			return err
		}
		if how == "stop" {
			// A signal to the process may stop another thread first, and this one would pass the
			// gate.
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			return unix.Tgkill(os.Getpid(), unix.Gettid(), unix.SIGSTOP)
		}
		for {
			if _, err := os.Stat(filepath.Join(dir, "go")); err == nil {
				return nil
			}
			time.Sleep(time.Millisecond)
		}
	})
	g, err := joinGame(dir)
	if err != nil {
		return err
	}
	return g.leave()
}

func startStopper(t *testing.T, how string) (dir string, pid int, c *proctest.Command) {
	t.Helper()
	dir = inMemory(t)
	must(t, os.Mkdir(filepath.Join(dir, "bytes"), 0o700))
	c = proctest.New("stopper", dir, how).Start(t)
	deadline := time.Now().Add(time.Minute)
	for {
		if b, err := os.ReadFile(filepath.Join(dir, "inside")); err == nil {
			return dir, ok(strconv.Atoi(string(b)))(t), c
		}
		if time.Now().After(deadline) {
			t.Fatal("the child does not get there")
		}
		time.Sleep(time.Millisecond)
	}
}

// openBlocked opens a directory at whose gate another process is.
func openBlocked(t *testing.T, ctx context.Context, dir string) error {
	t.Helper()
	d := ok(lockfile.OpenRoot(filepath.Join(dir, "stage"), ""))(t)
	defer d.Close()
	s := newStore()
	l, err := Open(ctx, d, s.free, s.keep, s.tidy)
	if err == nil {
		err = errors.Join(errors.New("opened"), l.Close())
	}
	return err
}

func TestOpenContext(t *testing.T) {
	dir, _, c := startStopper(t, "wait")
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- openBlocked(t, ctx, dir) }()
	select {
	case err := <-ended:
		t.Fatalf("not waited for: %v", err)
	case <-time.After(50 * time.Millisecond):
	}
	cancel()
	select {
	case err := <-ended:
		wantErr(t, err, context.Canceled)
	case <-time.After(time.Minute):
		t.Fatal("it waits on")
	}
	must(t, os.WriteFile(filepath.Join(dir, "go"), nil, 0o600))
	if _, out, err := c.Wait(); err != nil {
		t.Error(err, out)
	}
	b := openIn(t, filepath.Join(dir, "stage"), newStore())
	b.add(t, 1)
}

func TestOpenNamesLockHolder(t *testing.T) {
	oldLock, oldGate := lockTimeout, gateTimeout
	defer func() { lockTimeout, gateTimeout = oldLock, oldGate }()
	t.Run("a stopped process", func(t *testing.T) {
		lockTimeout, gateTimeout = 50*time.Millisecond, time.Hour
		dir, pid, c := startStopper(t, "stop")
		err := openBlocked(t, t.Context(), dir)
		wantErr(t, err, ErrStopped)
		if holder := new(HolderError); !errors.As(err, &holder) || holder.PID != pid {
			t.Errorf("%v, which should name process %d", err, pid)
		}
		must(t, unix.Kill(pid, unix.SIGCONT))
		if _, out, err := c.Wait(); err != nil {
			t.Error(err, out)
		}
	})
	t.Run("one that runs, after longer", func(t *testing.T) {
		lockTimeout, gateTimeout = 10*time.Millisecond, 200*time.Millisecond
		dir, pid, c := startStopper(t, "wait")
		err := openBlocked(t, t.Context(), dir)
		wantErr(t, err, ErrBusy)
		if holder := new(HolderError); !errors.As(err, &holder) || holder.PID != pid {
			t.Errorf("%v, which should name process %d", err, pid)
		}
		must(t, os.WriteFile(filepath.Join(dir, "go"), nil, 0o600))
		if _, out, err := c.Wait(); err != nil {
			t.Error(err, out)
		}
	})
}

func TestInterruptedRebuild(t *testing.T) {
	b := open(t)
	b.add(t, 1, 2, 3)
	b.unclean()
	b.close(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	d := ok(lockfile.OpenRoot(b.path, ""))(t)
	defer d.Close()
	tidied := b.s.tidy1
	if l, err := Open(ctx, d, b.s.free, b.s.keep, b.s.tidy); !errors.Is(err, context.Canceled) {
		t.Fatal(l, err)
	}
	b = openIn(t, b.path, b.s)
	wantHas(t, b, []int{1, 2, 3}, []int{1, 2, 3})
	if b.s.tidy1 != tidied+1 {
		t.Errorf("checked %d times", b.s.tidy1-tidied)
	}
	wantIndex(t, b)
}
