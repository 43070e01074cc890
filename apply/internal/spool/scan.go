package spool

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
)

// Head is the head of a record with a valid checksum.
type Head struct {
	Kind   uint8
	Number uint64
	Offset int64 // of the head in the file
	// MetaBytes and DataBytes are the lengths of the payload's two parts.
	MetaBytes, DataBytes int64
}

// DataOffset returns the offset of the data in the file.
func (h *Head) DataOffset() int64 { return h.Offset + HeadBytes + h.MetaBytes }

// End returns the offset at which the record ends.
func (h *Head) End() int64 { return h.DataOffset() + h.DataBytes }

// Scanner reads the records of a spool. It keeps the tables of one record, and no data.
type Scanner struct {
	f     io.ReaderAt
	from  int64
	size  int64
	nonce nonce
	buf   []byte
	meta  []byte
	// window is what was read last of heads and small records, from the offset start on.
	window   []byte
	start    int64
	small    bool  // the record of the last head was small
	last     int64 // offset of the last head
	adjacent bool  // the head before that was at most windowBytes away
}

const (
	// scanBytes is how much is read at once.
	scanBytes = 256 << 10
	// Records of at most smallRecord bytes that are close to the last one are read windowBytes at a
	// time, windowBefore of them before the record, because neighbours may lie in any order. Others
	// are read alone, which is many times as fast for them.
	smallRecord  = 4 << 10
	windowBytes  = 128 << 10
	windowBefore = 16 << 10
)

// NewScanner returns a scanner of the records that follow a header.
func NewScanner(f io.ReaderAt, h *Header) *Scanner {
	return newScanner(f, int64(len(h.bytes)), h.size, h.nonce)
}

func newScanner(f io.ReaderAt, from, size int64, n nonce) *Scanner {
	return &Scanner{f: f, from: from, size: size, nonce: n, buf: make([]byte, scanBytes)}
}

// Records calls each for every complete record, in file order, with its tables, which are valid
// during the call. It skips torn records between complete ones. It returns the offset at which the
// last record ends.
func (s *Scanner) Records(ctx context.Context, each func(h Head, meta []byte) error) (end int64, err error) {
	end = s.from
	for at := s.from; ; {
		if err := ctx.Err(); err != nil {
			return end, context.Cause(ctx)
		}
		h, ok, err := s.head(at)
		if err != nil {
			return end, err
		}
		if ok {
			if ok, err = s.payload(ctx, &h); err != nil {
				return end, err
			}
		}
		if !ok {
			if at, ok, err = s.search(ctx, at+1); err != nil || !ok {
				return end, err
			}
			continue
		}
		if err := each(h, s.meta); err != nil {
			return end, err
		}
		end = h.End()
		at = end
	}
}

// blocks returns the numbers below total of the blocks in the spool. It reads only the heads of
// records: a block whose data is damaged counts.
func (s *Scanner) blocks(ctx context.Context, total int) (map[uint64]bool, error) {
	blocks := map[uint64]bool{}
	for at := s.from; ; {
		h, ok, err := s.head(at)
		if err == nil && !ok {
			if at, ok, err = s.search(ctx, at+1); err == nil && ok {
				continue
			}
		}
		if err != nil || !ok {
			return blocks, err
		}
		if h.Kind == KindBlock && h.Number < uint64(max(0, total)) {
			blocks[h.Number] = true
		}
		at = h.End()
	}
}

// head reads the head of a record; it returns false if there is none.
func (s *Scanner) head(at int64) (Head, bool, error) {
	if at+HeadBytes > s.size {
		return Head{}, false, nil
	}
	s.adjacent = max(at-s.last, s.last-at) <= windowBytes
	s.last = at
	b, err := s.read(at, HeadBytes)
	if err != nil {
		return Head{}, false, err
	}
	h, ok := s.parse(b, at)
	s.small = ok && h.End()-at <= smallRecord
	return h, ok, nil
}

// read returns n bytes of the file, valid until the next call; n is at most smallRecord.
func (s *Scanner) read(at int64, n int) ([]byte, error) {
	if from := at - s.start; from >= 0 && from+int64(n) <= int64(len(s.window)) {
		return s.window[from : from+int64(n)], nil
	}
	start, length := at, int64(n)
	if s.small && s.adjacent {
		start = max(0, at-windowBefore)
		length = max(at+int64(n), min(s.size, start+windowBytes)) - start
	}
	if int64(cap(s.window)) < length {
		s.window = make([]byte, length)
	}
	got, err := s.f.ReadAt(s.window[:length], start)
	s.window, s.start = s.window[:got], start
	if int64(got) < at+int64(n)-start { // the file may have been cut off behind the record
		return nil, err
	}
	return s.window[at-start : at-start+int64(n)], nil
}

// readMeta reads the tables of a record into s.meta.
func (s *Scanner) readMeta(h *Head) error {
	if int64(cap(s.meta)) < h.MetaBytes {
		s.meta = make([]byte, h.MetaBytes)
	}
	s.meta = s.meta[:h.MetaBytes]
	if !s.small {
		_, err := s.f.ReadAt(s.meta, h.Offset+HeadBytes)
		return err
	}
	b, err := s.read(h.Offset+HeadBytes, len(s.meta))
	copy(s.meta, b)
	return err
}

// parse reads the head of a record from its bytes.
func (s *Scanner) parse(b []byte, at int64) (Head, bool) {
	le := binary.LittleEndian
	if string(b[:4]) != recordMagic || le.Uint32(b[36:]) != s.nonce.sum(b[:36]) {
		return Head{}, false
	}
	h := Head{Kind: b[4], Number: le.Uint64(b[8:]), Offset: at, MetaBytes: int64(le.Uint64(b[16:])),
		DataBytes: int64(le.Uint64(b[24:]))}
	free := s.size - at - HeadBytes
	return h, h.MetaBytes >= 0 && h.MetaBytes <= free && h.DataBytes >= 0 && h.DataBytes <= free-h.MetaBytes
}

// payload reads the tables of a record, and checks the checksum of its payload.
func (s *Scanner) payload(ctx context.Context, h *Head) (bool, error) {
	b, err := s.read(h.Offset+32, 4)
	if err != nil {
		return false, err
	}
	want := binary.LittleEndian.Uint32(b)
	if err := s.readMeta(h); err != nil {
		return false, ignoreEOF(err)
	}
	sum := crc32.Checksum(s.meta, castagnoli)
	if s.small {
		data, err := s.read(h.DataOffset(), int(h.DataBytes))
		return err == nil && crc32.Update(sum, castagnoli, data) == want, ignoreEOF(err)
	}
	for at, left := h.DataOffset(), h.DataBytes; left > 0; {
		if err := ctx.Err(); err != nil {
			return false, context.Cause(ctx)
		}
		b := s.buf[:min(left, int64(len(s.buf)))]
		if _, err := s.f.ReadAt(b, at); err != nil {
			return false, ignoreEOF(err)
		}
		sum = crc32.Update(sum, castagnoli, b)
		at, left = at+int64(len(b)), left-int64(len(b))
	}
	return sum == want, nil
}

// search looks for the next head of a record from an offset on.
func (s *Scanner) search(ctx context.Context, at int64) (int64, bool, error) {
	for at+HeadBytes <= s.size {
		if err := ctx.Err(); err != nil {
			return 0, false, context.Cause(ctx)
		}
		b := s.buf[:min(s.size-at, int64(len(s.buf)))]
		if _, err := s.f.ReadAt(b, at); err != nil {
			return 0, false, ignoreEOF(err)
		}
		last := len(b) - HeadBytes // a head that begins after it is found in the next buffer
		for i := 0; i <= last; i++ {
			n := bytes.Index(b[i:], []byte(recordMagic))
			if n < 0 || i+n > last {
				break
			}
			i += n
			if _, ok := s.parse(b[i:i+HeadBytes], at+int64(i)); ok {
				return at + int64(i), true, nil
			}
		}
		at += int64(last) + 1
	}
	return 0, false, nil
}

// ignoreEOF returns nil for the error of a file that was truncated, else err.
func ignoreEOF(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return nil
	}
	return err
}
