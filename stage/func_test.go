//go:build linux

package stage

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"testing"
)

// upper returns a Source that counts its calls by name. In these tests, no two are simultaneous.
func upper(t *testing.T, calls map[string]int) Source {
	return ok(Func("upper-v1", func(_ context.Context, name string) ([]byte, error) {
		calls[name]++
		switch name {
		case "missing":
			return nil, fs.ErrNotExist
		case "empty":
			return nil, nil
		}
		return []byte("bytes of " + name), nil
	}))(t)
}

func TestFuncIsCalledOncePerDirectory(t *testing.T) {
	dir, calls := t.TempDir(), map[string]int{}
	for range 2 { // the objects stay when the pool is opened again
		p := pool(t, dir, Options{})
		src := upper(t, calls)
		for _, name := range []string{"a", "b", "empty"} {
			l := p.Prefetch(src, name)
			want := "bytes of " + name
			if name == "empty" {
				want = ""
			}
			if b, err := l.Bytes(t.Context()); err != nil || string(b) != want {
				t.Errorf("%s: %q, %v", name, b, err)
			}
			l.Release()
		}
		if _, err := p.Prefetch(src, "missing").Bytes(t.Context()); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("missing: %v", err)
		}
		if err := p.Close(); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"a", "b", "empty"} {
		if calls[name] != 1 {
			t.Errorf("%s: %d calls, expected 1", name, calls[name])
		}
	}
	// Each pool copies it once, and Bytes tries again if that has failed already.
	if n := calls["missing"]; n < 2 || n > 4 {
		t.Errorf("missing: %d calls, expected 2 to 4", n)
	}
	for _, id := range []string{"", "x"} {
		if _, err := Func(id, nil); err == nil {
			t.Errorf("no error from Func(%q, nil)", id)
		}
	}
}

func TestDirectPoolReadsFromSource(t *testing.T) {
	p := ok(Direct(nil))(t)
	calls := map[string]int{}
	src := upper(t, calls)
	l := p.Prefetch(src, "a")
	if err := p.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	r := ok(l.Open(t.Context()))(t)
	if b, err := io.ReadAll(r); err != nil || string(b) != "bytes of a" || r.Staged() || r.Size() != 10 {
		t.Errorf("%q, %v, staged %v, %d bytes", b, err, r.Staged(), r.Size())
	}
	if _, err := r.Path(); !errors.Is(err, ErrNoSpace) {
		t.Errorf("Path: %v", err)
	}
	if err := l.WaitStaged(t.Context()); !errors.Is(err, ErrNoSpace) {
		t.Errorf("WaitStaged: %v", err)
	}
	if b, _, err := p.ReadDirect(t.Context(), src, "b"); err != nil || string(b) != "bytes of b" {
		t.Errorf("%q, %v", b, err)
	}
	own := p.Put([]byte("own"), "x")
	if b, err := own.Bytes(t.Context()); err != nil || string(b) != "own" {
		t.Errorf("%q, %v", b, err)
	}
	own.Release()
	for o, err := range p.Objects() {
		t.Errorf("object %v, %v", o, err)
	}
	if n, err := p.Trim(t.Context(), 0); n != 0 || err != nil {
		t.Errorf("Trim: %d, %v", n, err)
	}
	if u, err := p.Usage(); err != nil || u.Dir != "" || u.Objects != 0 || u.Since.ReadThrough != 3 {
		t.Errorf("%+v, %v", u, err)
	}
	if p.Has(src, "a") || p.Dir() != "" {
		t.Errorf("has a, or a directory %q", p.Dir())
	}
	_ = r.Close()
	for range 2 {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	}
	if c := p.Counters(); c.ReadThrough != 3 || c.Misses != 0 {
		t.Errorf("%+v", c)
	}
	if _, err := l.Open(t.Context()); !errors.Is(err, ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}
