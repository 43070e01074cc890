//go:build unix

package stage

import (
	"context"
	"encoding/binary"
	"errors"
	"io"

	"leat/objstore"
	"leat/stage/internal/ledger"
)

// unpack makes a staged object that lies with others in a file one of its own, under the same key, and frees what it was as soon as nobody uses that. The outcome has the entry to
// use, pinned: the old one where there is no room for both meanwhile. again: the object is another one by now.
func (p *Pool) unpack(ctx context.Context, it *item, e *ledger.Entry) (o outcome, again bool) {
	unlock, ok, err := p.books.LockKey(it.key)
	if err != nil || !ok {
		e.Unpin()
		if err != nil {
			return p.cannot(err), false
		}
		return outcome{away: true}, false
	}
	now, err := p.books.FindLocked(it.key)
	if now != nil {
		now.Unpin() // e is pinned
	}
	if err != nil || now == nil || now.Place != e.Place {
		unlock()
		e.Unpin()
		if err != nil {
			return p.cannot(err), false
		}
		return outcome{}, true
	}
	f, err := p.openEntry(e)
	if err != nil {
		unlock()
		return outcome{entry: e}, false
	}
	o = p.copy(ctx, &item{p: p, src: &moved{e, f}, name: it.name, id: it.id, key: it.key, file: true, staged: e, size: e.Size, wanted: 1})
	unlock()
	if err := f.Close(); err != nil {
		p.o.Warn(err)
	}
	if o.entry == nil {
		return outcome{entry: e}, false
	}
	if _, err := e.Drop(); err != nil { // without a count: the object is still there
		p.o.Warn(err)
	}
	return o, false
}

// moved is the source of an object that is staged already.
type moved struct {
	e *ledger.Entry
	f io.ReaderAt
}

var errMoved = errors.New("stage: a staged object has no other bytes")

func (m *moved) ID(string) string { return m.e.Name }

func (m *moved) Stat(context.Context, string) (objstore.Info, error) { return *match(m.e), nil }

func (m *moved) Read(_ context.Context, _ string, offset, length int64, _ *objstore.Info) (objstore.Info, io.ReadCloser, error) {
	if offset != 0 || length >= 0 && length < m.e.Size { // packed ones are smaller than any range
		return objstore.Info{}, nil, errMoved
	}
	info := *match(m.e)
	info.Whole = true
	info.CRC32C = binary.BigEndian.AppendUint32(nil, m.e.CRC)
	return info, io.NopCloser(io.NewSectionReader(m.f, 0, m.e.Size)), nil
}
