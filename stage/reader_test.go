//go:build linux

package stage

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"leat/objstore"
)

func TestReader(t *testing.T) {
	t.Parallel()
	for _, size := range []int64{0, 1, 100 * kib, 3 * mib} {
		for _, how := range []string{"staged", "read through"} {
			s := small("reader", size)
			o := Options{RangeBytes: mib}
			if how == "read through" {
				o.MaxFiles = 1
			}
			p := pool(t, t.TempDir(), o)
			if how == "read through" {
				l := p.Prefetch(s, "other")
				must(t, p.Wait(t.Context()))
				defer l.Release()
			}
			l := p.Prefetch(s, "a")
			r := ok(l.Open(t.Context()))(t)
			if r.Staged() != (how == "staged") || r.Size() != size {
				t.Errorf("%s: Staged is %v, Size %d", how, r.Staged(), r.Size())
			}
			want := content("a", 0, size)
			if got := ok(io.ReadAll(r))(t); !bytes.Equal(got, want) {
				t.Errorf("%s: other bytes", how)
			}
			if n, err := r.Read(make([]byte, 1)); n != 0 || err != io.EOF {
				t.Errorf("%s: Read at the end: %d, %v", how, n, err)
			}
			for _, c := range []struct{ at, n int64 }{{0, size}, {size / 2, size}, {size, 1}, {size + 10, 1},
				{size / 3, size / 3}, {0, 0}} {
				b := make([]byte, c.n)
				n, err := r.ReadAt(b, c.at)
				wantN, wantErr := bytes.NewReader(want).ReadAt(make([]byte, c.n), c.at)
				if n != wantN || !errors.Is(err, wantErr) && c.n > 0 || !bytes.Equal(b[:n],
					want[min(c.at, size):min(c.at, size)+int64(n)]) {
					t.Errorf("%s: ReadAt %d bytes at %d of %d: %d, %v, not %d, %v", how, c.n, c.at, size, n, err, wantN,
						wantErr)
				}
			}
			for _, c := range []struct {
				to     int64
				whence int
				want   int64
			}{{size / 2, io.SeekStart, size / 2}, {1, io.SeekCurrent, size/2 + 1}, {-size, io.SeekEnd, 0}} {
				if at, err := r.Seek(c.to, c.whence); at != c.want || err != nil {
					t.Errorf("Seek(%d, %d): %d, %v", c.to, c.whence, at, err)
				}
			}
			if _, err := r.Seek(-1, io.SeekStart); err == nil {
				t.Error("no error for seeking before the first byte")
			}
			if _, err := r.Seek(0, 7); err == nil {
				t.Error("no error for whence 7")
			}
			if _, err := r.ReadAt(make([]byte, 1), -1); err == nil {
				t.Error("no error for reading before the first byte")
			}
			must(t, r.Close())
			l.Release()
		}
	}
}

func TestLargeDirectRead(t *testing.T) {
	t.Parallel()
	const size = directMemory + 5*mib + 7
	s := small("large", 100)
	s.put("a", object{size: size})
	p := pool(t, t.TempDir(), Options{MaxBytes: mib})
	r := ok(p.Prefetch(s, "a").Open(t.Context()))(t)
	buf, want := make([]byte, 1000), make([]byte, 1000)
	for _, at := range []int64{0, size / 2, size - 1000} {
		_ = ok(r.ReadAt(buf, at))(t)
		if fill(want, seedOf("a", 0), at); !bytes.Equal(buf, want) {
			t.Errorf("other bytes at %d", at)
		}
	}
	if _, _, given := s.count("a"); given > 4000+3*bufferSize {
		t.Errorf("%d bytes were read for 3000", given)
	}
	_ = ok(r.Seek(size-3*mib, io.SeekStart))(t)
	before, _, _ := s.count("a")
	tail := ok(io.ReadAll(r))(t)
	full := make([]byte, 3*mib)
	if fill(full, seedOf("a", 0), size-3*mib); !bytes.Equal(tail, full) {
		t.Error("the tail is another")
	}
	if after, _, _ := s.count("a"); after != before+1 {
		t.Errorf("%d requests for one stream", after-before)
	}
	// It is one version, or none.
	s.put("a", object{size: size, version: 1})
	if _, err := r.ReadAt(buf, 100); !errors.Is(err, objstore.ErrChanged) {
		t.Errorf("reading an object that changed: %v", err)
	}
	must(t, r.Close())
}

func TestPath(t *testing.T) {
	t.Parallel()
	for _, size := range []int64{0, 10, 100 * kib, 2 * mib} {
		for _, how := range []string{"staged", "read through"} {
			s := small("path", size)
			p := pool(t, t.TempDir(), Options{MaxFiles: 3})
			var fillers []*Ref
			if how == "read through" {
				for i := range 3 {
					fillers = append(fillers, p.Prefetch(s, fmt.Sprint(i)))
				}
				must(t, p.Wait(t.Context()))
			}
			l := p.Prefetch(s, "dir/scene.TIF")
			r := ok(l.Open(t.Context()))(t)
			for _, f := range fillers {
				f.Release()
			}
			path := ok(r.Path())(t)
			if !bytes.Equal(ok(os.ReadFile(path))(t), content("dir/scene.TIF", 0, size)) {
				t.Errorf("%s, %d bytes: %s is another", how, size, path)
			}
			if filepath.Ext(path) != ".TIF" {
				t.Errorf("the name is %s", path)
			}
			if again := ok(r.Path())(t); again != path {
				t.Errorf("first %s, then %s", path, again)
			}
			r2 := ok(l.Open(t.Context()))(t)
			path2 := ok(r2.Path())(t)
			if how == "staged" && path2 != path {
				t.Errorf("two readers have two files: %s and %s", path, path2)
			}
			must(t, r.Close())
			if !bytes.Equal(ok(os.ReadFile(path2))(t), content("dir/scene.TIF", 0, size)) {
				t.Error("the other reader's file is another after the first was closed")
			}
			must(t, r2.Close())
			l.Release()
			if reads, _, _ := s.count("dir/scene.TIF"); how == "staged" && reads != 1 {
				t.Errorf("%d requests", reads)
			}
			if size > 0 { // an empty one is counted as a block
				wantDisk(t, p)
			}
		}
	}
}

func TestSourceInfo(t *testing.T) {
	t.Parallel()
	s := small("info", 10)
	p := pool(t, t.TempDir(), Options{})
	want := SourceInfo{Source: "test://info/a/b.jpg", Index: -1, Files: []string{"a/b.jpg"}}
	l := p.Prefetch(s, "a/b.jpg")
	r := ok(l.Open(t.Context()))(t)
	_, direct, err := p.ReadDirect(t.Context(), s, "a/b.jpg")
	must(t, err)
	for what, got := range map[string]SourceInfo{"Lazy": l.Info(), "Reader": r.describe(), "Get": direct} {
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s:\n%s", what, d)
		}
	}
	must(t, r.Close())
	d := describing{s}
	if got := p.Prefetch(d, "7").Info(); got.Index != 7 || got.Shard != "shard-1" {
		t.Errorf("of a source that describes: %+v", got)
	}
}

// describing is a source of samples.
type describing struct{ *source }

func (d describing) Describe(name string) SourceInfo {
	return SourceInfo{Source: d.ID(name), Index: 7, Shard: "shard-1", Files: []string{name + ".jpg", name + ".json"}}
}

// TestRecycle checks that recycled memory, which has the bytes of other objects, never shows them.
func TestRecycle(t *testing.T) {
	t.Parallel()
	s := newSource("recycled")
	s.missing = func(name string) *object { return &object{size: int64(len(name)) * 3 * kib} }
	for _, maxFiles := range []int64{1000, 3} { // staged, and mostly read directly
		p := pool(t, t.TempDir(), Options{MaxFiles: maxFiles})
		var wg sync.WaitGroup
		for g := range 4 {
			wg.Go(func() {
				kept := map[string][]byte{}
				for k := range 60 {
					name := strings.Repeat("x", 1+(g*7+k*5)%23)
					l := p.Prefetch(s, name)
					b, err := l.Bytes(t.Context())
					l.Release()
					if want := content(name, 0, int64(len(name))*3*kib); err != nil || !bytes.Equal(b, want) {
						t.Errorf("object of %d bytes: %d others, %v", len(want), len(b), err)
						return
					}
					if k%5 == 0 {
						kept[name] = b
					} else {
						p.Recycle(b)
					}
				}
				for name, b := range kept {
					if !bytes.Equal(b, content(name, 0, int64(len(name))*3*kib)) {
						t.Errorf("the bytes of an object of %d bytes changed", len(b))
					}
				}
			})
		}
		wg.Wait()
	}
}
