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
	"leat/internal/fdio"
	"leat/internal/tempfile"
)

// A file preserved by pfio's MultiprocessFileCache has no header and does not contain its number of
// slots: from byte 0, per slot, the offset and length of its data, little-endian u64 and i64, or 0
// and -1 if it is empty; then the data, in order of arrival.
const pfioSlot = 16

// pfioEntry is a filled slot of such a file.
type pfioEntry struct{ slot, offset, length int64 }

// ImportPFIO puts the entries of a preserved pfio file with n slots into slots 0 to n-1 and returns
// how many were stored; filled slots keep their entries. Before that it checks every offset, and n
// as far as the file reveals it: the error is ErrFormat. pfio files have no checksums, so damage
// within the data is not detected. The cache must have at least n slots, and space.
func (c *Cache) ImportPFIO(ctx context.Context, path string, n int64) (stored int64, err error) {
	if err := checkSlots(n); err != nil {
		return 0, err
	}
	if n > c.h.n {
		return 0, fmt.Errorf("importing %d slots into a cache of %d", n, c.h.n)
	}
	fd, err := fdio.Open(unix.AT_FDCWD, path, unix.O_RDONLY|unix.O_NONBLOCK, 0)
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
		o, err := c.enterPut(e.slot, payload{from: io.NewSectionReader(f, e.offset, e.length), length: e.length}, true)
		if err != nil {
			return stored, fmt.Errorf("%s: %w", path, err)
		}
		if o == Stored {
			stored++
		} else if has, err := c.Has(e.slot); err != nil {
			return stored, err
		} else if !has {
			return stored, fmt.Errorf("%d of %d entries of %s were stored, then the cache was frozen or full",
				stored, len(entries), path)
		}
	}
	return stored, nil
}

// readPFIO reads and checks the index and returns the entries by offset. The error wraps ErrFormat
// if the file is not one of n slots.
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
		return bad("it is not a regular file")
	}
	if size < index {
		return bad("it needs an index of %d bytes, but has %d",
			index, size)
	}
	var entries []pfioEntry
	in := bufio.NewReaderSize(io.NewSectionReader(f, 0, index), 1<<20)
	for i := range n {
		var b [pfioSlot]byte
		if _, err := io.ReadFull(in, b[:]); err != nil {
			return nil, fmt.Errorf("reading the index: %w", err)
		}
		e := pfioEntry{i, int64(le.Uint64(b[:])), int64(le.Uint64(b[8:]))}
		switch {
		case e.offset == 0 && e.length == -1:
			continue
		case e.length < 0 || e.offset < 0:
			return bad("slot %d is invalid (offset %d, length %d)", i,
				uint64(e.offset), e.length)
		case e.offset < index:
			return bad("the data of slot %d begin at byte %d, within the index", i, e.offset)
		case e.offset > size || e.length > size-e.offset:
			return bad("the data of slot %d end at byte %d of %d: truncated, or another number of slots", i,
				uint64(e.offset)+uint64(e.length), size)
		}
		entries = append(entries, e)
	}
	slices.SortFunc(entries, func(a, b pfioEntry) int {
		return cmp.Or(cmp.Compare(a.offset, b.offset), cmp.Compare(a.length, b.length), cmp.Compare(a.slot, b.slot))
	})
	end := index
	for k, e := range entries {
		if k == 0 && e.offset != index {
			return bad("the first data begin at byte %d, not after the index at %d: it has more slots, at most %d",
				e.offset, index, e.offset/pfioSlot)
		}
		if e.offset < end {
			return bad("slots %d and %d share bytes: a put was killed, either may be wrong",
				entries[k-1].slot, e.slot)
		}
		end = e.offset + e.length
	}
	if len(entries) == 0 && size != index {
		return bad("it has no entries, but %d bytes of data",
			size-index)
	}
	return entries, nil
}

// ExportPFIO writes the entries as a file that pfio reads (with N slots) and returns their number.
// Damaged entries become empty. An existing path is fs.ErrExist unless overwrite is true; the
// cache's own file is never overwritten. The file appears at path when it is complete and on the
// disk. Entries put meanwhile may or may not be included.
func (c *Cache) ExportPFIO(ctx context.Context, path string, overwrite bool) (exported int64, err error) {
	if !c.drainGate.enter(0) {
		return 0, ErrClosed
	}
	defer c.drainGate.leave(0)
	abs, name, dir, err := splitPath(path)
	if err != nil {
		return 0, err
	}
	defer unix.Close(dir)
	if err := checkTarget(dir, abs, name, overwrite); err != nil {
		return 0, err
	}
	if tempfile.Leads(dir, name, c.fd) {
		return 0, fmt.Errorf("%s is the cache itself", abs)
	}
	var entries []pfioEntry // offsets in this cache
	if err := c.Each(ctx, func(e Entry) error {
		if !e.Bad {
			entries = append(entries, pfioEntry{e.Slot, e.Offset, e.Length})
		}
		return nil
	}); err != nil {
		return 0, err
	}
	slices.SortFunc(entries, func(a, b pfioEntry) int { return cmp.Compare(a.offset, b.offset) })
	_ = sweep(dir, tempsOf(name)) // leftovers do no harm
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

// writePFIO writes the data, then the index.
func (c *Cache) writePFIO(ctx context.Context, fd int, entries []pfioEntry) (exported int64, err error) {
	at := pfioSlot * c.h.n
	if err := allocateExport(fd, at, entries); err != nil {
		return 0, err
	}
	done := entries[:0]
	passed := int64(0)
	for _, e := range entries {
		if err := context.Cause(ctx); err != nil {
			return 0, err
		}
		err := c.View(e.slot, func(b []byte) error {
			if at+int64(len(b)) > fdio.FileLimit() { // writing beyond it raises a signal
				return unix.EFBIG
			}
			if err := writeFull(fd, b, at); err != nil {
				return err
			}
			done = append(done, pfioEntry{e.slot, at, int64(len(b))})
			at += int64(len(b))
			return nil
		})
		passed += roundUp(recordHead+e.length, align)
		c.progress(passed)
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
			c.progress(passed + from)
			b = b[:0]
		}
	}
	if err := unix.Ftruncate(fd, at); err != nil { // frees the space of damaged entries
		return 0, err
	}
	return int64(len(done)), nil
}

// allocateExport allocates the space of an export before hours of writing: the index, 16 bytes per
// slot, is mostly larger than the cache's own.
func allocateExport(fd int, index int64, entries []pfioEntry) error {
	total := index
	for _, e := range entries {
		if total += e.length; total > maxOffset {
			break
		}
	}
	if total > fdio.FileLimit() {
		return fmt.Errorf("%d bytes, %d of them the index: %w", total, index, unix.EFBIG)
	}
	err := fault.Error("cache.space")
	if err == nil {
		err = allocate(fd, 0, total)
	}
	if errors.Is(err, errors.ErrUnsupported) {
		var free int64
		if free, err = fdio.FreeSpace(fd); err == nil && total > free {
			err = unix.ENOSPC
		}
	}
	if err != nil {
		return fmt.Errorf("%d bytes, %d of them the index: %w", total, index, err)
	}
	return nil
}
