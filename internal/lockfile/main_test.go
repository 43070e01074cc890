//go:build unix

package lockfile

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"leat/internal/fault"
	"leat/internal/proctest"
)

func TestMain(m *testing.M) {
	children := map[string]proctest.Func{
		"crash": crash, "holder": holder, "leaver": leaver, "foreign": foreign, "umask": underUmask,
		"stress": stressChild, "ranges": rangesHolder, "hammer": rangesHammer,
	}
	proctest.Main(children)
	goleak.VerifyTestMain(m)
}

// ways are the two ways in which Publish makes files: children get them as an argument, see
// [setWay].
var ways = []string{"unnamed", "hidden"}

// setWay has Publish do as on a file system that has no unnamed files.
func setWay(way string, next func(point string)) {
	fault.Set(func(point string) error {
		if way == "hidden" && point == "tempfile.no O_TMPFILE" {
			return errors.New("not here")
		}
		next(point)
		return nil
	})
}

// bothWays runs a test with unnamed files, where they are, and without.
func bothWays(t *testing.T, f func(t *testing.T)) {
	for _, way := range ways {
		t.Run(way, func(t *testing.T) {
			setWay(way, func(string) {})
			t.Cleanup(func() { fault.Set(nil) })
			f(t)
		})
	}
}

// openTest opens a fresh directory, in memory where the machine has such a file system.
func openTest(t testing.TB) *Dir {
	t.Helper()
	return openAgain(t, filepath.Join(fastTemp(t), "leat"))
}

func openAgain(t testing.TB, path string) *Dir {
	t.Helper()
	d := ok(OpenRoot(path, "LEAT_RUNTIME_DIR"))(t)
	t.Cleanup(func() { must(t, d.Close()) })
	return d
}

// fastTemp is t.TempDir on /dev/shm, where that is.
func fastTemp(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "leat-lease-test-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { must(t, os.RemoveAll(dir)) })
	return dir
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// ok returns a function that fails the test where there is an error, and the value otherwise.
func ok[T any](v T, err error) func(t testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		must(t, err)
		return v
	}
}

func wantErr(t testing.TB, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("the error is %v, not %v", err, want)
	}
}

func needRoot(t testing.TB) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root can make things that belong to others")
	}
}

// LockExclusive locks a file for one user.
func (d *Dir) LockExclusive(name string) (*Lock, error) {
	return d.lock(name, unix.O_RDWR, unix.LOCK_EX)
}

// ID identifies a file, whatever its names.
type ID struct{ Dev, Ino uint64 }

func idOf(st *unix.Stat_t) ID { return ID{uint64(st.Dev), st.Ino} }

// ID returns the identity of a locked file.
func (l *Lock) ID() ID {
	var st unix.Stat_t
	if err := unix.Fstat(l.fd, &st); err != nil {
		panic(err)
	}
	return idOf(&st)
}

// text fills a file.
func text(s string) func(fd int) error {
	b := []byte(s)
	return func(fd int) error {
		n, err := unix.Write(fd, b)
		if err == nil && n != len(b) {
			err = fmt.Errorf("%d bytes written, not %d", n, len(s))
		}
		return err
	}
}

// leave makes a file that nobody holds.
func leave(t testing.TB, d *Dir, name, content string) {
	t.Helper()
	must(t, ok(d.Publish(name, 0o600, text(content)))(t).Release())
}

// content reads a file by its name.
func content(t testing.TB, d *Dir, name string) string {
	t.Helper()
	return string(ok(os.ReadFile(d.FilePath(name)))(t))
}

func names(t testing.TB, d *Dir) []string {
	t.Helper()
	return ok(d.Names())(t)
}

func sweep(t testing.TB, d *Dir, name string) bool {
	t.Helper()
	return ok(d.Sweep(name))(t)
}

// await polls for something that another process does.
func await(t testing.TB, what string, f func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !f(); runtime.Gosched() {
		if time.Now().After(end) {
			t.Fatalf("in a minute, never: %s", what)
		}
	}
}

func exists(path string) bool { return unix.Access(path, unix.F_OK) == nil }

// mark shows the parent that the child came here.
func mark(path string) error { return os.WriteFile(path, nil, 0o600) }

// awaitKilled waits for a child that was killed or has killed itself.
func awaitKilled(t testing.TB, c *proctest.Command) {
	t.Helper()
	if killed, out, err := c.Wait(); !killed {
		t.Fatalf("the child was not killed: %v\n%s", err, out)
	}
}

// awaitEnd waits for a child that ends well, and returns what it printed.
func awaitEnd(t testing.TB, c *proctest.Command) string {
	t.Helper()
	_, out, err := c.Wait()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return out
}
