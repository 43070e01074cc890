//go:build unix

package cache

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"

	"golang.org/x/sys/unix"

	"leat/internal/fdio"
	"leat/internal/localdir"
	"leat/internal/procfile"
	"leat/internal/tempfile"
)

// Upgrade copies the cache at path, of an older version of the format, to a file of the current
// version at to. The file appears there when it is complete and on the disk. If to is path, the
// copy replaces the cache atomically; unless the cache was preserved, no process may have it open.
// Another existing name is fs.ErrExist, unless overwrite is true. The error wraps ErrCurrent if the
// cache has the current version.
//
// A frozen cache stays frozen and a preserved one preserved. Entries that other processes put
// meanwhile may or may not be included. Damaged entries become empty; dropped is their number. Dead
// bytes are left out, the counters start at zero, and the copy has its own UUID. Of Options only
// AllowRemote, Progress and Logger may be set.
func Upgrade(ctx context.Context, path, to string, overwrite bool, opts *Options) (dropped int64, err error) {
	o := orDefault(opts)
	if o.Dir != "" || o.MaxBytes != 0 || o.Verify != VerifyFirst || o.Durability != DurabilityNone {
		return 0, errors.New("Upgrade does not accept Dir, MaxBytes, Verify or Durability")
	}
	if err := context.Cause(ctx); err != nil {
		return 0, err
	}
	from, _, fromDir, err := splitPath(path)
	if err != nil {
		return 0, err
	}
	defer unix.Close(fromDir)
	abs, name, dir, err := splitPath(to)
	if err != nil {
		return 0, err
	}
	defer unix.Close(dir)
	inPlace := abs == from
	overwrite = overwrite || inPlace
	c, err := openOld(path, inPlace, o)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	if !inPlace && tempfile.Leads(dir, name, c.fd) {
		return 0, fmt.Errorf("%s is the cache itself", abs)
	}
	if err := checkTarget(dir, abs, name, overwrite); err != nil {
		return 0, err
	}
	_ = sweep(dir, tempsOf(name)) // leftovers do no harm
	err = publish(dir, abs, name, overwrite, func(fd int) error {
		var err error
		dropped, err = c.writeUpgraded(ctx, fd)
		return err
	})
	if err != nil {
		return 0, err
	}
	return dropped, flushDir(dir, abs)
}

// openOld opens a cache of an older version for reading. If alone is set, no other process may have
// it open, unless it was preserved, and none can open it until it is closed.
func openOld(path string, alone bool, o Options) (*Cache, error) {
	info, err := Inspect(path)
	if err != nil {
		return nil, err
	}
	if info.Version == version {
		return nil, fmt.Errorf("%s: %w, %d", path, ErrCurrent, version)
	}
	if info.Preserved {
		return Load(path, &Options{Progress: o.Progress, Logger: o.Logger})
	}
	abs, name, dir, err := splitPath(path)
	if err != nil {
		return nil, err
	}
	defer unix.Close(dir)
	if !o.AllowRemote && localdir.Of(dir).Kind != localdir.Local {
		return nil, fmt.Errorf("%s: %w: other machines may have it open", path, ErrRemote)
	}
	fd, err := openNamed(dir, name, unix.O_RDWR)
	if err != nil {
		return nil, explainOpen(path, err)
	}
	if alone {
		ok, err1 := lock(fd, lockHold, exclusive)
		if err = err1; err == nil && !ok {
			err = errors.New("open in a process")
		}
	}
	if err == nil && !tempfile.Leads(dir, name, fd) {
		err = errors.New("replaced meanwhile")
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", path, err), closeLocked(fd))
	}
	c, err := open(fd, abs, o, true)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return c, nil
}

// writeUpgraded writes the cache into an empty file in the current version.
func (c *Cache) writeUpgraded(ctx context.Context, to int) (dropped int64, err error) {
	entries, err := c.findEntries(ctx)
	if err != nil {
		return 0, err
	}
	h := c.h
	h.version = version
	h.flags &^= flagNameless
	_, _ = rand.Read(h.uuid[:])      // never fails
	h.boot, _ = procfile.BootID()    // zero if unknown
	if h.base() > fdio.FileLimit() { // writing beyond it raises a signal
		return 0, unix.EFBIG
	}
	if err := unix.Ftruncate(to, h.base()); err != nil {
		return 0, err
	}
	tail, size, end := h.base(), h.base(), int64(0)
	placed := entries[:0]
	for _, e := range entries {
		r, err := c.copyRecord(ctx, to, e, tail)
		if errors.Is(err, ErrMiss) || err == nil && e.from < end { // damaged, or forged to overlap
			dropped++
			continue
		}
		if err != nil {
			return 0, fmt.Errorf("copying entry %d of %s: %w", e.slot, c.name(), err)
		}
		if err := writeFull(to, le.AppendUint64(nil, uint64(tail)), slotAt(e.slot)); err != nil {
			return 0, err
		}
		placed = append(placed, extent{from: tail, slot: e.slot})
		end = e.from + r.space()
		size = tail + recordHead + r.length
		tail += r.space()
		c.progress(tail - h.base())
	}
	if err := unix.Ftruncate(to, size); err != nil { // frees the space of a damaged last entry
		return 0, err
	}
	return dropped, c.writePage(to, &h, tail, placed)
}

// findEntries returns the filled slots in the order of their records. A preserved cache must have
// the index that was preserved.
func (c *Cache) findEntries(ctx context.Context) ([]extent, error) {
	var entries []extent
	sum := uint32(0)
	err := c.eachFilled(ctx, func(i, offset int64) error {
		sum = sumSlot(sum, c.sums, i, offset)
		entries = append(entries, extent{from: offset, slot: i})
		return nil
	})
	if err != nil {
		return nil, err
	}
	if s, ok := c.seal(); ok && (s.index != sum || s.entries != int64(len(entries))) {
		return nil, fmt.Errorf("%w: the index of %s is not the one that was preserved", ErrFormat, c.name())
	}
	slices.SortFunc(entries, func(a, b extent) int { return cmp.Compare(a.from, b.from) })
	return entries, nil
}

// copyRecord copies a record to an offset of another file in the current version. The error is
// errBad if it is damaged.
func (c *Cache) copyRecord(ctx context.Context, to int, e extent, at int64) (r record, err error) {
	if !c.isRecordOffset(e.from) {
		return record{}, errBad
	}
	var head [recordHead]byte
	n, err := fdio.ReadFull(c.fd, head[:], e.from)
	if err != nil {
		return record{}, err
	}
	r, ok := parseRecord(head[:], e.slot, e.from, c.sums)
	if n < recordHead || !ok || !c.inFile(r.end()) {
		return record{}, errBad
	}
	if at+recordHead+r.length > fdio.FileLimit() { // writing beyond it raises a signal
		return record{}, unix.EFBIG
	}
	b := chunks.Get().(*[1 << 20]byte)
	defer chunks.Put(b)
	copied := record{slot: r.slot, length: r.length, offset: at}
	sum := uint32(0)
	for done := int64(0); done < r.length; {
		if err := context.Cause(ctx); err != nil {
			return record{}, err
		}
		part := b[:min(int64(len(b)), r.length-done)]
		if n, err := fdio.ReadFull(c.fd, part, r.offset+recordHead+done); err != nil {
			return record{}, err
		} else if n < len(part) {
			return record{}, errBad
		}
		sum = crc32.Update(sum, c.sums, part)
		copied.sum = crc32.Update(copied.sum, table(version), part)
		if err := writeFull(to, part, at+recordHead+done); err != nil {
			return record{}, err
		}
		done += int64(len(part))
	}
	if sum != r.sum {
		return record{}, errBad
	}
	copied.encode(&head, table(version))
	return copied, writeFull(to, head[:], at)
}

// writePage writes page 0 of a copy, with the state of the cache, and gives the copy its mode.
// placed are its records by offset.
func (c *Cache) writePage(to int, h *header, tail int64, placed []extent) error {
	page := h.encode()
	state := c.tail.Load() & frozen
	le.PutUint64(page[tailAt:], state|uint64(tail))
	le.PutUint64(page[countersAt+8*countStored:], uint64(len(placed)))
	le.PutUint64(page[countersAt+8*countStoredBytes:], uint64(tail-h.base()))
	if _, ok := c.seal(); ok {
		s := seal{entries: int64(len(placed)), tail: tail}
		slices.SortFunc(placed, func(a, b extent) int { return cmp.Compare(a.slot, b.slot) })
		for _, e := range placed {
			s.index = sumSlot(s.index, table(version), e.slot, e.from)
		}
		copy(page[sealAt:], s.encode(table(version)))
	}
	if err := writeFull(to, page, 0); err != nil {
		return err
	}
	var st unix.Stat_t
	if err := unix.Fstat(c.fd, &st); err != nil {
		return err
	}
	return unix.Fchmod(to, uint32(st.Mode)&0o777)
}
