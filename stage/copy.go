package stage

import (
	"bytes"
	"cmp"
	"context"
	"crypto/md5"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"io"
	"time"

	"leat/internal/fault"
	"leat/objstore"
	"leat/stage/internal/index"
	"leat/stage/internal/store"
)

// outcome is the result of an attempt to stage an item. If entry, busy, unstageable and err are all
// unset, there was no space.
type outcome struct {
	entry       *index.Entry // staged and pinned
	busy        bool         // another process copies or evicts the object
	unstageable bool         // it can't be staged now: too large, disk full, or the directory failed
	cause       error        // the failure of the directory
	size        int64        // of the object; 0: unknown
	err         error

	cancelled bool // the attempt was cancelled
}

// attempt finds an item in the directory or copies it there.
func (p *Pool) attempt(ctx context.Context, it *item) outcome {
	if !p.stages() {
		return outcome{unstageable: true}
	}
	for tries := 0; ; tries++ {
		e, err := p.index.Find(it.key)
		if err != nil {
			return p.unstageable(err)
		}
		if e == nil {
			unlock, ok, err := p.index.LockKey(it.key)
			if err != nil {
				return p.unstageable(err)
			}
			if !ok {
				return outcome{busy: true}
			}
			if e, err = p.index.FindLocked(it.key); e == nil && err == nil {
				left := p.freeReplaced(it.key) // they take space that the copy may need
				o := p.copy(ctx, it)
				if left { // a pool that has released one since could not lock the key
					p.freeReplaced(it.key)
				}
				unlock()
				if o.err != nil {
					it.known = nil // the source may have another version now
				}
				if tries < restarts && canRestart(o.err) {
					p.count(countRetries, 1)
					continue
				}
				if o.err != nil && ctx.Err() == nil {
					p.count(countErrors, 1)
				}
				return o
			}
			unlock()
			if err != nil {
				return p.unstageable(err)
			}
		}
		switch ok, err := p.revalidate(ctx, it, e); {
		case err != nil:
			e.Unpin()
			var disk *diskError
			if errors.As(err, &disk) {
				return p.unstageable(err)
			}
			if ctx.Err() == nil {
				p.count(countErrors, 1)
			}
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
		p.unuse(e, true) // revalidate has discarded it; its space is freed once nobody uses it
	}
}

// restarts is how often an object is read again from its beginning.
const restarts = 2

// canRestart reports whether a read that failed with err may succeed from the object's beginning:
// it was replaced meanwhile, its connection broke and its version is not identified, or its parts
// can't be read as those of the known version.
func canRestart(err error) bool {
	return errors.Is(err, objstore.ErrChanged) || errors.Is(err, errChecksum) ||
		errors.Is(err, objstore.ErrNotResumed) || errors.Is(err, errNotConfirmed)
}

// unstageable returns the outcome for an object that the directory can't take after err. Callers
// read it from its source instead.
func (p *Pool) unstageable(err error) outcome {
	p.warnOnce(err)
	return outcome{unstageable: true, cause: err}
}

// revalidate reports whether a staged object may be served: its bytes are intact and the source
// still has this version. Otherwise it discards the entry.
func (p *Pool) revalidate(ctx context.Context, it *item, e *index.Entry) (bool, error) {
	if err := p.checkBytes(ctx, e); err != nil {
		if !isDamage(err) {
			return false, err
		}
		p.count(countDamaged, 1)
		e.Discard()
		return false, nil
	}
	if p.isFresh(e.Checked) || it.known != nil && it.known.Versioned() && versionOf(*it.known) == e.Version {
		return true, nil
	}
	now := time.Now()
	p.count(countChecks, 1)
	info, err := p.retry.Stat(ctx, it.src, it.name)
	switch {
	case err != nil: // even ErrNotExist: a server may answer so for a while
		return false, err
	case !info.Versioned(), versionOf(info) != e.Version: // without a version, an equal size proves nothing
		p.count(countChanged, 1)
		e.Discard()
		return false, nil
	}
	e.SetChecked(now)
	return true, nil
}

// copy copies an item into the directory. The caller holds the lock of its key.
func (p *Pool) copy(ctx context.Context, it *item) outcome {
	checked := time.Now()
	if it.size > p.o.MaxBytes || store.Charge(it.size) > p.o.MaxBytes {
		return p.tooLarge(it.size)
	}
	res, o := p.reserveFor(ctx, it)
	if res == nil {
		return o
	}
	freed := true // what the copy wrote, if it failed
	defer func() {
		switch {
		case res == nil:
		case freed:
			res.Release()
		default:
			res.Abandon()
		}
	}()
	if it.staged == nil {
		p.count(countReads, 1)
	}
	info, body, err := p.begin(ctx, it)
	if err != nil {
		return outcome{err: err}
	}
	if body != nil {
		defer body.Close()
	}
	switch need := store.Charge(info.Size); {
	case info.Size < 0:
		// Space is reserved as the bytes arrive.
	case info.Size > p.o.MaxBytes, need > p.o.MaxBytes:
		return p.tooLarge(info.Size)
	case need > res.Charge() && !p.grow(res, need-res.Charge()):
		return outcome{size: info.Size}
	case need < res.Charge():
		res.Shrink(res.Charge() - need)
	}
	ext := store.Ext(it.name)
	create := p.store.Create
	if it.file {
		create = p.store.CreateFile
	}
	out, err := create(info.Size, ext)
	if store.Full(err) && p.freeDisk(res.Charge()) {
		out, err = create(info.Size, ext)
	}
	if err != nil {
		return p.writeFailed(&diskError{err}, info.Size)
	}
	defer func() {
		if err := out.Close(); err != nil {
			freed = false
			p.o.Logger.Warn("closing staged file failed", "object", it.id, "error", err)
		}
	}()
	res.Writes(out.Place())
	fault.Point("stage.copying")
	w := &download{p: p, ctx: ctx, it: it, info: info, out: out, res: res}
	size, crc, err := w.all(body)
	if err != nil {
		return p.writeFailed(err, w.size())
	}
	if err := out.Commit(size); err != nil {
		return p.writeFailed(&diskError{err}, size)
	}
	fault.Point("stage.copied")
	object := index.Object{Key: it.key, Version: versionOf(info), Size: size, Charge: store.Charge(size),
		Place: out.Place(),
		CRC:   crc, Name: it.id, ETag: info.ETag, Modified: info.ModTime, Checked: checked}
	if it.staged != nil {
		object.Version, object.Checked = it.staged.Version, it.staged.Checked
	}
	e, err := p.index.Publish(res, object)
	if err != nil {
		if err := p.store.Free(out.Place(), res.Charge()); err != nil {
			freed = false
			p.o.Logger.Warn("freeing staged space failed", "object", it.id, "error", err)
		}
		return p.unstageable(err)
	}
	res = nil
	if it.staged != nil {
		return outcome{entry: e, size: size}
	}
	p.seen.Store(size)
	p.count(countMisses, 1)
	p.count(countBytes, size)
	return outcome{entry: e, size: size}
}

// begin makes the first request for an object. Info.NoRanges is true if the body is the whole
// object. If there is no body, the version is known, and all parts remain to be requested.
func (p *Pool) begin(ctx context.Context, it *item) (objstore.Info, io.ReadCloser, error) {
	if m, ok := it.src.(maker); ok {
		info, b, err := m.make(ctx, it.name)
		info.NoRanges = true
		return info, memory(b, 0, -1), err
	}
	if k := it.known; k != nil && k.Size > p.o.RangeBytes && k.Versioned() && !k.NoRanges {
		return *k, nil, nil
	}
	info, body, err := p.retry.Read(ctx, it.src, it.name, 0, p.o.RangeBytes, nil)
	if err != nil {
		return info, nil, err
	}
	// Parts of an unversioned object could belong to two versions. A source that only sends whole
	// objects would resend all preceding bytes for each part.
	if (info.NoRanges || !info.Versioned()) && (info.Size < 0 || info.Size > p.o.RangeBytes) {
		body.Close()
		first := info
		info, body, err = p.retry.Read(ctx, it.src, it.name, 0, -1, &first)
		info.NoRanges = true
	}
	return info, body, err
}

// reserveFor reserves space for an item before requesting it. If the size is unknown, it reserves
// as much as the last object took, or one range; if there is less, it asks for the size first.
// Without a reservation the outcome gives the reason.
func (p *Pool) reserveFor(ctx context.Context, it *item) (*index.Reservation, outcome) {
	res, err := p.reserve(store.Charge(it.size))
	if err != nil {
		return nil, p.unstageable(err)
	}
	p.mu.Lock()
	wanted := it.wanted > 0
	p.mu.Unlock()
	if res == nil || it.size > 0 || wanted { // a waiting caller needs no Stat first
		return res, outcome{size: it.size}
	}
	if seen := p.seen.Load(); seen > 0 && p.grow(res, store.Charge(min(seen, p.o.RangeBytes))-res.Charge()) ||
		// evict nothing for a guess
		seen == 0 && res.Grow(store.Charge(p.o.RangeBytes)-res.Charge(), p.limits()) {
		return res, outcome{}
	}
	info, err := p.retry.Stat(ctx, it.src, it.name)
	size := max(info.Size, 0)
	o := outcome{size: size}
	switch {
	case err != nil:
		o = outcome{err: err}
	case size > p.o.MaxBytes, store.Charge(size) > p.o.MaxBytes:
		o = p.tooLarge(size)
	case store.Charge(size) <= res.Charge(), p.grow(res, store.Charge(size)-res.Charge()):
		return res, o
	}
	res.Release()
	return nil, o
}

func (p *Pool) tooLarge(size int64) outcome {
	p.count(countTooLarge, 1)
	return outcome{unstageable: true, size: size}
}

// writeFailed returns the outcome of a failed copy. A full disk is not an error: the object is read
// directly when it is asked for, without retries, since each would cost a request to the source.
func (p *Pool) writeFailed(err error, size int64) outcome {
	switch {
	case store.Full(err):
		p.count(countDiskFull, 1)
		p.warnFull(err)
		return outcome{unstageable: true, size: size}
	case errors.Is(err, errLimitReached):
		return outcome{size: size}
	}
	var disk *diskError
	if errors.As(err, &disk) {
		o := p.unstageable(err)
		o.size = size
		return o
	}
	return outcome{err: err}
}

// diskError is an error of the stage's disk, as opposed to one of the source.
type diskError struct{ err error }

func (e *diskError) Error() string { return e.err.Error() }
func (e *diskError) Unwrap() error { return e.err }

var (
	errLimitReached = errors.New("no space")
	errChecksum     = errors.New("checksum mismatch between received bytes and store")
	errNotConfirmed = errors.New("parts sent without the known version")
)

// download is a copy from a source to a store.Writer.
type download struct {
	p    *Pool
	ctx  context.Context
	it   *item
	info objstore.Info
	out  *store.Writer
	res  *index.Reservation
	done int64 // bytes written so far of an object of unknown size

	first part

	unfinished *unfinished // lets callers read what has arrived; may be nil
}

// size returns the announced size of the object. Without one it returns an estimate above the bytes
// received, large enough to make a retry worthwhile, but at most MaxBytes.
func (w *download) size() int64 {
	if w.info.Size >= 0 {
		return w.info.Size
	}
	return max(w.done+1, min(w.done+bufferSize, w.p.o.MaxBytes&^(store.Block-1)))
}

// all writes the whole object, whose first part is body, or still to be requested if body is nil,
// and returns its size and checksum.
func (w *download) all(body io.Reader) (size int64, crc uint32, err error) {
	first := &w.first
	*first = part{w: w, limit: -1}
	if w.info.Size >= 0 {
		first.limit = w.info.Size
		if !w.info.NoRanges {
			first.limit = min(w.info.Size, w.p.o.RangeBytes)
		}
	}
	if len(w.info.MD5) == md5.Size && len(w.info.CRC32C) != 4 && w.info.Size == first.limit {
		first.md5 = md5.New()
	}
	if first.limit >= 0 && w.info.Size > first.limit {
		size = w.info.Size
		crc, err = w.readParts(first, body)
	} else {
		err = first.copyFrom(body)
		size, crc = first.n, first.crc
		if err == nil && w.info.Size < 0 && size == w.p.o.RangeBytes && !w.info.NoRanges {
			// A source without sizes returns at most the requested range: ask until it is
			// exhausted.
			size, crc, err = w.readRest(size, crc)
			first.md5 = nil // it covers the first part only
		}
	}
	if err != nil {
		return 0, 0, err
	}
	if want := w.info.CRC32C; len(want) == 4 && binary.BigEndian.Uint32(want) != crc {
		return 0, 0, fmt.Errorf("%w: %s", errChecksum, w.it.id)
	} else if len(want) != 4 && len(w.info.MD5) == md5.Size {
		if err := w.checkMD5(first.md5, size); err != nil {
			return 0, 0, err
		}
	}
	return size, crc, nil
}

// checkMD5 compares the object with the store's MD5. h has received its bytes, or is nil if they
// came in several parts and must be read again.
func (w *download) checkMD5(h hash.Hash, size int64) error {
	if h == nil {
		h = md5.New()
		buf := getBuffer()
		defer putBuffer(buf)
		for at := int64(0); at < size; {
			if err := w.ctx.Err(); err != nil {
				return err
			}
			n, err := w.out.ReadAt((*buf)[:min(size-at, bufferSize)], at)
			if err != nil && !(errors.Is(err, io.EOF) && n > 0) {
				return &diskError{err}
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

// checksum returns the CRC-32C of a staged object's bytes.
func (p *Pool) checksum(ctx context.Context, e *index.Entry) (uint32, error) {
	f, err := p.openEntry(e)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	var sum crcSum
	buf := getBuffer()
	defer putBuffer(buf)
	for at := int64(0); at < e.Size; {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		n, err := f.ReadAt((*buf)[:min(e.Size-at, bufferSize)], at)
		if n == 0 {
			return 0, cmp.Or(err, io.ErrUnexpectedEOF)
		}
		sum.add((*buf)[:n])
		at += int64(n)
	}
	return sum.crc, nil
}
