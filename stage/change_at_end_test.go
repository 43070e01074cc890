//go:build linux

package stage

import (
	"bytes"
	"context"
	"io"
	"sync/atomic"
	"testing"

	"leat/objstore"
)

// lateSource finds only at the end of a body that the object was replaced, as files do that are
// written to.
type lateSource struct {
	*source
	changes atomic.Int64 // so many bodies end with ErrChanged
}

func (s *lateSource) Read(ctx context.Context, name string, offset, length int64, match *objstore.Info) (objstore.Info,
	io.ReadCloser, error) {
	info, body, err := s.source.Read(ctx, name, offset, length, match)
	if err == nil && s.changes.Load() > 0 {
		s.changes.Add(-1)
		body = lateBody{body}
	}
	return info, body, err
}

type lateBody struct{ io.ReadCloser }

func (b lateBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err == io.EOF {
		err = objstore.ErrChanged
	}
	return n, err
}

func TestChangeFoundAtEnd(t *testing.T) {
	t.Parallel()
	for _, size := range []int64{1000, 3 * mib} {
		for _, limit := range []int64{0, 4096} { // staged, or not
			testChangeFoundAtEnd(t, size, limit)
		}
	}
}

// TestChangeFoundAtEndOfLarge reads an object in pieces.
func TestChangeFoundAtEndOfLarge(t *testing.T) {
	t.Parallel()
	testChangeFoundAtEnd(t, directMemory+mib, 4096)
}

func testChangeFoundAtEnd(t *testing.T, size, limit int64) {
	s := &lateSource{source: newSource("late").put("a", object{size: size})}
	p := pool(t, inMemory(t), Options{MaxBytes: limit, RangeBytes: mib})
	filler := p.Put([]byte("x"), "x")
	must(t, p.Wait(t.Context()))
	s.changes.Store(1)
	l := p.Prefetch(s, "a")
	want := content("a", 0, size)
	if b, err := l.Bytes(t.Context()); err != nil || !bytes.Equal(b, want) || s.changes.Load() != 0 {
		t.Errorf("%d of %d bytes, %v, %d changes are left", len(b), size, err, s.changes.Load())
	}
	if size > directMemory {
		r := ok(l.Open(t.Context()))(t)
		s.changes.Store(1)
		_, err := r.ReadAt(make([]byte, 1000), 10)
		wantErr(t, err, objstore.ErrChanged)
		if _, err := r.ReadAt(make([]byte, 1000), 10); err != nil {
			t.Error(err)
		}
		_ = ok(r.Seek(size-1000, io.SeekStart))(t)
		s.changes.Store(1)
		b, err := io.ReadAll(r)
		if wantErr(t, err, objstore.ErrChanged); !bytes.Equal(b, want[size-1000:]) {
			t.Errorf("%d bytes before the end", len(b))
		}
		must(t, r.Close())
	}
	s.changes.Store(1 << 20)
	l.Release()
	s.put("b", object{size: size})
	l = p.Prefetch(s, "b")
	_, err := l.Bytes(t.Context())
	wantErr(t, err, objstore.ErrChanged)
	l.Release()
	filler.Release()
}
