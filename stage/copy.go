package stage

import (
	"bytes"
	"context"
	"crypto/md5"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"time"

	"golang.org/x/sys/unix"

	"leat/internal/fault"
	"leat/objstore"
	"leat/stage/internal/ledger"
	"leat/stage/internal/shelf"
)

// outcome is what an attempt came to. None of entry, away and err: there is no room.
type outcome struct {
	entry *ledger.Entry // staged, and pinned
	away  bool          // another process is at it
	never bool          // it can't be staged now: it is too large, the disk is full, or the directory has failed
	cause error         // what failed of the directory
	size  int64         // of the object, once known
	err   error

	cancelled bool // the attempt was
}

// attempt finds an item in the directory, or copies it there.
func (p *Pool) attempt(ctx context.Context, it *item) outcome {
	for tries := 0; ; tries++ {
		e, err := p.books.Find(it.key)
		if err != nil {
			return p.cannot(err)
		}
		if e == nil {
			unlock, ok, err := p.books.LockKey(it.key)
			if err != nil {
				return p.cannot(err)
			}
			if !ok {
				return outcome{away: true}
			}
			if e, err = p.books.FindLocked(it.key); e == nil && err == nil {
				o := p.copy(ctx, it)
				unlock()
				if tries < 2 && (errors.Is(o.err, objstore.ErrChanged) || errors.Is(o.err, errChecksum)) {
					p.count(countRetries, 1)
					continue // replaced while it was read: the new version then
				}
				if o.err != nil && ctx.Err() == nil {
					p.count(countErrors, 1)
				}
				return o
			}
			unlock()
			if err != nil {
				return p.cannot(err)
			}
		}
		switch ok, err := p.current(ctx, it, e); {
		case err != nil:
			e.Unpin()
			var disk *diskError
			if errors.As(err, &disk) {
				return p.cannot(err)
			}
			p.count(countErrors, 1)
			return outcome{err: err}
		case ok:
			if it.file && e.Place.Packed() {
				o, again := p.unpack(ctx, it, e)
				if again {
					continue
				}
				if e = o.entry; e == nil {
					return o
				}
			}
			if it.shared {
				p.count(countShared, 1)
			} else {
				p.count(countHits, 1)
			}
			return outcome{entry: e}
		}
		p.giveUp(e, true) // it is found no more: its room is free as soon as nobody uses it
	}
}

// cannot is the outcome where the books can't take an object: it is read without them.
func (p *Pool) cannot(err error) outcome {
	p.warnOnce(err)
	return outcome{never: true, cause: err}
}

// current tells whether what is staged may be served: whether its bytes are sound and the source still has this version.
func (p *Pool) current(ctx context.Context, it *item, e *ledger.Entry) (bool, error) {
	if !e.Sound {
		if crc, err := p.checksum(ctx, e); err != nil || crc != e.CRC {
			switch {
			case ctx.Err() != nil:
				return false, ctx.Err()
			case errors.Is(err, unix.EMFILE), errors.Is(err, unix.ENFILE), errors.Is(err, unix.ENOMEM), errors.Is(err, unix.EINTR):
				return false, &diskError{err} // which says nothing of the bytes
			}
			p.count(countDamaged, 1)
			e.Discard()
			return false, nil
		}
		e.SetSound()
	}
	if p.fresh(e.Checked) {
		return true, nil
	}
	now := time.Now()
	p.count(countChecks, 1)
	info, err := p.retry().Stat(ctx, it.src, it.name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		e.Discard()
		return false, err
	case err != nil:
		return false, err
	case !info.Versioned(), versionOf(info) != e.Version: // of equal sizes it may be another one
		p.count(countChanged, 1)
		e.Discard()
		return false, nil
	}
	e.SetChecked(now)
	return true, nil
}

// copy copies an item whose key is locked.
func (p *Pool) copy(ctx context.Context, it *item) outcome {
	checked := time.Now()
	if it.size > p.o.MaxBytes || shelf.Charge(it.size) > p.o.MaxBytes {
		return p.tooLarge(it.size)
	}
	room, o := p.roomFor(ctx, it)
	if room == nil {
		return o
	}
	freed := true // whatever the copy wrote
	defer func() {
		switch {
		case room == nil:
		case freed:
			room.Release()
		default:
			room.Abandon()
		}
	}()
	if it.staged == nil {
		p.count(countReads, 1)
	}
	info, body, err := p.begin(ctx, it)
	if err != nil {
		return outcome{err: err}
	}
	defer body.Close()
	switch need := shelf.Charge(info.Size); {
	case info.Size < 0:
		// Room is taken as the bytes come.
	case info.Size > p.o.MaxBytes, need > p.o.MaxBytes:
		return p.tooLarge(info.Size)
	case need > room.Charge() && !p.grow(room, need-room.Charge()):
		return outcome{size: info.Size}
	case need < room.Charge():
		room.Shrink(room.Charge() - need)
	}
	ext := shelf.Ext(it.name)
	create := p.shelf.Create
	if it.file {
		create = p.shelf.CreateFile
	}
	draft, err := create(info.Size, ext)
	if shelf.Full(err) && p.freeDisk(room.Charge()) {
		draft, err = create(info.Size, ext)
	}
	if err != nil {
		return p.notWritten(&diskError{err}, info.Size)
	}
	defer func() {
		if err := draft.Close(); err != nil {
			freed = false
			p.o.Warn(err)
		}
	}()
	room.Writes(draft.Place())
	fault.Point("stage.copying")
	w := &writing{p: p, ctx: ctx, it: it, info: info, draft: draft, room: room}
	size, crc, err := w.all(body)
	if err != nil {
		return p.notWritten(err, w.size())
	}
	if err := draft.Commit(size); err != nil {
		return p.notWritten(&diskError{err}, size)
	}
	fault.Point("stage.copied")
	object := ledger.Object{Key: it.key, Version: versionOf(info), Size: size, Charge: shelf.Charge(size), Place: draft.Place(),
		CRC: crc, Name: it.id, ETag: info.ETag, Modified: info.ModTime, Checked: checked}
	if it.staged != nil {
		object.Version, object.Checked = it.staged.Version, it.staged.Checked
	}
	e, err := p.books.Publish(room, object)
	if err != nil {
		if err := p.shelf.Free(draft.Place(), room.Charge()); err != nil {
			freed = false
			p.o.Warn(err)
		}
		return p.cannot(err)
	}
	room = nil
	if it.staged != nil {
		return outcome{entry: e, size: size}
	}
	p.seen.Store(size)
	p.count(countMisses, 1)
	p.count(countBytes, size)
	return outcome{entry: e, size: size}
}

// begin makes the first request for an object. Where the answer has all of it, Info.Whole is true.
func (p *Pool) begin(ctx context.Context, it *item) (objstore.Info, io.ReadCloser, error) {
	if m, ok := it.src.(maker); ok {
		info, b, err := m.make(ctx, it.name)
		info.Whole = true
		return info, memory(b, 0, -1), err
	}
	info, body, err := p.retry().Read(ctx, it.src, it.name, 0, p.o.RangeBytes, nil)
	if err != nil {
		return info, nil, err
	}
	// Of one whose versions can't be told apart, parts might be of two. Of one that comes whole only, each part would cost all that lies before it.
	if (info.Whole || !info.Versioned()) && (info.Size < 0 || info.Size > p.o.RangeBytes) {
		body.Close()
		first := info
		info, body, err = p.retry().Read(ctx, it.src, it.name, 0, -1, &first)
		info.Whole = true
	}
	return info, body, err
}

// roomFor takes the room of an item before it is asked for. Where the size is not known it is as much as the last one took, or a first request gives; where that is
// not to be had the size is asked for first, rather than have the source send what there is no place for. Without room the outcome says why.
func (p *Pool) roomFor(ctx context.Context, it *item) (*ledger.Room, outcome) {
	room, err := p.reserve(shelf.Charge(it.size))
	if err != nil {
		return nil, p.cannot(err)
	}
	p.mu.Lock()
	wanted := it.wanted > 0
	p.mu.Unlock()
	if room == nil || it.size > 0 || wanted { // who waits needs no further answer first
		return room, outcome{size: it.size}
	}
	if seen := p.seen.Load(); seen > 0 && p.grow(room, shelf.Charge(min(seen, p.o.RangeBytes))-room.Charge()) ||
		seen == 0 && room.Grow(shelf.Charge(p.o.RangeBytes)-room.Charge(), p.limits()) { // nothing is evicted for a mere guess
		return room, outcome{}
	}
	info, err := p.retry().Stat(ctx, it.src, it.name)
	size := max(info.Size, 0)
	o := outcome{size: size}
	switch {
	case err != nil:
		o = outcome{err: err}
	case size > p.o.MaxBytes, shelf.Charge(size) > p.o.MaxBytes:
		o = p.tooLarge(size)
	case shelf.Charge(size) <= room.Charge(), p.grow(room, shelf.Charge(size)-room.Charge()):
		return room, o
	}
	room.Release()
	return nil, o
}

func (p *Pool) tooLarge(size int64) outcome {
	p.count(countTooLarge, 1)
	return outcome{never: true, size: size}
}

// notWritten is the outcome of an error on the way: one of the disk's room is no error, the object is read without being staged, when it is asked for. Only
// trying would tell when the disk has room again, and each attempt is a request to the source.
func (p *Pool) notWritten(err error, size int64) outcome {
	switch {
	case shelf.Full(err):
		p.count(countDiskFull, 1)
		p.warnFull(err)
		return outcome{never: true, size: size}
	case errors.Is(err, errNoRoom):
		return outcome{size: size}
	}
	var disk *diskError
	if errors.As(err, &disk) {
		o := p.cannot(err)
		o.size = size
		return o
	}
	return outcome{err: err}
}

// diskError is an error of the stage's disk. The source is none the worse for it: the object is read without being staged.
type diskError struct{ err error }

func (e *diskError) Error() string { return e.err.Error() }
func (e *diskError) Unwrap() error { return e.err }

var (
	errNoRoom   = errors.New("stage: no room")
	errChecksum = errors.New("stage: the bytes do not have the checksum that the store announces")
)

// writing is a copy on its way into a draft.
type writing struct {
	p     *Pool
	ctx   context.Context
	it    *item
	info  objstore.Info
	draft *shelf.Draft
	room  *ledger.Room
	done  int64 // bytes of an object of unknown size
}

// size is what is known of the object's. Where it is not announced it is more than what came, by so much that the next attempt is not made for nothing, and
// no more than may be staged.
func (w *writing) size() int64 {
	if w.info.Size >= 0 {
		return w.info.Size
	}
	return max(w.done+1, min(w.done+bufferSize, w.p.o.MaxBytes&^(shelf.Block-1)))
}

// all writes the whole object, whose first part is body, and returns its size and checksum.
func (w *writing) all(body io.Reader) (size int64, crc uint32, err error) {
	first := part{w: w, limit: -1}
	if w.info.Size >= 0 {
		first.limit = w.info.Size
		if !w.info.Whole {
			first.limit = min(w.info.Size, w.p.o.RangeBytes)
		}
	}
	if len(w.info.MD5) == md5.Size && len(w.info.CRC32C) != 4 && w.info.Size == first.limit {
		first.md5 = md5.New()
	}
	if first.limit >= 0 && w.info.Size > first.limit {
		size = w.info.Size
		crc, err = w.parts(&first, body)
	} else {
		err = first.from(body)
		size, crc = first.n, first.crc
		if err == nil && w.info.Size < 0 && size == w.p.o.RangeBytes && !w.info.Whole {
			// A source that does not tell sizes gives no more than it was asked for: ask until there is no more.
			size, crc, err = w.more(size, crc)
			first.md5 = nil // it has only the first part
		}
	}
	if err != nil {
		return 0, 0, err
	}
	if want := w.info.CRC32C; len(want) == 4 && binary.BigEndian.Uint32(want) != crc {
		return 0, 0, fmt.Errorf("%w: %s", errChecksum, w.it.id)
	} else if len(want) != 4 && len(w.info.MD5) == md5.Size {
		if err := w.checkMD5(first, size); err != nil {
			return 0, 0, err
		}
	}
	return size, crc, nil
}

// checkMD5 compares the whole with the store's MD5; what came in several parts is read again.
func (w *writing) checkMD5(first part, size int64) error {
	h := first.md5
	if h == nil {
		h = md5.New()
		buf := getBuffer()
		defer putBuffer(buf)
		for at := int64(0); at < size; {
			n, err := w.draft.ReadAt((*buf)[:min(size-at, bufferSize)], at)
			if err != nil && !(errors.Is(err, io.EOF) && n > 0) {
				return err
			}
			h.Write((*buf)[:n])
			at += int64(n)
		}
	}
	if !bytes.Equal(h.Sum(nil), w.info.MD5) {
		return fmt.Errorf("%w: %s", errChecksum, w.it.id)
	}
	return nil
}

// checksum reads a staged object.
func (p *Pool) checksum(ctx context.Context, e *ledger.Entry) (uint32, error) {
	f, err := p.openEntry(e)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	var sum summing
	buf := getBuffer()
	defer putBuffer(buf)
	for at := int64(0); at < e.Size; {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		n, err := f.ReadAt((*buf)[:min(e.Size-at, bufferSize)], at)
		if n == 0 {
			return 0, errors.Join(err, io.ErrUnexpectedEOF)
		}
		sum.add((*buf)[:n])
		at += int64(n)
	}
	return sum.crc, nil
}
