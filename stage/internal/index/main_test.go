//go:build linux

package index

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
	"unsafe"

	"github.com/google/go-cmp/cmp"
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

var errTest = errors.New("failed on purpose")

// failAt has one point fail while f runs.
func failAt(point string, f func()) {
	fault.Set(func(p string) error {
		if p == point {
			return errTest
		}
		return nil
	})
	defer fault.Set(nil)
	f()
}

// unit is what objects in tests take on the disk, or some of it.
const unit = 4096

// putEntry stands for what keeps the bytes of the objects, and knows which are there.
type putEntry struct {
	mu    sync.Mutex
	there map[uint64]Object
	freed []uint64
	fail  error // of free and tidy
	kept  int   // calls
	tidy1 int
}

func newStore() *putEntry { return &putEntry{there: map[uint64]Object{}} }

func (s *putEntry) put(o Object) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.there[o.Place.ID] = o
}

func (s *putEntry) free(p Place, charge int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fail != nil {
		return s.fail
	}
	delete(s.there, p.ID)
	s.freed = append(s.freed, p.ID)
	return nil
}

func (s *putEntry) keep(o Object) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.kept++
	is, ok := s.there[o.Place.ID]
	return ok && is.Key == o.Key && is.Version == o.Version && is.Charge == o.Charge
}

func (s *putEntry) tidy(all []Object) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tidy1++
	if s.fail != nil {
		return s.fail
	}
	used := map[uint64]bool{}
	for _, o := range all {
		used[o.Place.ID] = true
	}
	maps.DeleteFunc(s.there, func(id uint64, _ Object) bool { return !used[id] })
	return nil
}

func (s *putEntry) numbers() []uint64 { return slices.Sorted(maps.Keys(s.there)) }

// testIndex is an index with what it needs to be opened again.
type testIndex struct {
	*Index
	s    *putEntry
	path string
	d    *lockfile.Dir
}

// open opens the index of a fresh directory.
// open opens new index, whose places are numbered from 1 on.
func open(t testing.TB) *testIndex {
	b := openIn(t, filepath.Join(inMemory(t), "stage"), newStore())
	b.h.place.Store(0)
	return b
}

func openIn(t testing.TB, path string, s *putEntry) *testIndex {
	t.Helper()
	return ok(tryOpen(t, path, s))(t)
}

func tryOpen(t testing.TB, path string, s *putEntry) (*testIndex, error) {
	d := ok(lockfile.OpenRoot(path, ""))(t)
	l, err := Open(context.Background(), d, s.free, s.keep, s.tidy)
	b := &testIndex{l, s, path, d}
	if err != nil {
		must(t, d.Close())
		return nil, err
	}
	t.Cleanup(func() { b.close(t) })
	return b, nil
}

func (b *testIndex) close(t testing.TB) {
	t.Helper()
	must(t, b.Close())
	if b.d != nil {
		must(t, b.d.Close())
		b.d = nil
	}
}

// again closes the index and opens them alone.
func (b *testIndex) again(t testing.TB) *testIndex {
	t.Helper()
	b.close(t)
	return openIn(t, b.path, b.s)
}

// another opens the index once more, as another process would.
func (b *testIndex) another(t testing.TB) *testIndex { return openIn(t, b.path, b.s) }

// unclean has the next one who opens the directory alone check the index.
func (b *testIndex) unclean() { b.h.unclean.Store(1) }

func (b *testIndex) index() string { return filepath.Join(b.path, "index") }

// die ends the index as a SIGKILL would: the kernel takes the locks and the mappings, and nothing
// else happens.
func (b *testIndex) die(t testing.TB) {
	t.Helper()
	own := b.own
	b.own, b.Index.closed = nil, true
	must(t, own.hold.Release())
	must(t, unix.Munmap(own.data))
	must(t, b.release())
}

var limits = Limits{Bytes: 1 << 40, Files: 1 << 30}

func keyOf(n int) Key         { return Key(sum("key", n)) }
func versionOf(n int) Version { return Version(sum("version", n)) }

func sum(what string, n int) [16]byte {
	s := sha256.Sum256([]byte(what + strconv.Itoa(n)))
	return [16]byte(s[:])
}

// object is one of the key n.
func object(n, version int) Object {
	return Object{Key: keyOf(n), Version: versionOf(version), Size: int64(n), Charge: unit, CRC: uint32(n),
		Name: "s3://bucket/object " + strconv.Itoa(n)}
}

// publish brings an object in, as the stage does, and returns its entry, which is pinned.
func (b *testIndex) publish(o Object, lim Limits) (*Entry, error) {
	unlock, ok, err := b.LockKey(o.Key)
	if !ok || err != nil {
		return nil, fmt.Errorf("the key is not locked: %v, %w", ok, err)
	}
	defer unlock()
	space, taken, err := b.Reserve(o.Charge, lim)
	if !taken || err != nil {
		return nil, fmt.Errorf("no space: %v, %w", taken, err)
	}
	if o.Place.ID, err = b.NextPlace(); err != nil {
		return nil, err
	}
	space.Writes(o.Place)
	b.s.put(o)
	e, err := b.Publish(space, o)
	if err != nil {
		_ = b.s.free(o.Place, o.Charge)
		space.Release()
	}
	return e, err
}

// add publishes objects with these numbers, in their first version.
func (b *testIndex) add(t testing.TB, numbers ...int) {
	t.Helper()
	for _, n := range numbers {
		ok(b.publish(object(n, 0), limits))(t).Unpin()
	}
}

// span are the numbers from first to last.
func span(first, last int) (all []int) {
	for n := first; n <= last; n++ {
		all = append(all, n)
	}
	return all
}

// find pins the object of a number, which must be there.
func (b *testIndex) find(t testing.TB, n int) *Entry {
	t.Helper()
	e := ok(b.Find(keyOf(n)))(t)
	if e == nil {
		t.Fatalf("object %d is not found", n)
	}
	if e.Key != keyOf(n) {
		t.Fatalf("instead of object %d there is %q", n, e.Name)
	}
	return e
}

// has are those of the numbers whose objects are found.
func (b *testIndex) has(t testing.TB, numbers ...int) (found []int) {
	t.Helper()
	for _, n := range numbers {
		if e := ok(b.Find(keyOf(n)))(t); e != nil {
			e.Unpin()
			found = append(found, n)
		}
	}
	return found
}

func wantHas(t testing.TB, b *testIndex, among, want []int) {
	t.Helper()
	if diff := cmp.Diff(want, b.has(t, among...)); diff != "" {
		t.Errorf("objects that are found (-expected +got):\n%s", diff)
	}
}

func wantTaken(t testing.TB, b *testIndex, bytes, files int64) {
	t.Helper()
	if gotBytes, gotFiles := b.Taken(); gotBytes != bytes || gotFiles != files {
		t.Errorf("%d bytes and %d files are taken, not %d and %d", gotBytes, gotFiles, bytes, files)
	}
}

// evict evicts n objects.
func (b *testIndex) evict(t testing.TB, n int) (gone int) {
	t.Helper()
	_, files := b.Taken()
	return ok(b.Evict(func() bool {
		_, now := b.Taken()
		return files-now >= int64(n)
	}))(t)
}

// wantIndex checks that the index is whole, and say what the store has.
func wantIndex(t testing.TB, b *testIndex) {
	t.Helper()
	all := ok(audit(b.Index))(t)
	var in []uint64
	for _, o := range all {
		in = append(in, o.Place.ID)
	}
	slices.Sort(in)
	if diff := cmp.Diff(in, b.s.numbers()); diff != "" {
		t.Errorf("places in the index and in the store (-index +store):\n%s", diff)
	}
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return !errors.Is(err, fs.ErrNotExist)
}

func openFiles(t testing.TB) int { return len(ok(os.ReadDir("/proc/self/fd"))(t)) }

// mapsOf counts the mappings of files below a directory.
func mapsOf(t testing.TB, dir string) int {
	return strings.Count(string(ok(os.ReadFile("/proc/self/maps"))(t)), dir)
}

func at1970(seconds int64) time.Time { return time.Unix(seconds, 0) }

func uintptrOf[T any](p *T) uintptr { return uintptr(unsafe.Pointer(p)) }
