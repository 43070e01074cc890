package stage

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"time"

	"golang.org/x/sys/unix"

	"leat/stage/internal/index"
	"leat/stage/internal/store"
)

// isDamage reports whether an error of reading a staged object proves that its bytes are lost: the
// file is gone, too short, or replaced by something else. Other errors, such as too many open
// files, say nothing about the bytes.
func isDamage(err error) bool {
	for _, e := range []error{io.EOF, io.ErrUnexpectedEOF, fs.ErrNotExist, store.ErrNotRegular, errChecksum,
		unix.ELOOP, unix.ENXIO, unix.ENOTDIR, unix.EISDIR} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// noteUnreadable acts on an error of reading a staged object that is in use: a damaged one is
// discarded. After an error of the disk, the next use verifies the checksum, and discards the
// object if it still can't be read.
func (p *Pool) noteUnreadable(e *index.Entry, id string, err error) {
	damage := isDamage(err)
	switch {
	case damage:
		p.count(countDamaged, 1)
		e.Discard()
	case errors.Is(err, unix.EIO):
		e.ClearSound()
	}
	now := time.Now().UnixNano()
	if last := p.unreadable.Load(); damage || now-last > int64(time.Minute) && p.unreadable.CompareAndSwap(last, now) {
		p.o.Logger.Warn("staged copy not readable", "object", id, "error", err)
	}
}

// checkBytes returns an error for which [isDamage] is true if a staged object's bytes are damaged,
// or the disk can't read them. It reads them if nobody has since the machine was booted. A
// diskError says nothing about them.
func (p *Pool) checkBytes(ctx context.Context, e *index.Entry) error {
	switch ok, err := p.isComplete(e.Object); {
	case err != nil:
		return &diskError{err}
	case !ok:
		return io.ErrUnexpectedEOF
	case e.Sound:
		return nil
	}
	switch crc, err := p.checksum(ctx, e); {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, unix.EIO):
		return errChecksum // these bytes can't be verified: a new copy lies elsewhere on the disk
	case err != nil && !isDamage(err):
		return &diskError{err}
	case err != nil:
		return err
	case crc != e.CRC:
		return errChecksum
	}
	e.SetSound()
	return nil
}
