//go:build linux

package cache

import (
	"bytes"
	"errors"
	"os"
	"slices"

	"pgregory.net/rapid"
)

// open opens the cache in a process that does not have it open.
func (m *model) open(r *rapid.T) {
	closed := slices.DeleteFunc(slices.Clone(m.procs), func(p *modelProcess) bool { return p.open })
	if len(closed) == 0 {
		r.Skip()
	}
	m.openBy(r, rapid.SampledFrom(closed).Draw(r, "process"))
}

func (m *model) openBy(r *rapid.T, p *modelProcess) {
	var ways []string
	if m.path != "" {
		ways = append(ways, "open")
	}
	if m.anyHolder() != nil {
		ways = append(ways, "attach", "attach file")
	}
	if m.kept != nil {
		ways = append(ways, "load")
	}
	if len(ways) == 0 { // nobody has the nameless cache, which is gone
		m.empty()
		ways = []string{"make"}
	}
	m.openAs(r, p, rapid.SampledFrom(ways).Draw(r, "way"))
}

func (m *model) anyHolder() *modelProcess {
	for _, p := range m.procs {
		if p.open {
			return p
		}
	}
	return nil
}

// openAs opens the cache in one way. A process that can't write counts its reads for itself alone.
func (m *model) openAs(r *rapid.T, p *modelProcess, way string) {
	o := modelCall{Op: way, N: m.n, Max: m.max, Path: m.path, Dir: m.dirs[0], Hidden: m.hidden,
		Verify: Verify(rapid.IntRange(0, 2).Draw(r, "verify"))}
	f, readOnly := m.file, false
	switch way {
	case "make":
		if m.path != "" {
			o.Op = "open"
		}
	case "open":
		if rapid.Bool().Draw(r, "any limit") {
			o.Max = 0
		}
		readOnly = f.sealed
	case "attach", "attach file":
		var open []*modelProcess
		for _, q := range m.procs {
			if q.open {
				open = append(open, q)
			}
		}
		issuer := rapid.SampledFrom(open).Draw(r, "issuer")
		f, o.Handle = issuer.file, issuer.handle
		readOnly = f.sealed
		if way == "attach file" {
			m.passFile(r, p, issuer.handle)
		}
	case "load":
		f, readOnly, o.Path = m.kept, true, m.keptPath
	}
	if o.Op == "open" {
		o.Durability = Durability(rapid.IntRange(0, 2).Draw(r, "durability"))
	}
	a := p.ask(r, o)
	noError(r, a)
	if f.uuid == "" {
		f.uuid = a.UUID
	}
	path := ""
	if o.Op == "open" || o.Op == "load" {
		path = o.Path
	}
	if a.UUID != f.uuid || a.N != m.n || a.Path != path {
		r.Fatalf("%s opened %s with %d slots, path %q; not %s with %d, path %q", way, a.UUID, a.N, a.Path, f.uuid, m.n,
			path)
	}
	p.file, p.open, p.handle, p.counters = f, true, a.Handle, &f.counters
	if readOnly {
		p.counters = &modelCounters{}
	}
	m.handles = append(m.handles, a.Handle)
}

// passFile starts a process with the file of a cache as descriptor 3. This one has it open for a
// moment.
func (m *model) passFile(r *rapid.T, p *modelProcess, h Handle) {
	c, err := Attach(h, nil)
	if err != nil {
		r.Fatal(err)
	}
	f, err := c.File()
	if err := errors.Join(err, c.Close()); err != nil {
		r.Fatal(err)
	}
	m.killIt(r, p, f)
	if err := f.Close(); err != nil {
		r.Fatal(err)
	}
}

func (m *model) close(r *rapid.T) {
	p := m.proc(r) // a second time, too
	if rapid.Bool().Draw(r, "stays open") {
		r.Skip()
	}
	m.closeIt(r, p)
}

func (m *model) closeIt(r *rapid.T, p *modelProcess) {
	noError(r, p.ask(r, modelCall{Op: "close"}))
	p.open, p.handle = false, ""
}

func (m *model) kill(r *rapid.T) {
	if rapid.IntRange(0, 2).Draw(r, "seldom") < 2 {
		r.Skip()
	}
	m.killIt(r, rapid.SampledFrom(m.procs).Draw(r, "process"), nil)
}

// killIt kills a process and starts another one in its place, with a file as descriptor 3 if it is
// not nil.
func (m *model) killIt(r *rapid.T, p *modelProcess, f *os.File) {
	m.left = m.left || p.open && p.file == m.file
	p.kill()
	p.file, p.open, p.handle = nil, false, ""
	p.start(r, f)
}

// openOtherwise opens the cache with a size or limit that it does not have.
func (m *model) openOtherwise(r *rapid.T) {
	if m.path == "" {
		r.Skip()
	}
	n, max := m.n, m.max
	if rapid.Bool().Draw(r, "other n") {
		n++
	}
	// A limit that is too small for the index is another error.
	if n == m.n || max > 0 {
		max += 1 << 20
	}
	if c, err := Open(m.path, n, &Options{MaxBytes: max}); !errors.Is(err, ErrMismatch) {
		r.Fatalf("opened %v with %d slots, limit %d: %v", c, n, max, err)
	}
}

// oldHandle attaches by an earlier handle. The handle is valid while its issuer has the cache open,
// or has it open again under the same number.
func (m *model) oldHandle(r *rapid.T) {
	h := rapid.SampledFrom(m.handles).Draw(r, "handle")
	i := slices.IndexFunc(m.procs, func(p *modelProcess) bool { return p.open && p.handle == h })
	c, err := Attach(h, nil)
	if i < 0 {
		if !errors.Is(err, ErrGone) {
			r.Fatalf("attached %v by a handle whose issuer has it open no more: %v", c, err)
		}
		return
	}
	if err != nil {
		r.Fatal(err)
	}
	for _, i := range []int64{0, m.n - 1} {
		got, err := c.Get(i)
		if e, ok := m.entries[i]; ok != (err == nil) || err != nil && !errors.Is(err, ErrMiss) ||
			!bytes.Equal(e.data, got) {
			r.Fatalf("slot %d: %q, %v; not %q", i, got, err, e.data)
		}
	}
	if err := c.Close(); err != nil {
		r.Fatal(err)
	}
}
