package fdio

import (
	"bytes"
	"errors"
	"math"
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

func create(t *testing.T) *os.File {
	t.Helper()
	f, err := os.Create(t.TempDir() + "/file")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestReadFullStopsAtTheEnd(t *testing.T) {
	fd := int(create(t).Fd())
	check(t, WriteFull(fd, []byte("0123456789"), 3))
	b := make([]byte, 20)
	for _, want := range []struct{ at, n int64 }{{0, 13}, {10, 3}, {13, 0}, {100, 0}} {
		if n, err := ReadFull(fd, b, want.at); int64(n) != want.n || err != nil {
			t.Errorf("%d bytes from %d: %v", n, want.at, err)
		}
	}
	if n, err := ReadFull(fd, b[:4], 3); n != 4 || err != nil || string(b[:4]) != "0123" {
		t.Errorf("%q, %v", b[:n], err)
	}
	if _, err := ReadFull(-1, b, 0); !errors.Is(err, unix.EBADF) {
		t.Error(err)
	}
	if err := WriteFull(-1, b, 0); !errors.Is(err, unix.EBADF) {
		t.Error(err)
	}
}

func TestReserveFillsWithZeros(t *testing.T) {
	const size = 1<<20 + 12345
	for name, reserve := range map[string]func(fd int) error{
		"fallocate": func(fd int) error { return Reserve(fd, 0, size) },
		"write":     func(fd int) error { return WriteZeros(fd, 0, size) },
	} {
		f := create(t)
		check(t, reserve(int(f.Fd())))
		b, err := os.ReadFile(f.Name())
		check(t, err)
		if !bytes.Equal(b, make([]byte, size)) {
			t.Errorf("%s: %d bytes, or not zeros", name, len(b))
		}
	}
}

func TestLocksBelongToOpenFiles(t *testing.T) {
	f := create(t)
	a := int(f.Fd())
	b, err := Open(unix.AT_FDCWD, f.Name(), unix.O_RDWR, 0)
	check(t, err)
	defer unix.Close(b)
	for _, c := range []struct {
		fd    int
		kind  int16
		at, n int64
		want  bool
	}{
		{a, unix.F_WRLCK, 10, 10, true},
		{a, unix.F_RDLCK, 12, 1, true}, // its own
		{b, unix.F_WRLCK, 12, 1, false},
		{b, unix.F_RDLCK, 12, 1, true},
		{b, unix.F_RDLCK, 11, 1, false},
		{b, unix.F_WRLCK, 20, 1, true},
		{a, unix.F_UNLCK, 0, 0, true},
		{b, unix.F_WRLCK, 0, 20, true},
	} {
		if got, err := Lock(c.fd, c.kind, c.at, c.n); got != c.want || err != nil {
			t.Errorf("%+v: %v, %v", c, got, err)
		}
	}
	for at, want := range map[int64]bool{0: true, 20: true, 21: false} {
		if held, err := Locked(a, at, 1); held != want || err != nil {
			t.Errorf("lock on %d: %v, %v", at, held, err)
		}
	}
	if held, err := Locked(b, 0, math.MaxInt64); held || err != nil {
		t.Errorf("own locks: %v, %v", held, err)
	}
}

func TestFreeSpaceOfFileSystems(t *testing.T) {
	if free, err := FreeSpace(int(create(t).Fd())); err != nil || free < 1<<20 {
		t.Errorf("%d bytes are free, %v", free, err)
	}
	proc, err := os.Open("/proc")
	check(t, err)
	defer proc.Close()
	if free, err := FreeSpace(int(proc.Fd())); err != nil || free != math.MaxInt64 { // of no size
		t.Errorf("/proc has %d bytes free, %v", free, err)
	}
}
