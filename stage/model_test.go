//go:build linux

package stage

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"runtime"
	"testing"

	"pgregory.net/rapid"
)

// modelNames are small and large objects, with and without a size, and one that never fits.
var modelNames = map[string]object{
	"a":     {size: 100},
	"b":     {size: 5000},
	"c":     {size: 9000, unknown: true},
	"d":     {size: 40 * kib, md5: right},
	"e":     {size: 60 * kib, unknown: true, crc: right},
	"f":     {size: 0},
	"large": {size: 300 * kib},
	"vast":  {size: 300 * kib, unknown: true},
}

// TestPoolAgainstModel does things at random with a pool, and knows of each answer which ones are
// right: the bytes are of one version, which the source has now or had after the pool was opened;
// whoever holds an object sees one version; what was put stays what it was.
func TestPoolAgainstModel(t *testing.T) {
	t.Parallel()
	base := inMemory(t)
	runs := 0
	rapid.Check(t, func(t *rapid.T) {
		runs++
		m := &model{dir: fmt.Sprint(base, "/", runs), keep: Keep(rapid.IntRange(0, 1).Draw(t, "keep")),
			s: newSource("model"), since: map[string]int{}}
		for name, o := range modelNames {
			m.s.put(name, o)
		}
		defer m.end(t)
		m.open(t)
		t.Repeat(map[string]func(*rapid.T){
			"prefetch": m.prefetch,
			"put":      m.put,
			"read":     m.read,
			"path":     m.path,
			"release":  m.release,
			"forget":   m.forget,
			"change":   m.change,
			"fail":     m.fail,
			"wait":     m.wait,
			"reopen":   m.reopen,
			"":         m.check,
		})
	})
}

type model struct {
	dir   string
	keep  Keep
	s     *source
	p     *Pool
	since map[string]int // version of each object when the pool was opened
	held  []*modelLazy
}

// modelLazy is a Ref, and the version that it is known to have.
type modelLazy struct {
	l      *Ref
	name   string
	put    []byte
	staged bool // it was seen on the disk, in this version
	seen   int
}

const modelLimit = 128 * kib

func (m *model) open(t *rapid.T) {
	o := Options{MaxBytes: modelLimit, MaxFiles: 6, Workers: 2, Keep: m.keep, MaxQueue: 5}
	o.Retry.MaxAttempts = 20 // more than fail can come to while one request is made
	p, err := Open(context.Background(), m.dir, quick(o))
	if err != nil {
		t.Fatal(err)
	}
	m.p = p
	for name := range modelNames {
		m.since[name] = m.s.get(name).version
	}
}

func (m *model) prefetch(t *rapid.T) {
	if len(m.held) > 12 {
		t.Skip("enough")
	}
	name := rapid.SampledFrom([]string{"a", "b", "c", "d", "e", "f", "large", "vast"}).Draw(t, "name")
	l := &modelLazy{l: m.p.Prefetch(m.s, name), name: name}
	for _, o := range m.held { // they share what one of them holds on the disk
		if o.name == name && o.staged && o.put == nil {
			l.staged, l.seen = true, o.seen
		}
	}
	m.held = append(m.held, l)
}

func (m *model) put(t *rapid.T) {
	if len(m.held) > 12 {
		t.Skip("enough")
	}
	b := content("put", rapid.IntRange(0, 1000).Draw(t, "put"), int64(rapid.IntRange(0, 50*kib).Draw(t, "size")))
	m.held = append(m.held, &modelLazy{l: m.p.Put(bytes.Clone(b), "put.npy"), name: "put.npy", put: b})
}

func (m *model) pick(t *rapid.T) (int, *modelLazy) {
	if len(m.held) == 0 {
		t.Skip("nothing is held")
	}
	i := rapid.IntRange(0, len(m.held)-1).Draw(t, "lazy")
	return i, m.held[i]
}

func (m *model) read(t *rapid.T) {
	_, l := m.pick(t)
	r, err := l.l.Open(t.Context())
	if err != nil {
		t.Fatalf("%s: %v", l.name, err)
	}
	defer r.Close()
	b, err := io.ReadAll(r)
	if err != nil || int64(len(b)) != r.Size() {
		t.Fatalf("%s: %d bytes of %d, %v", l.name, len(b), r.Size(), err)
	}
	m.compare(t, l, r, b)
}

func (m *model) path(t *rapid.T) {
	_, l := m.pick(t)
	r, err := l.l.Open(t.Context())
	if err != nil {
		t.Fatalf("%s: %v", l.name, err)
	}
	defer r.Close()
	path, err := r.Path()
	if err != nil {
		t.Skip("no space for a file")
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	m.compare(t, l, r, b)
}

// compare reports whether bytes are right.
func (m *model) compare(t *rapid.T, l *modelLazy, r *Reader, b []byte) {
	if l.put != nil {
		if !bytes.Equal(b, l.put) {
			t.Fatalf("%d bytes of the %d that were put are others", len(b), len(l.put))
		}
		return
	}
	var version int
	if _, err := fmt.Sscanf(r.Version().ETag, `"v%d"`, &version); err != nil {
		t.Fatalf("%s has the version %q", l.name, r.Version().ETag)
	}
	o := m.s.get(l.name)
	if !bytes.Equal(b, content(l.name, version, o.size)) {
		t.Fatalf("%s: the bytes are not those of version %d", l.name, version)
	}
	if version < m.since[l.name] || version > o.version {
		t.Fatalf("%s: version %d is served by a pool that was opened at %d; the source has %d", l.name, version,
			m.since[l.name], o.version)
	}
	if l.staged && version != l.seen {
		t.Fatalf("%s: version %d after %d", l.name, version, l.seen)
	}
	if r.Staged() {
		for _, o := range m.held {
			if o.name == l.name && o.put == nil {
				o.staged, o.seen = true, version
			}
		}
		if o.size > modelLimit {
			t.Fatalf("%s is staged, and larger than the limit", l.name)
		}
	}
}

func (m *model) release(t *rapid.T) {
	i, l := m.pick(t)
	l.l.Release()
	if _, err := l.l.Open(t.Context()); err != ErrClosed {
		t.Fatalf("after Release: %v", err)
	}
	m.held = append(m.held[:i], m.held[i+1:]...)
}

// forget loses a Ref without releasing it.
func (m *model) forget(t *rapid.T) {
	i, _ := m.pick(t)
	m.held = append(m.held[:i], m.held[i+1:]...)
	if rapid.IntRange(0, 9).Draw(t, "collect") == 0 {
		runtime.GC()
	}
}

func (m *model) change(t *rapid.T) {
	name := rapid.SampledFrom([]string{"a", "c", "d", "large", "e"}).Draw(t, "name")
	m.s.edit(name, func(o *object) { o.version++ })
}

func (m *model) fail(t *rapid.T) {
	name := rapid.SampledFrom([]string{"b", "c", "vast"}).Draw(t, "name")
	m.s.edit(name, func(o *object) { o.fails = 2 })
}

// wait waits until what can be copied is.
func (m *model) wait(t *rapid.T) {
	for tries := 0; ; tries++ {
		m.p.mu.Lock()
		n := m.p.queue.length
		for _, it := range m.p.items {
			if it.state == running {
				n++
			}
		}
		m.p.mu.Unlock()
		if n == 0 || tries > 1000 {
			return
		}
		runtime.Gosched()
	}
}

func (m *model) reopen(t *rapid.T) {
	if err := m.p.Close(); err != nil {
		t.Fatal(err)
	}
	if len(m.held) > 0 {
		if _, err := m.held[0].l.Open(t.Context()); err != ErrClosed {
			t.Fatalf("after Close: %v", err)
		}
	}
	m.held = nil
	m.open(t)
}

func (m *model) check(t *rapid.T) {
	u, err := m.p.Usage()
	if err != nil || u.Bytes > modelLimit || u.Objects > 6 || u.Bytes < 0 || u.Objects < 0 {
		t.Fatalf("%+v, %v", u, err)
	}
}

func (m *model) end(t *rapid.T) {
	for _, l := range m.held {
		l.l.Release()
	}
	if err := m.p.Close(); err != nil {
		t.Fatal(err)
	}
	n, _, err := onDisk(m.dir)
	if err != nil || m.keep == Drop && n != 0 {
		t.Fatalf("%d bytes stay: %v", n, err)
	}
	m.open(t)
	u, err := m.p.Usage()
	if err != nil || u.Bytes < n || u.Bytes > n+6*4096 { // an empty object is counted as a block
		t.Fatalf("%d bytes are on the disk, the index has %+v: %v", n, u, err)
	}
	if err := m.p.Close(); err != nil {
		t.Fatal(err)
	}
	must2(t, os.RemoveAll(m.dir))
}

func must2(t *rapid.T, err error) {
	if err != nil {
		t.Fatal(err)
	}
}
