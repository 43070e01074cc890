package stage

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"leat/objstore"
)

// Put stages data that the program passes to it. The data counts toward the limits like any object.
// The pool owns data from then on. If there is no space for it, the data stays in memory. Other
// pools can't see it, and Release removes it.
func (p *Pool) Put(data []byte, name string) *Ref {
	id := "put:" + rand.Text() + "/" + name
	src := &memSource{id: id, modified: time.Now(), data: data}
	p.mu.Lock()
	defer p.mu.Unlock()
	it := &item{p: p, src: src, name: name, id: id, key: keyOf(id), drop: true, state: idle, size: int64(len(data))}
	if p.stopping {
		return newRef(it, false)
	}
	p.items[it.key] = it
	it.refs++
	p.enqueue(it)
	return newRef(it, true)
}

// memSource is the source of data passed to Put, until it is staged.
type memSource struct {
	id       string
	modified time.Time
	mu       sync.Mutex
	data     []byte
	gone     bool
}

var errForgotten = errors.New("data passed to Put is lost: its copy on the disk can't be read")

func (g *memSource) forget() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.data, g.gone = nil, true
}

func (g *memSource) ID(string) string { return g.id }

func (g *memSource) Describe(name string) SourceInfo {
	return SourceInfo{Source: "put:", Index: -1, Files: []string{name}}
}

func (g *memSource) Stat(_ context.Context, name string) (objstore.Info, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.gone {
		return objstore.Info{}, errForgotten
	}
	return objstore.Info{Name: name, Size: int64(len(g.data)), ModTime: g.modified}, nil
}

func (g *memSource) Read(ctx context.Context, name string, offset, length int64, _ *objstore.Info) (objstore.Info,
	io.ReadCloser, error) {
	info, err := g.Stat(ctx, name)
	if err != nil {
		return info, nil, err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return info, memory(g.data, offset, length), nil
}

// memory returns a reader of a range of data, without a copy.
func memory(data []byte, offset, length int64) io.ReadCloser {
	data = data[min(offset, int64(len(data))):]
	if length >= 0 && length < int64(len(data)) {
		data = data[:length]
	}
	return memoryBody{bytes.NewReader(data)}
}

type memoryBody struct{ *bytes.Reader }

func (memoryBody) Close() error { return nil }

// asFile copies an object to a file of its own, in addition to the existing copy, and opens it.
func (p *Pool) asFile(r *Reader) (*Reader, error) {
	if !p.stages() {
		return nil, fmt.Errorf("%w for a file of %s: the pool stages nothing", ErrNoSpace, r.it.id)
	}
	version := r.Version()
	var sum uint32 // distinguishes unversioned objects
	if r.e != nil {
		sum = r.e.CRC
	}
	key := keyOf(fmt.Sprintf("file\x00%s\x00%x\x00%x", r.it.id, versionOf(version), sum))
	p.mu.Lock()
	if p.stopping {
		p.mu.Unlock()
		return nil, ErrClosed
	}
	it := p.items[key]
	if it == nil {
		it = &item{p: p, name: r.it.name, id: r.it.id + "#file", key: key,
			file: true, drop: r.it.drop, size: version.Size}
		p.items[key] = it
	}
	if it.state == idle || it.state == failed { // another Reader may be closed
		it.src = &readerSource{r, version}
	}
	it.refs++
	p.mu.Unlock()
	f, err := p.open(p.ctx, it)
	if err != nil {
		p.release(it)
		return nil, err
	}
	if !f.Staged() {
		err := fmt.Errorf("%w for a file of the %d bytes of %s", ErrNoSpace,
			version.Size, r.it.id)
		return nil, errors.Join(err, f.Close())
	}
	p.mu.Lock()
	it.src, f.src = r.src, r.src // neither may reference r, which would then never be collected
	p.mu.Unlock()
	return f.guarded(), nil
}

// readerSource is the source of an object that a Reader has open. It is in use only during a call
// of Reader.Path, and stays usable until that call ends.
type readerSource struct {
	r       *Reader
	version objstore.Info
}

func (a *readerSource) ID(string) string { return a.r.it.id + "#file" }

func (a *readerSource) Describe(string) SourceInfo { return a.r.describe() }

func (a *readerSource) Stat(context.Context, string) (objstore.Info, error) { return a.version, nil }

func (a *readerSource) Read(_ context.Context, _ string, offset, length int64, _ *objstore.Info) (objstore.Info,
	io.ReadCloser, error) {
	if length < 0 {
		length = a.r.Size()
	}
	return a.version, io.NopCloser(io.NewSectionReader(a, offset, length)), nil
}

func (a *readerSource) ReadAt(b []byte, at int64) (int, error) {
	return a.r.readInUse(a.r.it.p.ctx, b, at)
}
