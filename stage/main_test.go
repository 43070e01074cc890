//go:build linux

package stage

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"leat/internal/procfile"
	"leat/internal/proctest"
	"leat/objstore"
)

func TestMain(m *testing.M) {
	proctest.Main(children)
	goleak.VerifyTestMain(m)
}

// The words of proctest.
var must, wantErr, inMemory = proctest.Must, proctest.WantErr, proctest.MemoryDir

func ok[T any](v T, err error) func(t testing.TB) T { return proctest.OK(v, err) }

// quick are options for tests: pauses between attempts are short, and how full the machine's disk
// is plays no part.
func quick(o Options) *Options {
	if o.MinFree == 0 {
		o.MinFree = -1
	}
	if o.Retry.MaxAttempts == 0 && o.Retry.Timeout == 0 {
		o.Retry.MaxAttempts = 5
	}
	if o.Retry.MinPause == 0 {
		o.Retry.MinPause = time.Millisecond
	}
	return &o
}

// pool opens a pool that is closed when the test ends.
func pool(t testing.TB, dir string, o Options) *Pool {
	t.Helper()
	p := ok(Open(context.Background(), dir, quick(o)))(t)
	t.Cleanup(func() { must(t, p.Close()) })
	return p
}

// soon waits until something is so. It fails the test when it has taken too long.
func soon(t testing.TB, what string, is func() bool) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for pause := 50 * time.Microsecond; !is(); pause = min(2*pause, 5*time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not after a minute\n%s", what, goroutines())
		}
		time.Sleep(pause)
	}
}

func goroutines() string {
	b := make([]byte, 1<<20)
	return string(b[:runtime.Stack(b, true)])
}

// within is a context for what must not hang.
func within(t testing.TB, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// stateOf is where a Ref's object is on its way.
func stateOf(l *Ref) state {
	p := l.it.p
	p.mu.Lock()
	defer p.mu.Unlock()
	return l.it.state
}

func become(t testing.TB, l *Ref, s state) {
	t.Helper()
	soon(t, fmt.Sprintf("%s becoming %s", l.it.name, stateNames[s]), func() bool { return stateOf(l) == s })
}

var stateNames = map[state]string{idle: "idle", queued: "queued", running: "running", waitingForSpace: "parked",
	copiedElsewhere: "away", staged: "staged", directRead: "read through", failed: "failed"}

// wantBytes compares what a Ref gives with the content of a version.
func wantBytes(t testing.TB, l *Ref, s *source, version int) {
	t.Helper()
	b, err := l.Bytes(within(t, time.Minute))
	if err != nil {
		t.Fatalf("%s: %v", l.it.name, err)
	}
	name := l.it.name
	if want := content(name, version, s.get(name).size); !bytes.Equal(b, want) {
		t.Fatalf("%s: %d bytes that are not the %d of version %d", name, len(b), len(want), version)
	}
}

// got is the bytes of a new Ref that is released at once.
func got(t testing.TB, p *Pool, s Source, name string) []byte {
	t.Helper()
	l := p.Prefetch(s, name)
	defer l.Release()
	b, err := l.Bytes(within(t, time.Minute))
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return b
}

// onDisk is what the objects in a stage's directory take there, whichever names they have.
func onDisk(dir string) (bytes int64, files int, err error) {
	for _, sub := range []string{"segments", "objects"} {
		err := filepath.WalkDir(filepath.Join(dir, "stage", sub), func(path string, e fs.DirEntry, err error) error {
			if errors.Is(err, fs.ErrNotExist) {
				return nil // removed meanwhile
			}
			if err != nil || e.IsDir() || e.Name() == ".leat" {
				return err
			}
			var st unix.Stat_t
			if err := unix.Lstat(path, &st); err != nil {
				if errors.Is(err, unix.ENOENT) {
					return nil
				}
				return err
			}
			bytes += st.Blocks * 512
			files++
			return nil
		})
		if err != nil {
			return 0, 0, err
		}
	}
	return bytes, files, nil
}

// wantDisk checks that a directory takes exactly what the index of the pool says.
func wantDisk(t testing.TB, p *Pool) Usage {
	t.Helper()
	u := ok(p.Usage())(t)
	n, files, err := onDisk(filepath.Dir(u.Dir))
	must(t, err)
	if n != u.Bytes {
		t.Errorf("%d bytes in %d files are on the disk, the index has %d bytes of %d objects", n, files, u.Bytes,
			u.Objects)
	}
	return u
}

// watchdog ends the test binary with all goroutines when a test takes too long.
func watchdog(t testing.TB, d time.Duration) {
	timer := time.AfterFunc(d, func() { panic(t.Name() + " hangs:\n" + goroutines()) })
	t.Cleanup(func() { timer.Stop() })
}

// temporary is an error after which another attempt is made.
type temporary struct{ n int }

func (e temporary) Error() string   { return fmt.Sprintf("failure %d on purpose", e.n) }
func (e temporary) Temporary() bool { return true }

// final is one after which none is.
var errFinal = &objstore.Error{Op: "reading", URL: "test://x", Status: 403, Err: fs.ErrPermission}

func lines(s string) []string { return strings.Split(strings.TrimSpace(s), "\n") }

// raced reports whether the race detector is part of this binary.
func raced() bool {
	info, known := debug.ReadBuildInfo()
	return known && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"})
}

// anotherBoot has a directory look as if it was left by the machine before it was started anew.
// Nobody has it open.
func anotherBoot(t testing.TB, dir string) {
	t.Helper()
	path := filepath.Join(dir, "stage", "index")
	b := ok(os.ReadFile(path))(t)
	id := ok(procfile.BootID())(t)
	k := bytes.Index(b[:4096], id[:])
	if k < 0 {
		t.Fatal("the index does not name the machine's start")
	}
	damage(t, path, int64(k))
}

// damage changes a byte of a file.
func damage(t testing.TB, path string, at int64) {
	t.Helper()
	f := ok(os.OpenFile(path, os.O_RDWR, 0))(t)
	defer f.Close()
	b := make([]byte, 1)
	_ = ok(f.ReadAt(b, at))(t)
	b[0] ^= 1
	_ = ok(f.WriteAt(b, at))(t)
}

// warnings counts what is logged.
type warnings struct{ n atomic.Int64 }

func (w *warnings) logger() *slog.Logger { return slog.New(slog.NewTextHandler(w, nil)) }

func (w *warnings) Write(b []byte) (int, error) {
	w.n.Add(1)
	return len(b), nil
}
