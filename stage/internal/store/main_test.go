//go:build linux

package store

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"leat/internal/fault"
	"leat/internal/lockfile"
	"leat/internal/proctest"
)

func TestMain(m *testing.M) {
	proctest.Main(children)
	goleak.VerifyTestMain(m)
}

// The words of proctest.
var must, wantErr, inMemory = proctest.Must, proctest.WantErr, proctest.MemoryDir

func ok[T any](v T, err error) func(t testing.TB) T { return proctest.OK(v, err) }

// ways are the file systems that are played: one with all that is needed, one without unnamed
// files, one without holes, one with neither.
var ways = []string{"", "no O_TMPFILE", "no punch", "no O_TMPFILE, no punch"}

// setWay has a file system's abilities fail, and next called at all points.
func setWay(way string, next func(point string) error) {
	fault.Set(func(point string) error {
		switch point {
		case "stage.no O_TMPFILE", "lockfile.no O_TMPFILE":
			if strings.Contains(way, "no O_TMPFILE") {
				return errTest
			}
		case "stage.no punch":
			if strings.Contains(way, "no punch") {
				return errTest
			}
		}
		return next(point)
	})
}

// inAllWays runs a test on each kind of file system.
func inAllWays(t *testing.T, f func(t *testing.T, way string)) {
	for _, way := range ways {
		t.Run("a file system with "+way, func(t *testing.T) {
			inWay(t, way)
			f(t, way)
		})
	}
}

func inWay(t testing.TB, way string) {
	setWay(way, func(string) error { return nil })
	t.Cleanup(func() { fault.Set(nil) })
}

var errTest = errors.New("failed on purpose")

// failAt has one point fail.
func failAt(t testing.TB, point string, err error) {
	t.Helper()
	fault.Set(func(p string) error {
		if p == point {
			return err
		}
		return nil
	})
	t.Cleanup(func() { fault.Set(nil) })
}

var numbers atomic.Uint64

// open opens the store in a directory, with numbers of the test process.
func open(t testing.TB, dir string) *Store {
	t.Helper()
	s := ok(openAt(filepath.Join(dir, "stage"), func() (uint64, error) { return numbers.Add(1), nil }))(t)
	t.Cleanup(func() {
		if err := s.Close(); err != nil && !t.Failed() {
			t.Error(err)
		}
	})
	return s
}

func openAt(path string, next func() (uint64, error)) (*Store, error) {
	d, err := lockfile.OpenRoot(path, "")
	if err != nil {
		return nil, err
	}
	s, err := Open(d, next)
	return s, errors.Join(err, d.Close())
}

// object is the content of the object with that seed: blocks that differ from each other and from
// all of other seeds and sizes.
func object(seed uint64, size int64) []byte {
	b := make([]byte, size)
	r := rand.New(rand.NewPCG(seed, uint64(size)))
	for k := range min(len(b), Block) {
		b[k] = byte(r.Uint32())
	}
	for at := Block; at < len(b); at += Block {
		copy(b[at:], b[:Block])
		if len(b) >= at+8 {
			binary.LittleEndian.PutUint64(b[at:], r.Uint64())
		}
	}
	return b
}

// store writes an object in two pieces and commits it; the Writer stays open.
func store(s *Store, b []byte, ext string) (*Writer, error) {
	d, err := s.Create(int64(len(b)), ext)
	if err != nil {
		return nil, err
	}
	half := len(b) / 2
	_, err1 := d.WriteAt(b[half:], int64(half))
	_, err2 := d.WriteAt(b[:half], 0)
	if err = errors.Join(err1, err2); err == nil {
		err = d.Commit(int64(len(b)))
	}
	if err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return d, nil
}

// kept stores an object for good.
func kept(t testing.TB, s *Store, b []byte, ext string) Place {
	t.Helper()
	d := ok(store(s, b, ext))(t)
	must(t, d.Close())
	return d.Place()
}

// check compares an object with what it should be.
func check(s *Store, p Place, want []byte) error {
	got := make([]byte, len(want))
	if n, err := s.ReadAt(p, got, 0); err != nil || n != len(want) {
		return fmt.Errorf("object %+v: %d of %d bytes: %w", p, n, len(want), err)
	}
	if !bytes.Equal(got, want) {
		return fmt.Errorf("object %+v holds other bytes", p)
	}
	if p.Packed() {
		return nil
	}
	f, err := s.OpenFile(p)
	if err != nil {
		return err
	}
	defer f.Close()
	if got, err = io.ReadAll(f); err != nil || !bytes.Equal(got, want) {
		return fmt.Errorf("file %s: %d bytes, not the %d that were written: %w", f.Name(), len(got), len(want), err)
	}
	return nil
}

// files lists the store's files, hidden ones too, with the space that each takes.
func files(t testing.TB, s *Store) map[string]int64 {
	t.Helper()
	all := map[string]int64{}
	for _, dir := range []string{s.segments.Path(), s.objects.Path()} {
		must(t, filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
			if err != nil || e.IsDir() {
				return err
			}
			var st unix.Stat_t
			err = unix.Lstat(path, &st)
			all[path[len(filepath.Dir(dir))+1:]] = st.Blocks * 512
			return err
		}))
	}
	return all
}

// space is what the store takes on the disk.
func space(t testing.TB, s *Store) (bytes int64) {
	t.Helper()
	for _, n := range files(t, s) {
		bytes += n
	}
	return bytes
}

func wantNothing(t testing.TB, s *Store) {
	t.Helper()
	if left := files(t, s); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

// descriptorsOpen is how many files this process has open.
func descriptorsOpen(t testing.TB) int { return len(ok(os.ReadDir("/proc/self/fd"))(t)) }
