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

// Put stages bytes that come from the program itself; they are counted in the limits like all others. data belongs to the pool from now on. Where there
// is no room they stay in memory. They are the pool's alone, and gone after Release.
func (p *Pool) Put(data []byte, name string) *Lazy {
	id := "put:" + rand.Text() + "/" + name
	src := &given{id: id, at: time.Now(), data: data}
	p.mu.Lock()
	defer p.mu.Unlock()
	it := &item{p: p, src: src, name: name, id: id, key: keyOf(id), drop: true, state: idle, size: int64(len(data))}
	if p.stopping {
		return newLazy(it, false)
	}
	p.items[it.key] = it
	it.refs++
	p.enqueue(it)
	return newLazy(it, true)
}

// given is a source of bytes that the program gave, until they are staged.
type given struct {
	id   string
	at   time.Time
	mu   sync.Mutex
	data []byte
	gone bool
}

var errForgotten = errors.New("stage: bytes that were put are lost, for the disk can't be read")

func (g *given) forget() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.data, g.gone = nil, true
}

func (g *given) ID(string) string { return g.id }

func (g *given) Describe(name string) SourceInfo {
	return SourceInfo{Source: "put:", Index: -1, Files: []string{name}}
}

func (g *given) Stat(_ context.Context, name string) (objstore.Info, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.gone {
		return objstore.Info{}, errForgotten
	}
	return objstore.Info{Name: name, Size: int64(len(g.data)), ModTime: g.at}, nil
}

func (g *given) Read(ctx context.Context, name string, offset, length int64, _ *objstore.Info) (objstore.Info, io.ReadCloser, error) {
	info, err := g.Stat(ctx, name)
	if err != nil {
		return info, nil, err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return info, memory(g.data, offset, length), nil
}

// memory is a body of bytes in memory, which are not copied on their way.
func memory(data []byte, offset, length int64) io.ReadCloser {
	data = data[min(offset, int64(len(data))):]
	if length >= 0 && length < int64(len(data)) {
		data = data[:length]
	}
	return memoryBody{bytes.NewReader(data)}
}

type memoryBody struct{ *bytes.Reader }

func (memoryBody) Close() error { return nil }

// asFile makes an object a file of its own, beside what it is, for who wants its path.
func (p *Pool) asFile(r *Reader) (*Reader, error) {
	version := r.Version()
	var sum uint32 // tells apart what has no other version
	if r.e != nil {
		sum = r.e.CRC
	}
	key := keyOf(fmt.Sprintf("file\x00%s\x00%x\x00%x", r.h.it.id, versionOf(version), sum))
	p.mu.Lock()
	if p.stopping {
		p.mu.Unlock()
		return nil, ErrClosed
	}
	it := p.items[key]
	if it == nil {
		it = &item{p: p, src: &again{r, version}, name: r.h.it.name, id: r.h.it.id + "#file", key: key, file: true, drop: r.h.it.drop, size: version.Size}
		p.items[key] = it
	}
	it.refs++
	p.mu.Unlock()
	f, err := p.open(p.ctx, it)
	if err != nil {
		p.release(it)
		return nil, err
	}
	if !f.Staged() {
		return nil, errors.Join(fmt.Errorf("%w for a file of the %d bytes of %s: set a higher limit, or release others first", ErrNoRoom, version.Size, r.h.it.id), f.Close())
	}
	p.mu.Lock()
	it.src = r.h.it.src // what the file's item keeps must not keep the Reader, which would never be found forgotten
	p.mu.Unlock()
	return f, nil
}

// again is the source of an object that a Reader has open.
type again struct {
	r       *Reader
	version objstore.Info
}

func (a *again) ID(string) string { return a.r.h.it.id + "#file" }

func (a *again) Describe(string) SourceInfo { return a.r.Info() }

func (a *again) Stat(context.Context, string) (objstore.Info, error) { return a.version, nil }

func (a *again) Read(_ context.Context, _ string, offset, length int64, _ *objstore.Info) (objstore.Info, io.ReadCloser, error) {
	if length < 0 {
		length = a.r.Size()
	}
	return a.version, io.NopCloser(io.NewSectionReader(a.r, offset, length)), nil
}
