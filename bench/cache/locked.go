package cache

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// locked is the same idea with a lock for every operation, as pfio's MultiprocessFileCache works:
// an index of offset and length from byte 0 of the file, data after it in order of arrival, a
// shared flock around each get and an exclusive one around each put, with an fsync within. Unlike
// there, the index is written after the data.
type locked struct {
	f *os.File
	n int64
}

const lockedSlot = 16 // u64 offset, i64 length: -1 where there is none

// makeLocked makes a file of n empty slots.
func makeLocked(path string, n int64) (*locked, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	index := make([]byte, n*lockedSlot)
	for i := range n {
		binary.LittleEndian.PutUint64(index[i*lockedSlot+8:], ^uint64(0))
	}
	if _, err := f.Write(index); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return &locked{f: f, n: n}, nil
}

// openLocked opens one for another process, which must not share the file: flock belongs to it.
func openLocked(path string, n int64) (*locked, error) {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	return &locked{f: f, n: n}, nil
}

func (l *locked) Close() error { return l.f.Close() }

// under does f with the file locked.
func (l *locked) under(how int, f func() error) error {
	fd := int(l.f.Fd())
	for {
		if err := unix.Flock(fd, how); err == nil {
			break
		} else if !errors.Is(err, unix.EINTR) {
			return err
		}
	}
	err := f()
	return errors.Join(err, unix.Flock(fd, unix.LOCK_UN))
}

func (l *locked) slot(i int64) (offset, length int64, err error) {
	if uint64(i) >= uint64(l.n) {
		return 0, 0, fmt.Errorf("slot %d of %d", i, l.n)
	}
	var b [lockedSlot]byte
	if _, err := unix.Pread(int(l.f.Fd()), b[:], i*lockedSlot); err != nil {
		return 0, 0, err
	}
	return int64(binary.LittleEndian.Uint64(b[:])), int64(binary.LittleEndian.Uint64(b[8:])), nil
}

// get returns entry i, in buf if that is long enough; nil where there is none.
func (l *locked) get(i int64, buf []byte) (b []byte, err error) {
	err = l.under(unix.LOCK_SH, func() error {
		offset, length, err := l.slot(i)
		if err != nil || length < 0 {
			return err
		}
		if int64(cap(buf)) < length {
			buf = make([]byte, length)
		}
		b = buf[:length]
		n, err := unix.Pread(int(l.f.Fd()), b, offset)
		if err == nil && int64(n) < length {
			err = io.ErrUnexpectedEOF
		}
		return err
	})
	return b, err
}

// put stores entry i, unless there is one.
func (l *locked) put(i int64, data []byte, sync bool) (stored bool, err error) {
	err = l.under(unix.LOCK_EX, func() error {
		_, length, err := l.slot(i)
		if err != nil || length >= 0 {
			return err
		}
		end, err := l.f.Seek(0, io.SeekEnd)
		if err != nil {
			return err
		}
		if _, err := l.f.WriteAt(data, end); err != nil {
			return err
		}
		var b [lockedSlot]byte
		binary.LittleEndian.PutUint64(b[:], uint64(end))
		binary.LittleEndian.PutUint64(b[8:], uint64(len(data)))
		if _, err := l.f.WriteAt(b[:], i*lockedSlot); err != nil {
			return err
		}
		stored = true
		if sync {
			return l.f.Sync()
		}
		return nil
	})
	return stored, err
}
