//go:build unix

package cache

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"golang.org/x/sys/unix"

	"leat/internal/fault"
)

// The file that pfio's MultiprocessFileCache preserves has no header and does not tell how many slots it has: per slot, from byte 0, the
// offset and the length of its data, little-endian u64 and i64, or 0 and -1 where it is empty; behind that the data, in order of arrival.
const pfioSlot = 16

// pfioEntry is one of its filled slots.
type pfioEntry struct{ slot, offset, length int64 }

// ImportPFIO puts the entries of a file that pfio preserved, with n slots, into slots 0 to n-1, and returns how many were stored: those whose
// slot was filled before are left. Every offset is checked against the file before anything is put; so is n, as far as the file shows it: ErrFormat. pfio
// keeps no checksums: what was damaged within its file stays so. The cache must have n slots or more, and room.
func (c *Cache) ImportPFIO(ctx context.Context, path string, n int64) (stored int64, err error) {
	if err := checkSlots(n); err != nil {
		return 0, err
	}
	if n > c.h.n {
		return 0, fmt.Errorf("cache: importing %d slots into a cache of %d: make one with as many", n, c.h.n)
	}
	fd, err := openat(unix.AT_FDCWD, path, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC)
	if err != nil {
		return 0, explainOpen(path, err)
	}
	f := os.NewFile(uintptr(fd), path)
	defer f.Close()
	entries, err := readPFIO(f, n)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", path, err)
	}
	for _, e := range entries {
		if err := context.Cause(ctx); err != nil {
			return stored, err
		}
		data := make([]byte, e.length)
		if _, err := f.ReadAt(data, e.offset); err != nil {
			return stored, fmt.Errorf("cache: reading entry %d of %s: %w", e.slot, path, err)
		}
		ok, err := c.Put(e.slot, data)
		if err != nil {
			return stored, err
		}
		if ok {
			stored++
		} else if has, err := c.Has(e.slot); err != nil {
			return stored, err
		} else if !has {
			return stored, fmt.Errorf("cache: %d of %d entries of %s were stored, then the cache was frozen or full: raise MaxBytes or free room on the disk, and import again", stored, len(entries), path)
		}
	}
	return stored, nil
}

// readPFIO reads and checks the index; the entries come in order of their offsets. The error wraps ErrFormat where the file is not one of n slots.
func readPFIO(f *os.File, n int64) ([]pfioEntry, error) {
	bad := func(text string, args ...any) ([]pfioEntry, error) {
		return nil, fmt.Errorf("%w: as a pfio file of %d slots "+text, append([]any{ErrFormat, n}, args...)...)
	}
	st, err := f.Stat()
	if err != nil {
		return nil, err
	}
	size, index := st.Size(), pfioSlot*n
	if !st.Mode().IsRegular() {
		return bad("it is no regular file")
	}
	if size < index {
		return bad("it would have an index of %d bytes, but it has %d: give the number of slots that it was made with", index, size)
	}
	var entries []pfioEntry
	in := bufio.NewReaderSize(io.NewSectionReader(f, 0, index), 1<<20)
	for i := range n {
		var b [pfioSlot]byte
		if _, err := io.ReadFull(in, b[:]); err != nil {
			return nil, fmt.Errorf("cache: reading the index: %w", err)
		}
		e := pfioEntry{i, int64(le.Uint64(b[:])), int64(le.Uint64(b[8:]))}
		switch {
		case e.offset == 0 && e.length == -1:
			continue
		case e.length < 0 || e.offset < 0:
			return bad("its slot %d makes no sense (offset %d, length %d): give the number of slots that it was made with", i, uint64(e.offset), e.length)
		case e.offset < index:
			return bad("the data of its slot %d would begin at byte %d, within the index: give the number of slots that it was made with", i, e.offset)
		case e.offset > size || e.length > size-e.offset:
			return bad("the data of its slot %d would end at byte %d of %d: a put was cut off, or it has another number of slots", i, uint64(e.offset)+uint64(e.length), size)
		}
		entries = append(entries, e)
	}
	slices.SortFunc(entries, func(a, b pfioEntry) int {
		return cmp.Or(cmp.Compare(a.offset, b.offset), cmp.Compare(a.length, b.length), cmp.Compare(a.slot, b.slot))
	})
	end := index
	for k, e := range entries {
		if k == 0 && e.offset != index {
			return bad("its first data would begin at byte %d and not behind the index, at %d: it has more slots, at most %d", e.offset, index, e.offset/pfioSlot)
		}
		if e.offset < end {
			return bad("slots %d and %d share bytes: a put was killed, and which of them is right can't be told", entries[k-1].slot, e.slot)
		}
		end = e.offset + e.length
	}
	if len(entries) == 0 && size != index {
		return bad("it has no entries, but %d bytes of data: give the number of slots that it was made with", size-index)
	}
	return entries, nil
}

// ExportPFIO writes the entries as a file that pfio reads (with its length, N), and returns how many there are. Damaged entries become
// empty ones. A name that is taken is fs.ErrExist, unless overwrite is true, but never the cache's own; the file appears when it is whole and on the disk. Entries that are put meanwhile may
// be in it or not.
func (c *Cache) ExportPFIO(ctx context.Context, path string, overwrite bool) (exported int64, err error) {
	if !c.gate.enter(0) {
		return 0, ErrClosed
	}
	defer c.gate.leave(0)
	abs, name, dir, err := splitPath(path)
	if err != nil {
		return 0, err
	}
	defer unix.Close(dir)
	if err := checkTarget(dir, abs, name, overwrite); err != nil {
		return 0, err
	}
	if leads(dir, name, c.fd) {
		return 0, fmt.Errorf("cache: %s is the cache itself: give another name", abs)
	}
	var entries []pfioEntry // with offsets in this cache
	if err := c.Each(ctx, func(e Entry) error {
		if !e.Bad {
			entries = append(entries, pfioEntry{e.Slot, e.Offset, e.Length})
		}
		return nil
	}); err != nil {
		return 0, err
	}
	slices.SortFunc(entries, func(a, b pfioEntry) int { return cmp.Compare(a.offset, b.offset) })
	_, _ = sweep(dir, draftsOf(name)) // what can't be swept does no harm
	err = publish(dir, abs, name, overwrite, func(fd int) error {
		var err error
		exported, err = c.writePFIO(ctx, fd, entries)
		return err
	})
	if err != nil {
		return 0, err
	}
	return exported, flushDir(dir, abs)
}

// writePFIO writes data, then the index.
func (c *Cache) writePFIO(ctx context.Context, fd int, entries []pfioEntry) (exported int64, err error) {
	at := pfioSlot * c.h.n
	if err := takeRoom(fd, at, entries); err != nil {
		return 0, err
	}
	done := entries[:0]
	for _, e := range entries {
		if err := context.Cause(ctx); err != nil {
			return 0, err
		}
		err := c.View(e.slot, func(b []byte) error {
			if at+int64(len(b)) > fileLimit() { // to try is a signal
				return unix.EFBIG
			}
			if err := writeFull(fd, b, at); err != nil {
				return err
			}
			done = append(done, pfioEntry{e.slot, at, int64(len(b))})
			at += int64(len(b))
			c.progress(at - pfioSlot*c.h.n)
			return nil
		})
		if err != nil && !errors.Is(err, ErrMiss) {
			return 0, err
		}
	}
	slices.SortFunc(done, func(a, b pfioEntry) int { return cmp.Compare(a.slot, b.slot) })
	b := make([]byte, 0, 1<<20)
	from, k := int64(0), 0
	for i := range c.h.n {
		offset, length := int64(0), int64(-1)
		if k < len(done) && done[k].slot == i {
			offset, length = done[k].offset, done[k].length
			k++
		}
		b = le.AppendUint64(le.AppendUint64(b, uint64(offset)), uint64(length))
		if len(b) == cap(b) || i == c.h.n-1 {
			if err := context.Cause(ctx); err != nil {
				return 0, err
			}
			if err := writeFull(fd, b, from); err != nil {
				return 0, err
			}
			from += int64(len(b))
			b = b[:0]
		}
	}
	if err := unix.Ftruncate(fd, at); err != nil { // the room of entries that were damaged goes back
		return 0, err
	}
	return int64(len(done)), nil
}

// takeRoom has an empty file get the room of an export before hours of writing: its index, with 16 bytes for every slot, filled or not, is mostly larger
// than the cache's own.
func takeRoom(fd int, index int64, entries []pfioEntry) error {
	total := index
	for _, e := range entries {
		if total += e.length; total > maxOffset {
			break
		}
	}
	if total > fileLimit() {
		return fmt.Errorf("%d bytes, %d of them the index: %w", total, index, unix.EFBIG)
	}
	err := fault.Error("cache.room")
	if err == nil {
		err = allocate(fd, 0, total)
	}
	if errors.Is(err, errors.ErrUnsupported) {
		if err = nil; total > roomLeft(fd) {
			err = unix.ENOSPC
		}
	}
	if err != nil {
		return fmt.Errorf("%d bytes, %d of them the index: %w", total, index, err)
	}
	return nil
}
