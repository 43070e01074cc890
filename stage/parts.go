package stage

import (
	"context"
	"hash"
	"hash/crc32"
	"io"
	"sync"

	"golang.org/x/sync/errgroup"

	"leat/stage/internal/store"
)

// bufferSize is how much a copy reads before it writes. A connection returns 16 to 32 KiB per read,
// and each write has a fixed cost.
const bufferSize = 128 << 10

var buffers = sync.Pool{New: func() any { b := make([]byte, bufferSize); return &b }}

func getBuffer() *[]byte  { return buffers.Get().(*[]byte) }
func putBuffer(b *[]byte) { buffers.Put(b) }

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

type crcSum struct{ crc uint32 }

func (s *crcSum) add(b []byte) { s.crc = crc32.Update(s.crc, castagnoli, b) }

// part writes a range of an object to the disk and computes its checksum.
type part struct {
	crcSum
	w     *download
	at    int64 // offset in the object
	n     int64 // bytes written
	limit int64 // expected length; -1: unknown
	md5   hash.Hash
}

// copyFrom writes all bytes of body.
func (t *part) copyFrom(body io.Reader) error {
	if wt, ok := body.(io.WriterTo); ok { // without a copy of bytes in memory
		if _, err := wt.WriteTo(t); err != nil {
			return err
		}
		return t.checkSize()
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
			return t.checkSize()
		case err != nil:
			return err
		}
	}
}

// fillBuffer reads until b is full or an error occurs. io.ReadFull would hide whether a short body
// ended or broke off.
func fillBuffer(r io.Reader, b []byte) (n int, err error) {
	for n < len(b) && err == nil {
		var k int
		k, err = r.Read(b[n:])
		n += k
	}
	return n, err
}

// checkSize returns an error if fewer bytes were written than expected.
func (t *part) checkSize() error {
	if t.limit >= 0 {
		return wrongSize(t.w.it.id, t.at+t.n, t.at+t.limit)
	}
	return nil
}

// Write writes the next bytes of the part.
func (t *part) Write(b []byte) (int, error) {
	if t.limit >= 0 && int64(len(b)) > t.limit-t.n {
		return 0, wrongSize(t.w.it.id, t.at+t.n+int64(len(b)), t.at+t.limit)
	}
	if err := t.w.ctx.Err(); err != nil {
		return 0, err
	}
	if t.limit < 0 {
		// Reserve before writing.
		if need := store.Charge(t.at+t.n+int64(len(b))) - t.w.res.Charge(); need > 0 && !t.w.p.grow(t.w.res, need) {
			return 0, errLimitReached
		}
	}
	t.add(b)
	if t.md5 != nil {
		t.md5.Write(b)
	}
	for done, tries := 0, 0; done < len(b); {
		n, err := t.w.out.WriteAt(b[done:], t.at+t.n)
		done, t.n = done+n, t.n+int64(n)
		if err != nil {
			if tries++; store.Full(err) && tries < 4 && t.w.p.freeDisk(int64(len(b))) {
				continue
			}
			return done, &diskError{err}
		}
	}
	t.w.unfinished.received(t.at, t.n)
	if t.limit < 0 {
		t.w.done = t.at + t.n
	}
	return len(b), nil
}

// readParts reads an object by concurrent requests for one version. body is that of the first
// request, or nil. readParts returns the checksum of the whole object.
func (w *download) readParts(first *part, body io.Reader) (uint32, error) {
	rangeBytes := w.p.o.RangeBytes
	w.unfinished = w.offer()
	defer w.withdraw(w.unfinished)
	// The list grows with the requests: an announced size must not decide how much memory is used.
	firstSum := &partSum{}
	sums := []*partSum{firstSum}
	g, ctx := errgroup.WithContext(w.ctx)
	g.SetLimit(w.p.o.Ranges)
	g.Go(func() (err error) {
		if body == nil {
			firstSum.crc, err = w.readPart(ctx, 0, rangeBytes)
			return err
		}
		err = first.copyFrom(body)
		firstSum.crc = first.crc
		return err
	})
	for left := w.info.Size - rangeBytes; left > 0; left -= rangeBytes {
		at := w.info.Size - left
		sum := &partSum{length: min(rangeBytes, left)}
		select {
		case w.p.ranges <- struct{}{}: // all copies share these slots
			g.Go(func() (err error) {
				defer func() { <-w.p.ranges }()
				sum.crc, err = w.readPart(ctx, at, sum.length)
				return err
			})
			sums = append(sums, sum)
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
	crc := firstSum.crc
	for _, sum := range sums[1:] {
		crc = store.CombineCRC32C(crc, sum.crc, sum.length)
	}
	return crc, nil
}

// partSum is the checksum of a part of an object.
type partSum struct {
	crc    uint32
	length int64
}

// readPart requests one part and writes it.
func (w *download) readPart(ctx context.Context, at, length int64) (uint32, error) {
	info, body, err := w.p.retry.Read(ctx, w.it.src, w.it.name, at, length, &w.info)
	if err != nil {
		return 0, err
	}
	defer body.Close()
	// The source may describe versions in Stat alone, which does not find out about ranges either.
	if w.it.known != nil && (info.NoRanges || !info.Versioned()) {
		return 0, errNotConfirmed
	}
	t := part{w: w, at: at, limit: length}
	err = t.copyFrom(body)
	return t.crc, err
}

// readRest reads the rest of an object of unknown size.
func (w *download) readRest(size int64, crc uint32) (int64, uint32, error) {
	for {
		_, body, err := w.p.retry.Read(w.ctx, w.it.src, w.it.name, size, w.p.o.RangeBytes, &w.info)
		if err != nil {
			return 0, 0, err
		}
		t := part{w: w, at: size, limit: -1}
		err = t.copyFrom(body)
		body.Close()
		if err != nil {
			return 0, 0, err
		}
		crc = store.CombineCRC32C(crc, t.crc, t.n)
		size += t.n
		if t.n < w.p.o.RangeBytes {
			return size, crc, nil
		}
	}
}
