package stage_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"leat/objstore"
	"leat/stage"
)

// storeOf is a directory with n objects of one KiB, "0" to n-1, as a source.
func storeOf(t *testing.T, n int) (src *objstore.Bucket, directory string) {
	t.Helper()
	directory = t.TempDir()
	for i := range n {
		if err := os.WriteFile(filepath.Join(directory, fmt.Sprint(i)), make([]byte, 1024), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	src, err := objstore.Open(t.Context(), "file://"+directory, nil)
	if err != nil {
		t.Fatal(err)
	}
	return src, directory
}

// poolIn opens a pool that the test's end closes.
func poolIn(t *testing.T, dir string, o *stage.Options) *stage.Pool {
	t.Helper()
	p, err := stage.Open(context.Background(), dir, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return p
}

// stageSome stages objects and keeps them.
func stageSome(t *testing.T, p *stage.Pool, src *objstore.Bucket, names ...string) (held []*stage.Ref) {
	t.Helper()
	for _, name := range names {
		l := p.Prefetch(src, name)
		if err := l.WaitStaged(t.Context()); err != nil {
			t.Fatal(err)
		}
		held = append(held, l)
	}
	return held
}

func sources(t *testing.T, p *stage.Pool) map[string]int64 {
	t.Helper()
	all := map[string]int64{}
	for o, err := range p.Objects() {
		if err != nil {
			t.Fatal(err)
		}
		all[o.Source[strings.LastIndexByte(o.Source, '/')+1:]] = o.DiskBytes
		if o.Size != 1024 || time.Since(o.Used) > time.Hour || time.Since(o.Checked) > time.Hour ||
			o.Modified.IsZero() || !strings.HasPrefix(o.Source, "file:///") {
			t.Errorf("%+v", o)
		}
	}
	return all
}

func TestObjects(t *testing.T) {
	src, _ := storeOf(t, 3)
	p := poolIn(t, t.TempDir(), nil)
	if d := cmp.Diff(map[string]int64{}, sources(t, p)); d != "" {
		t.Error(d)
	}
	stageSome(t, p, src, "0", "1", "2")
	if d := cmp.Diff(map[string]int64{"0": 4096, "1": 4096, "2": 4096}, sources(t, p)); d != "" {
		t.Error(d)
	}
	n := 0
	for range p.Objects() {
		n++
		break
	}
	if n != 1 {
		t.Errorf("the loop was left, and ran %d times", n)
	}
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	for _, err := range p.Objects() {
		if !errors.Is(err, stage.ErrClosed) {
			t.Errorf("%v", err)
		}
		n++
	}
	if n != 2 {
		t.Error("a closed pool has objects")
	}
}

func TestTrim(t *testing.T) {
	src, _ := storeOf(t, 10)
	p := poolIn(t, t.TempDir(), nil)
	held := stageSome(t, p, src, "0", "1", "2", "3", "4", "5", "6", "7", "8", "9")
	if n, err := p.Trim(t.Context(), 0); n != 0 || err != nil {
		t.Errorf("%d removed of what is in use, %v", n, err)
	}
	for _, l := range held[1:] {
		l.Release()
	}
	if n, err := p.Trim(t.Context(), 5*4096+100); n != 5 || err != nil {
		t.Errorf("%d removed, %v", n, err)
	}
	if n := len(sources(t, p)); n != 5 {
		t.Errorf("%d are left", n)
	}
	if n, err := p.Trim(t.Context(), 0); n != 4 || err != nil {
		t.Errorf("%d removed, %v", n, err)
	}
	if d := cmp.Diff(map[string]int64{"0": 4096}, sources(t, p)); d != "" {
		t.Error(d)
	}
	if n := p.Counters().Evicted; n != 9 {
		t.Errorf("%d are counted", n)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if n, err := p.Trim(ctx, 0); n != 0 || !errors.Is(err, context.Canceled) {
		t.Errorf("%d, %v", n, err)
	}
}

// TestRemovingGoesOn removes objects of which one can't be removed.
func TestRemovingGoesOn(t *testing.T) {
	for name, remove := range map[string]func(*stage.Pool) (int, error){
		"Trim":         func(p *stage.Pool) (int, error) { return p.Trim(t.Context(), 0) },
		"RemoveUnused": func(p *stage.Pool) (int, error) { return p.RemoveUnused(t.Context(), time.Now().Add(time.Hour)) },
	} {
		t.Run(name, func(t *testing.T) {
			src, there := storeOf(t, 5)
			if err := os.WriteFile(filepath.Join(there, "big"), make([]byte, 2<<20), 0o666); err != nil {
				t.Fatal(err)
			}
			dir := t.TempDir()
			p := poolIn(t, dir, nil)
			for _, l := range stageSome(t, p, src, "big", "0", "1", "2", "3", "4") {
				l.Release()
			}
			files, err := filepath.Glob(filepath.Join(dir, "stage", "objects", "*", "*"))
			if err != nil || len(files) != 1 {
				t.Fatalf("files are %v, %v", files, err)
			}
			path := files[0]
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
			if err := os.MkdirAll(filepath.Join(path, "within"), 0o700); err != nil {
				t.Fatal(err)
			}
			n, err := remove(p)
			failed := new(stage.RemoveError)
			if n != 5 || !errors.As(err, &failed) || !strings.HasSuffix(failed.Object, "/big") || !errors.Is(err, unix.EISDIR) {
				t.Errorf("%d removed, %v", n, err)
			}
			if left := sources(t, p); len(left) != 0 {
				t.Errorf("left are %v", left)
			}
			if err := errors.Join(os.Remove(filepath.Join(path, "within")), os.Remove(path)); err != nil {
				t.Fatal(err)
			}
			if n, err := p.Trim(t.Context(), 0); n != 1 || err != nil {
				t.Errorf("%d removed, %v", n, err)
			}
		})
	}
}

func TestRemoveUnused(t *testing.T) {
	synctest.Test(t, testRemoveUnused)
}

func testRemoveUnused(t *testing.T) {
	src, _ := storeOf(t, 4)
	p := poolIn(t, t.TempDir(), nil)
	old := stageSome(t, p, src, "0", "1", "2")
	old[0].Release()
	old[1].Release()
	time.Sleep(time.Second)
	since := time.Now()
	time.Sleep(time.Second)
	for _, l := range stageSome(t, p, src, "3", "1") {
		l.Release()
	}
	if n, err := p.RemoveUnused(t.Context(), since); n != 1 || err != nil {
		t.Errorf("%d removed, %v", n, err)
	}
	if d := cmp.Diff(map[string]int64{"1": 4096, "2": 4096, "3": 4096}, sources(t, p)); d != "" {
		t.Error(d)
	}
	if b, err := old[2].Bytes(t.Context()); err != nil || len(b) != 1024 {
		t.Errorf("%d bytes of one in use, %v", len(b), err)
	}
}

func TestWaitStaged(t *testing.T) {
	src, directory := storeOf(t, 3)
	if err := os.WriteFile(filepath.Join(directory, "large"), make([]byte, 9000), 0o666); err != nil {
		t.Fatal(err)
	}
	p := poolIn(t, t.TempDir(), &stage.Options{MaxBytes: 2 * 4096})
	refused := func(name string, want error) {
		t.Helper()
		l := p.Prefetch(src, name)
		if err := l.WaitStaged(t.Context()); !errors.Is(err, want) || !strings.Contains(err.Error(), src.ID(name)) {
			t.Errorf("%s: %v", name, err)
		}
		l.Release()
		if err := l.WaitStaged(t.Context()); !errors.Is(err, stage.ErrClosed) {
			t.Errorf("%s, released: %v", name, err)
		}
	}
	refused("nosuch", fs.ErrNotExist)
	refused("large", stage.ErrNoSpace)
	held := stageSome(t, p, src, "0", "1")
	refused("2", stage.ErrNoSpace)
	if n := p.Counters().ReadThrough; n != 0 {
		t.Errorf("%d were read", n)
	}
	// One that waits for space comes when there is some.
	l := p.Prefetch(src, "2")
	held[0].Release()
	for i := 0; ; i++ {
		err := l.WaitStaged(t.Context())
		if err == nil {
			break
		}
		if !errors.Is(err, stage.ErrNoSpace) || i > 60_000 {
			t.Fatal(err)
		}
		time.Sleep(time.Millisecond)
	}
	l.Release()
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	if err := held[1].WaitStaged(t.Context()); !errors.Is(err, stage.ErrClosed) {
		t.Errorf("%v", err)
	}
}
