//go:build linux

package cache

import (
	"bytes"
	"io"
	"testing"

	"golang.org/x/sys/unix"
)

// counted counts what is read, and fails at failAt.
type counted struct {
	io.ReaderAt
	read   int64
	failAt int64
}

func (r *counted) ReadAt(b []byte, at int64) (int, error) {
	if r.failAt > 0 && at+int64(len(b)) > r.failAt {
		return 0, errTest
	}
	r.read += int64(len(b))
	return r.ReaderAt.ReadAt(b, at)
}

func TestTryPutFrom(t *testing.T) {
	c := create(t, 10, nil)
	data := bytes.Repeat([]byte("0123456789abcdef"), 200_000) // three pieces and a part
	for i, n := range []int64{0, 1, 1 << 20, int64(len(data))} {
		r := &counted{ReaderAt: bytes.NewReader(data)}
		if o := ok(c.TryPutFrom(int64(i), r, n))(t); o != Stored || r.read != n {
			t.Errorf("%d bytes: %v, %d read", n, o, r.read)
		}
		wantEntry(t, c, int64(i), string(data[:n]))
	}
	if o := ok(c.TryPutFrom(1, &counted{failAt: 1}, 5))(t); o != AlreadyFilled {
		t.Errorf("a filled slot: %v", o)
	}
	if rep := check(t, c); !rep.OK() || rep.FilledSlots != 4 || rep.DeadBytes != 0 {
		t.Errorf("%+v", rep)
	}
}

func TestTryPutFromFailingReader(t *testing.T) {
	c := create(t, 10, nil)
	put(t, c, 0, "entry")
	before := stats(t, c)
	data := bytes.NewReader(make([]byte, 3<<20))
	_, err := c.TryPutFrom(1, data, 3<<20+1)
	wantErr(t, err, io.ErrUnexpectedEOF)
	_, err = c.TryPutFrom(1, &counted{ReaderAt: data, failAt: 2 << 20}, 3<<20)
	wantErr(t, err, errTest)
	if _, err = c.TryPutFrom(1, data, -1); err == nil {
		t.Error("a length below 0 was taken")
	}
	wantMiss(t, c, 1)
	if s := stats(t, c); s != before {
		t.Errorf("%+v, before %+v", s, before)
	}
	// The reader's disk is full or fails, not the cache's.
	_, err = c.TryPutFrom(1, fullReader{}, 10)
	wantErr(t, err, unix.ENOSPC)
}

type fullReader struct{}

func (fullReader) ReadAt([]byte, int64) (int, error) { return 0, unix.ENOSPC }
