package procfile

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func create(t *testing.T, text string) *os.File {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	must(t, os.WriteFile(path, []byte(text), 0o600))
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	must(t, err)
	t.Cleanup(func() { f.Close() })
	return f
}

// lend starts a process that has a file open as descriptor 3.
func lend(t *testing.T, f *os.File) *exec.Cmd {
	t.Helper()
	cmd := exec.Command("sleep", "60")
	cmd.ExtraFiles = []*os.File{f}
	must(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	return cmd
}

func TestOpenUnnamedFileOfAnotherProcess(t *testing.T) {
	f := create(t, "content")
	must(t, os.Remove(f.Name()))
	cmd := lend(t, f)
	p, err := OpenFD(cmd.Process.Pid, 3)
	must(t, err)
	if !strings.HasPrefix(p.Name, f.Name()) || p.Stat.Size != 7 {
		t.Errorf("it is %q of %d bytes", p.Name, p.Stat.Size)
	}
	fd, err := p.Open(unix.O_RDWR)
	must(t, err)
	must(t, p.Close())
	var b [7]byte
	if n, err := unix.Pread(fd, b[:], 0); err != nil || string(b[:n]) != "content" {
		t.Errorf("%q, %v", b[:n], err)
	}
	must(t, unix.Close(fd))
}

func TestReopenedFileHasItsOwnLocks(t *testing.T) {
	f := create(t, "")
	fd, err := Reopen(int(f.Fd()), unix.O_RDWR)
	must(t, err)
	defer unix.Close(fd)
	must(t, unix.Flock(fd, unix.LOCK_EX))
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); !errors.Is(err, unix.EWOULDBLOCK) {
		t.Errorf("the lock is shared: %v", err)
	}
	if _, err := Reopen(1<<20, unix.O_RDONLY); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a descriptor that is not open: %v", err)
	}
}

func TestErrGone(t *testing.T) {
	f := create(t, "")
	cmd := lend(t, f)
	pid := cmd.Process.Pid
	must(t, cmd.Process.Kill())
	_ = cmd.Wait()
	for _, test := range []struct{ pid, fd int }{{pid, 3}, {os.Getpid(), 1 << 20}, {0, 0}, {-1, 3}, {1, -1},
		{1<<31 - 1, 0}} {
		if _, err := OpenFD(test.pid, test.fd); !errors.Is(err, ErrGone) {
			t.Errorf("descriptor %d of process %d: %v", test.fd, test.pid, err)
		}
	}
}

func TestOnlyRegularFilesAreOpened(t *testing.T) {
	dir := t.TempDir()
	must(t, unix.Mkfifo(filepath.Join(dir, "fifo"), 0o600))
	fifo, err := unix.Open(filepath.Join(dir, "fifo"), unix.O_RDWR|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	must(t, err)
	defer unix.Close(fifo)
	directory, err := unix.Open(dir, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	must(t, err)
	defer unix.Close(directory)
	null, err := unix.Open("/dev/null", unix.O_RDWR|unix.O_CLOEXEC, 0)
	must(t, err)
	defer unix.Close(null)
	for what, fd := range map[string]int{"a pipe": fifo, "a directory": directory, "a device": null} {
		begun := time.Now()
		if _, err := OpenFD(os.Getpid(), fd); !errors.Is(err, ErrGone) {
			t.Errorf("%s: %v", what, err)
		}
		if took := time.Since(begun); took > 20*time.Second {
			t.Errorf("%s: took %v", what, took)
		}
	}
}

func TestErrForeign(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can make things that belong to others")
	}
	f := create(t, "")
	must(t, os.Chown(f.Name(), 12345, 12345))
	if _, err := OpenFD(os.Getpid(), int(f.Fd())); !errors.Is(err, ErrForeign) {
		t.Errorf("%v", err)
	}
}

func TestBootIDIsConstant(t *testing.T) {
	a, err := BootID()
	must(t, err)
	b, err := BootID()
	must(t, err)
	if a != b || a == [16]byte{} {
		t.Errorf("%x, %x", a, b)
	}
}
