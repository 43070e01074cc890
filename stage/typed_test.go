//go:build linux

package stage

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// sumCodec stores sums of bytes as decimal numbers, and counts how often they are made and loaded.
type sumCodec struct{ decodes, loads atomic.Int64 }

func (c *sumCodec) decode(b []byte) (int, error) {
	c.decodes.Add(1)
	return sumOf(b), nil
}

func (c *sumCodec) Encode(n int) ([]byte, error) { return strconv.AppendInt(nil, int64(n), 10), nil }

func (c *sumCodec) Decode(b []byte) (int, error) {
	c.loads.Add(1)
	return strconv.Atoi(string(b))
}

func sumOf(b []byte) (n int) {
	for _, x := range b {
		n += int(x)
	}
	return n
}

func TestExpensiveDecoderRunsOnce(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := small("expensive", 10*kib)
	var c sumCodec
	for range 2 {
		p := pool(t, dir, Options{})
		typed := ok(TypedOnce(p, "sum-v1", c.decode, &c))(t)
		for i := range 10 {
			name := fmt.Sprint(i)
			l := typed.Prefetch(s, name)
			for range 2 {
				n, info, err := l.Get(t.Context())
				if err != nil || n != sumOf(content(name, 0, 10*kib)) {
					t.Errorf("%s: %d, %v", name, n, err)
				}
				if d := cmp.Diff(SourceInfo{Source: "test://expensive/" + name, Index: -1, Files: []string{name}},
					info); d != "" {
					t.Error(d)
				}
			}
			l.Release()
		}
		if u := wantDisk(t, p); u.Bytes != 10*4096 {
			t.Errorf("%d bytes are staged of 10 small values", u.Bytes)
		}
	}
	if reads, _, _ := s.all(); c.decodes.Load() != 10 || c.loads.Load() != 40 || reads != 10 {
		t.Errorf("%d decoded, %d loaded, %d read", c.decodes.Load(), c.loads.Load(), reads)
	}
}

func TestDecodedValueVersion(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := newSource("follows").put("a", object{size: 1000})
	var c sumCodec
	get := func(codecName string) int {
		typed := ok(TypedOnce(pool(t, dir, Options{}), codecName, c.decode, &c))(t)
		l := typed.Prefetch(s, "a")
		defer l.Release()
		n, _, err := l.Get(t.Context())
		must(t, err)
		return n
	}
	get("sum-v1")
	s.put("a", object{size: 1000, version: 1})
	if n := get("sum-v1"); n != sumOf(content("a", 1, 1000)) || c.decodes.Load() != 2 {
		t.Errorf("after a change %d, decoded %d times", n, c.decodes.Load())
	}
	get("sum-v2")
	if c.decodes.Load() != 3 {
		t.Error("a value that another codec made was served")
	}
}

func TestCodecErrors(t *testing.T) {
	t.Parallel()
	s := small("codec", 100)
	bad := errors.New("no image")
	p := pool(t, t.TempDir(), Options{})
	fails := func([]byte) (int, error) { return 0, bad }
	cheap := Typed(p, fails)
	_, _, err := cheap.Prefetch(s, "a").Get(t.Context())
	wantErr(t, err, bad)
	_, _, err = ok(TypedOnce(p, "sum-v1", fails, &sumCodec{}))(t).Prefetch(s, "a").Get(t.Context())
	wantErr(t, err, bad)
	if _, err := TypedOnce(p, "", fails, &sumCodec{}); err == nil {
		t.Error("no name was accepted")
	}
	if _, err := TypedOnce(p, "x", fails, nil); err == nil {
		t.Error("no codec was accepted")
	}
}

func TestPut(t *testing.T) {
	t.Parallel()
	for _, size := range []int64{1, 10 * kib, 2 * mib} {
		p := pool(t, t.TempDir(), Options{MaxBytes: 4 * mib})
		want := content("put", 0, size)
		l := p.Put(bytes.Clone(want), "frame.npy")
		other := p.Put(bytes.Clone(want), "frame.npy") // another object of the same name
		must(t, p.Wait(t.Context()))
		if u := wantDisk(t, p); u.Objects != 2 {
			t.Errorf("%d objects", u.Objects)
		}
		for range 2 {
			if b := ok(l.Bytes(t.Context()))(t); !bytes.Equal(b, want) {
				t.Error("other bytes")
			}
		}
		r := ok(l.Open(t.Context()))(t)
		if b := ok(os.ReadFile(ok(r.Path())(t)))(t); !bytes.Equal(b, want) {
			t.Error("other bytes in the file")
		}
		if i := l.Info(); i.Source != "put:" || i.Files[0] != "frame.npy" {
			t.Errorf("%+v", i)
		}
		must(t, r.Close())
		l.Release()
		other.Release()
		if u := wantDisk(t, p); u.Bytes != 0 || u.Objects != 0 {
			t.Errorf("%d bytes of %d objects stay after Release", u.Bytes, u.Objects)
		}
	}
}

func TestPutWithoutSpace(t *testing.T) {
	t.Parallel()
	p := pool(t, t.TempDir(), Options{MaxBytes: 64 * kib})
	a, b := p.Put(content("a", 0, 64*kib), "a"), p.Put(content("b", 0, 64*kib), "b")
	big := p.Put(content("big", 0, mib), "big")
	soon(t, "both having a result", func() bool {
		return stateOf(a) == staged && stateOf(b) == waitingForSpace || stateOf(a) == waitingForSpace &&
			stateOf(b) == staged
	})
	for name, l := range map[string]*Ref{"a": a, "b": b, "big": big} {
		for range 2 {
			if got := ok(l.Bytes(t.Context()))(t); !bytes.Equal(got, content(name, 0, int64(len(got)))) {
				t.Errorf("%s is another", name)
			}
		}
	}
	for _, l := range []*Ref{a, b, big} {
		l.Release()
	}
	if u := wantDisk(t, p); u.Bytes != 0 {
		t.Errorf("%d bytes stay", u.Bytes)
	}
}

func TestPutThenClose(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	p := ok(Open(context.Background(), dir, quick(Options{})))(t)
	p.Put(content("a", 0, 64*kib), "a")
	must(t, p.Wait(t.Context()))
	must(t, p.Close())
	if n, _, err := onDisk(dir); n != 0 || err != nil {
		t.Errorf("%d bytes stay: %v", n, err)
	}
}

func TestPutDamaged(t *testing.T) {
	t.Parallel()
	p := pool(t, t.TempDir(), Options{})
	l := p.Put(content("a", 0, 2*mib), "a")
	must(t, p.Wait(t.Context()))
	r := ok(l.Open(t.Context()))(t)
	must(t, os.Truncate(p.store.Path(r.e.Place), 0))
	if _, err := r.ReadAt(make([]byte, 10), 0); !errors.Is(err, errForgotten) {
		t.Errorf("the error is %v", err)
	}
	must(t, r.Close())
}
