//go:build linux

package cache

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"leat/internal/fault"
	"leat/internal/proctest"
)

func TestMain(m *testing.M) {
	proctest.Main(children)
	goleak.VerifyTestMain(m)
}

// The words of proctest.
var must, wantErr, inMemory = proctest.Must, proctest.WantErr, proctest.MemoryDir

func ok[T any](v T, err error) func(t testing.TB) T { return proctest.OK(v, err) }

// create makes a cache that is closed with the test.
func create(t testing.TB, n int64, o *Options) *Cache {
	t.Helper()
	p := orDefault(o)
	if p.Dir == "" {
		p.Dir = inMemory(t)
	}
	c := ok(Create(n, &p))(t)
	t.Cleanup(func() { must(t, c.Close()) })
	return c
}

func attachTo(t testing.TB, c *Cache, o *Options) *Cache {
	t.Helper()
	a := ok(Attach(ok(c.Handle())(t), o))(t)
	t.Cleanup(func() { must(t, a.Close()) })
	return a
}

func put(t testing.TB, c *Cache, i int64, data string) bool {
	t.Helper()
	return ok(c.Put(i, []byte(data)))(t)
}

// wantEntry checks what is in a slot, in all ways of reading.
func wantEntry(t testing.TB, c *Cache, i int64, want string) {
	t.Helper()
	if got, err := c.Get(i); err != nil || string(got) != want || got == nil {
		t.Errorf("slot %d: Get: %.40q, %v; not %.40q", i, got, err, want)
	}
	if err := c.View(i, func(b []byte) error {
		if string(b) != want {
			t.Errorf("slot %d: View: %.40q, not %.40q", i, b, want)
		}
		return nil
	}); err != nil {
		t.Errorf("slot %d: View: %v", i, err)
	}
	if has, err := c.Has(i); !has || err != nil {
		t.Errorf("slot %d: Has: %v, %v", i, has, err)
	}
}

func wantMiss(t testing.TB, c *Cache, i int64) {
	t.Helper()
	if got, err := c.Get(i); !errors.Is(err, ErrMiss) || got != nil {
		t.Errorf("slot %d: Get: %.40q, %v; not a miss", i, got, err)
	}
	if err := c.View(i, func([]byte) error { t.Error("View called its function"); return nil }); !errors.Is(err,
		ErrMiss) {
		t.Errorf("slot %d: View: %v; not a miss", i, err)
	}
	if has, err := c.Has(i); has || err != nil {
		t.Errorf("slot %d: Has: %v, %v", i, has, err)
	}
}

func preserve(c *Cache, name string, overwrite bool) error {
	_, err := c.Preserve(context.Background(), name, overwrite)
	return err
}

func check(t testing.TB, c *Cache) *Report {
	t.Helper()
	return ok(c.Check(t.Context()))(t)
}

func stats(t testing.TB, c *Cache) Stats {
	t.Helper()
	return ok(c.Stats())(t)
}

// faults has f called at every fault point for the length of the test.
func faults(t testing.TB, f func(point string) error) {
	t.Helper()
	fault.Set(f)
	t.Cleanup(func() { fault.Set(nil) })
}

// failAt has one point fail.
func failAt(t testing.TB, point string, err error) {
	t.Helper()
	faults(t, func(p string) error {
		if p == point {
			return err
		}
		return nil
	})
}

var errTest = errors.New("failed on purpose")

// content is what slot i holds in tests of many processes: from the slot number alone follows every
// byte.
func content(i int64) []byte {
	r := rand.New(rand.NewPCG(uint64(i), 1))
	b := make([]byte, r.IntN(20000))
	for k := 0; k+8 <= len(b); k += 8 {
		binary.LittleEndian.PutUint64(b[k:], r.Uint64())
	}
	return b
}

// readEntries reads random entries of the n through a mapping of its own until stop is set, and
// counts those that have the right contents.
func readEntries(t *testing.T, handle string, n int64, stop *atomic.Bool, verified *atomic.Int64,
	check func(int64, []byte) error) {
	r, err := Attach(Handle(handle), &Options{Verify: VerifyNever})
	if err != nil {
		t.Error(err)
		return
	}
	defer r.Close()
	for !stop.Load() {
		i := rand.Int64N(n)
		if err := r.View(i, func(b []byte) error { return check(i, b) }); err == nil {
			verified.Add(1)
		} else if !errors.Is(err, ErrMiss) {
			t.Error(err)
			return
		}
	}
}

func isContent(i int64, b []byte) error {
	if !bytes.Equal(b, content(i)) {
		return fmt.Errorf("slot %d holds %d bytes that were never put there: %.40x", i, len(b), b)
	}
	return nil
}

// await polls for something that another process or goroutine does.
func await(t testing.TB, what string, f func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !f(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("in a minute, never: %s", what)
		}
	}
}

// allNames lists a directory tree, hidden names too.
func allNames(t testing.TB, dir string) []string {
	t.Helper()
	var names []string
	must(t, filepath.Walk(dir, func(path string, _ os.FileInfo, err error) error {
		if path != dir {
			names = append(names, path[len(dir)+1:])
		}
		return err
	}))
	return names
}
