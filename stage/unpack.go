//go:build unix

package stage

import (
	"context"
	"encoding/binary"
	"errors"
	"io"

	"leat/objstore"
	"leat/stage/internal/index"
)

// unpack moves a packed object to a file of its own under the same key; the old copy is freed once
// nobody uses it. The outcome has the pinned entry to use: the old one if there is no space for
// both. again reports that the object was replaced meanwhile or is damaged.
func (p *Pool) unpack(ctx context.Context, it *item, e *index.Entry) (o outcome, again bool) {
	unlock, ok, err := p.index.LockKey(it.key)
	if err != nil || !ok {
		e.Unpin()
		if err != nil {
			return p.unstageable(err), false
		}
		return outcome{busy: true}, false
	}
	now, err := p.index.FindLocked(it.key)
	if now != nil {
		now.Unpin() // e stays pinned
	}
	if err != nil || now == nil || now.Place != e.Place {
		unlock()
		e.Unpin()
		if err != nil {
			return p.unstageable(err), false
		}
		return outcome{}, true
	}
	f, err := p.openEntry(e)
	if err != nil {
		unlock()
		return outcome{entry: e}, false
	}
	o = p.copy(ctx, &item{p: p, src: &entrySource{e, f}, name: it.name, id: it.id, key: it.key, file: true, staged: e,
		size: e.Size, wanted: 1})
	unlock()
	if err := f.Close(); err != nil {
		p.o.Logger.Warn("closing staged file failed", "object", it.id, "error", err)
	}
	if o.entry == nil {
		if ctx.Err() == nil && isDamage(o.err) {
			p.count(countDamaged, 1)
			e.Discard()
			p.unuse(e, true)
			return outcome{}, true
		}
		return outcome{entry: e}, false
	}
	if _, err := e.Drop(); err != nil { // not counted as evicted: the object is still there
		p.o.Logger.Warn("removing staged object failed", "object", it.id, "error", err)
	}
	return o, false
}

// entrySource is the source of an object that is staged already.
type entrySource struct {
	e *index.Entry
	f io.ReaderAt
}

var errPartialRead = errors.New("a staged object is read only as a whole")

func (m *entrySource) ID(string) string { return m.e.Name }

func (m *entrySource) Stat(context.Context, string) (objstore.Info, error) { return *infoOf(m.e), nil }

func (m *entrySource) Read(_ context.Context, _ string, offset, length int64, _ *objstore.Info) (objstore.Info,
	io.ReadCloser, error) {
	if offset != 0 || length >= 0 && length < m.e.Size { // packed objects are smaller than any range
		return objstore.Info{}, nil, errPartialRead
	}
	info := *infoOf(m.e)
	info.NoRanges = true
	info.CRC32C = binary.BigEndian.AppendUint32(nil, m.e.CRC)
	return info, io.NopCloser(io.NewSectionReader(m.f, 0, m.e.Size)), nil
}
