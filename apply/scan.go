package apply

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
)

// found is a record of a spool with valid checksums.
type found struct {
	kind         uint8
	number       uint64
	at           int64 // offset of its head
	tables, data int64 // lengths of the payload's two parts
}

// dataAt returns the offset of the data.
func (f *found) dataAt() int64 { return f.at + recordHead + f.tables }

// scanner reads the records of a spool. It keeps the tables of one record, and no data.
type scanner struct {
	f     io.ReaderAt
	size  int64
	nonce nonce
	buf   []byte
	meta  []byte
}

// scanBytes is how much is read at once.
const scanBytes = 256 << 10

func newScanner(f io.ReaderAt, size int64, n nonce) *scanner {
	return &scanner{f: f, size: size, nonce: n, buf: make([]byte, scanBytes)}
}

// records calls each for every complete record from an offset on, in file order, with its tables,
// which are valid during the call. It skips torn records between complete ones. It returns the
// offset at which the last record ends.
func (s *scanner) records(ctx context.Context, from int64, each func(f found, tables []byte) error) (end int64,
	err error) {
	end = from
	for at := from; ; {
		if err := ctx.Err(); err != nil {
			return end, context.Cause(ctx)
		}
		f, ok, err := s.head(at)
		if err != nil {
			return end, err
		}
		if ok {
			if ok, err = s.payload(ctx, &f); err != nil {
				return end, err
			}
		}
		if !ok {
			if at, ok, err = s.search(ctx, at+1); err != nil || !ok {
				return end, err
			}
			continue
		}
		if err := each(f, s.meta); err != nil {
			return end, err
		}
		end = f.dataAt() + f.data
		at = end
	}
}

// head reads the head of a record; it returns false if there is none.
func (s *scanner) head(at int64) (found, bool, error) {
	var b [recordHead]byte
	if at+recordHead > s.size {
		return found{}, false, nil
	}
	if _, err := s.f.ReadAt(b[:], at); err != nil {
		return found{}, false, err
	}
	f, ok := s.parse(b[:], at)
	return f, ok, nil
}

// parse reads the head of a record from its bytes.
func (s *scanner) parse(b []byte, at int64) (found, bool) {
	le := binary.LittleEndian
	if string(b[:4]) != recordMagic || le.Uint32(b[36:]) != s.nonce.sum(b[:36]) {
		return found{}, false
	}
	f := found{kind: b[4], number: le.Uint64(b[8:]), at: at, tables: int64(le.Uint64(b[16:])),
		data: int64(le.Uint64(b[24:]))}
	free := s.size - at - recordHead
	return f, f.tables >= 0 && f.tables <= free && f.data >= 0 && f.data <= free-f.tables
}

// payload reads the tables of a record, and checks the checksum of its payload.
func (s *scanner) payload(ctx context.Context, f *found) (bool, error) {
	var want [4]byte
	if _, err := s.f.ReadAt(want[:], f.at+32); err != nil {
		return false, err
	}
	if int64(cap(s.meta)) < f.tables {
		s.meta = make([]byte, f.tables)
	}
	s.meta = s.meta[:f.tables]
	if _, err := s.f.ReadAt(s.meta, f.at+recordHead); err != nil {
		return false, ignoreEOF(err)
	}
	sum := crc32.Checksum(s.meta, castagnoli)
	for at, left := f.dataAt(), f.data; left > 0; {
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
	return sum == binary.LittleEndian.Uint32(want[:]), nil
}

// search looks for the next head of a record from an offset on.
func (s *scanner) search(ctx context.Context, at int64) (int64, bool, error) {
	for at+recordHead <= s.size {
		if err := ctx.Err(); err != nil {
			return 0, false, context.Cause(ctx)
		}
		b := s.buf[:min(s.size-at, int64(len(s.buf)))]
		if _, err := s.f.ReadAt(b, at); err != nil {
			return 0, false, ignoreEOF(err)
		}
		last := len(b) - recordHead // a head that begins after it is found in the next buffer
		for i := 0; i <= last; i++ {
			n := bytes.Index(b[i:], []byte(recordMagic))
			if n < 0 || i+n > last {
				break
			}
			i += n
			if _, ok := s.parse(b[i:i+recordHead], at+int64(i)); ok {
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
