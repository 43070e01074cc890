//go:build linux

package shm

import (
	"errors"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"leat/internal/fault"
	"leat/internal/fdio"
	"leat/internal/procfile"
	"leat/ndarray"
)

// A second descriptor of the same open file is what a child has until its exec.
func TestRecyclingUnlocksDespiteChildren(t *testing.T) {
	s := newSharer(t, &Options{Place: Memfd})
	seg := must(s.Put(numbers(200<<10, 1)))(t).obj.seg
	lock, ok, err := seg.exclude()
	check(t, err)
	if !ok {
		t.Fatal("there is a reader")
	}
	child := must(unix.Dup(lock))(t)
	defer unix.Close(child)
	reader := must(procfile.Reopen(seg.fd, unix.O_RDONLY))(t)
	defer unix.Close(reader)
	if err := fdio.Flock(reader, unix.LOCK_SH|unix.LOCK_NB); !errors.Is(err, unix.EWOULDBLOCK) {
		t.Fatalf("a reader gets in: %v", err)
	}
	check(t, unlock(lock))
	check(t, fdio.Flock(reader, unix.LOCK_SH|unix.LOCK_NB))
}

func TestAttachWaitsForLock(t *testing.T) {
	s := newSharer(t, &Options{Place: Memfd})
	a := must(s.Put(numbers(200<<10, 1)))(t)
	h := must(a.Handle())(t)
	exclude := func() int {
		lock, ok, err := a.obj.seg.exclude()
		if err != nil || !ok {
			t.Fatal(ok, err)
		}
		return lock
	}
	lock := exclude()
	whileWaiting(t, func() error { return unlock(lock) })
	other := must(Open(nil))(t)
	b, err := other.Attach(h, ReadOnly)
	check(t, err)
	if b.digest() != a.digest() {
		t.Error("it arrived wrong")
	}
	check(t, other.Close())
	// For good, it is another's by now.
	lock = exclude()
	if _, err := newSharer(t, nil).Attach(h, ReadOnly); !errors.Is(err, ErrStale) {
		t.Error(err)
	}
	check(t, unlock(lock))
}

func TestSealWaitsForLeavingWriter(t *testing.T) {
	inMemoryAndNamed(t, func(t *testing.T, s *Pool) {
		a := must(s.New(ndarray.Uint8, 100_000))(t)
		path, _, err := a.File()
		check(t, err)
		f := must(os.OpenFile(path, os.O_RDWR, 0))(t)
		defer f.Close()
		if ok, err := lockByte(int(f.Fd()), unix.F_RDLCK); err != nil || !ok {
			t.Fatal(ok, err)
		}
		if err := a.Seal(); !errors.Is(err, ErrWriters) {
			t.Fatalf("sealed under a writer: %v", err)
		}
		whileWaiting(t, f.Close)
		check(t, a.Seal())
	})
}

// whileWaiting calls f when an operation waits for a lock for the second time.
func whileWaiting(t *testing.T, f func() error) {
	passes := 0
	fault.Set(func(point string) error {
		if point == "shm.waiting" {
			if passes++; passes == 2 {
				check(t, f())
			}
		}
		return nil
	})
	t.Cleanup(func() { fault.Set(nil) })
}
