package stage

import (
	"context"
	"hash"
	"hash/crc32"
	"io"
	"sync"

	"golang.org/x/sync/errgroup"

	"leat/stage/internal/shelf"
)

// bufferSize is what a copy reads before it writes: a read of a connection gives 16 to 32 KiB, and each write to the disk has its price.
const bufferSize = 128 << 10

var buffers = sync.Pool{New: func() any { b := make([]byte, bufferSize); return &b }}

func getBuffer() *[]byte  { return buffers.Get().(*[]byte) }
func putBuffer(b *[]byte) { buffers.Put(b) }

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

type summing struct{ crc uint32 }

func (s *summing) add(b []byte) { s.crc = crc32.Update(s.crc, castagnoli, b) }

// part is a piece of an object on its way to the disk.
type part struct {
	summing
	w     *writing
	at    int64 // where it begins
	n     int64 // bytes written
	limit int64 // that there must be; -1: not known
	md5   hash.Hash
}

// from writes all that body gives.
func (t *part) from(body io.Reader) error {
	if wt, ok := body.(io.WriterTo); ok { // bytes in memory are not copied once more
		if _, err := wt.WriteTo(t); err != nil {
			return err
		}
		return t.ended()
	}
	buf := getBuffer()
	defer putBuffer(buf)
	for {
		n, err := fillBuffer(body, *buf)
		if n > 0 {
			if _, err := t.Write((*buf)[:n]); err != nil {
				return err
			}
		}
		switch {
		case err == io.EOF:
			return t.ended()
		case err != nil:
			return err
		}
	}
}

// fillBuffer reads until b is full or there is an error. io.ReadFull's own for a short end could not be told from that of a body that broke off.
func fillBuffer(r io.Reader, b []byte) (n int, err error) {
	for n < len(b) && err == nil {
		var k int
		k, err = r.Read(b[n:])
		n += k
	}
	return n, err
}

// ended checks that a part is whole.
func (t *part) ended() error {
	if t.limit >= 0 {
		return wrongSize(t.w.it.id, t.at+t.n, t.at+t.limit)
	}
	return nil
}

// Write writes the next bytes.
func (t *part) Write(b []byte) (int, error) {
	if t.limit >= 0 && int64(len(b)) > t.limit-t.n {
		return 0, wrongSize(t.w.it.id, t.at+t.n+int64(len(b)), t.at+t.limit)
	}
	if err := t.w.ctx.Err(); err != nil {
		return 0, err
	}
	if t.limit < 0 {
		// Room first, then the bytes.
		if need := shelf.Charge(t.at+t.n+int64(len(b))) - t.w.room.Charge(); need > 0 && !t.w.p.grow(t.w.room, need) {
			return 0, errNoRoom
		}
	}
	t.add(b)
	if t.md5 != nil {
		t.md5.Write(b)
	}
	for done, tries := 0, 0; done < len(b); {
		n, err := t.w.draft.WriteAt(b[done:], t.at+t.n)
		done, t.n = done+n, t.n+int64(n)
		if err != nil {
			if tries++; shelf.Full(err) && tries < 4 && t.w.p.freeDisk(int64(len(b))) {
				continue
			}
			return done, &diskError{err}
		}
	}
	if t.limit < 0 {
		t.w.done = t.at + t.n
	}
	return len(b), nil
}

// parts reads an object by several requests at the same time, all of the version that the first, whose body is given, was of. It returns
// the checksum of the whole.
func (w *writing) parts(first *part, body io.Reader) (uint32, error) {
	step := w.p.o.RangeBytes
	n := int((w.info.Size + step - 1) / step)
	sums := make([]uint32, n)
	lengths := make([]int64, n)
	g, ctx := errgroup.WithContext(w.ctx)
	g.SetLimit(w.p.o.Ranges)
	g.Go(func() error {
		err := first.from(body)
		sums[0], lengths[0] = first.crc, first.n
		return err
	})
	for i := 1; i < n; i++ {
		select {
		case w.p.ranges <- struct{}{}: // all copies share the places for further requests
			g.Go(func() (err error) {
				defer func() { <-w.p.ranges }()
				at := int64(i) * step
				lengths[i] = min(step, w.info.Size-at)
				sums[i], err = w.part(ctx, at, lengths[i])
				return err
			})
			continue
		case <-ctx.Done():
		}
		break
	}
	if err := g.Wait(); err != nil {
		return 0, err
	}
	if err := w.ctx.Err(); err != nil {
		return 0, err
	}
	crc := sums[0]
	for i := 1; i < n; i++ {
		crc = shelf.CombineCRC32C(crc, sums[i], lengths[i])
	}
	return crc, nil
}

// part reads one part.
func (w *writing) part(ctx context.Context, at, length int64) (uint32, error) {
	_, body, err := w.p.retry().Read(ctx, w.it.src, w.it.name, at, length, &w.info)
	if err != nil {
		return 0, err
	}
	defer body.Close()
	t := part{w: w, at: at, limit: length}
	err = t.from(body)
	return t.crc, err
}

// more reads an object of unknown size to its end.
func (w *writing) more(size int64, crc uint32) (int64, uint32, error) {
	for {
		_, body, err := w.p.retry().Read(w.ctx, w.it.src, w.it.name, size, w.p.o.RangeBytes, &w.info)
		if err != nil {
			return 0, 0, err
		}
		t := part{w: w, at: size, limit: -1}
		err = t.from(body)
		body.Close()
		if err != nil {
			return 0, 0, err
		}
		crc = shelf.CombineCRC32C(crc, t.crc, t.n)
		size += t.n
		if t.n < w.p.o.RangeBytes {
			return size, crc, nil
		}
	}
}
