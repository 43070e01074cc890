//go:build unix

package shm

import (
	"errors"
	"fmt"
	"io/fs"

	"golang.org/x/sys/unix"

	"leat/internal/lockfile"
)

// AttachOptions say more about how an array is attached.
type AttachOptions struct {
	// Populate reads the pages of the array into this process's page table at once, so that no
	// later access waits for it.
	Populate bool
}

// attach finds or maps what a handle leads to. The object has a reference for the caller.
func (s *Pool) attach(h Handle, mode Mode, o *AttachOptions) (*object, view, error) {
	obj, v, err := s.attachMode(h, mode)
	if err == nil && o != nil && o.Populate {
		if lo, hi, err := v.bounds(); err == nil && hi > lo {
			lo += obj.base
			lo &^= pageSize - 1
			populateRead(obj.seg.mem[lo : obj.base+hi])
		}
	}
	return obj, v, err
}

func (s *Pool) attachMode(text Handle, mode Mode) (*object, view, error) {
	if isInline(text) {
		return attachInline(text, mode)
	}
	key := cacheKey{text, mode == ReadWrite}
	if mode != CopyOnWrite {
		if o, v, err := s.known(key); o != nil || err != nil {
			return o, v, err
		}
	}
	h, err := parseHandle(text)
	if err != nil {
		return nil, view{}, err
	}
	if h.boot != s.boot {
		return nil, view{}, fmt.Errorf("%w: it was made on another machine, or before the last boot: %.80q", ErrForeign,
			string(text))
	}
	o, err := s.attachParsed(&h, mode)
	if err != nil {
		return nil, view{}, err
	}
	// The registry's address of the object must be what the handle says, all of it; its view must
	// lie in the data.
	if err := o.check(&h); err != nil {
		if o.private() {
			return nil, view{}, errors.Join(err, o.seg.close())
		}
		return nil, view{}, errors.Join(err, s.release(o))
	}
	if mode != CopyOnWrite {
		s.reg.mu.Lock()
		s.reg.remember(key, cached{o, h.view})
		s.reg.mu.Unlock()
	}
	return o, h.view, nil
}

// known attaches by the text alone.
func (s *Pool) known(key cacheKey) (*object, view, error) {
	s.reg.mu.Lock()
	defer s.reg.mu.Unlock()
	if s.reg.closed {
		return nil, view{}, ErrClosed
	}
	c, ok := s.reg.cache[key]
	if !ok {
		return nil, view{}, nil
	}
	if c.obj.dead {
		delete(s.reg.cache, key)
		return nil, view{}, nil
	}
	if err := c.obj.usable(key.write); err != nil {
		return nil, view{}, err
	}
	if c.obj.leftBehind() {
		return nil, view{}, errFreed
	}
	s.reg.retain(c.obj)
	return c.obj, c.view, nil
}

// usable reports why an object of the registry can't be attached.
func (o *object) usable(write bool) error {
	if o.state == nil {
		return nil
	}
	switch state := o.state.Load(); {
	case state != stateOpen && !sealedState(state):
		return errFreed
	case write && sealedState(state):
		return errSealed
	}
	return nil
}

var errFreed = fmt.Errorf("%w: it was freed", ErrStale)

// sealedState reports whether nobody but its creator may write to an array.
func sealedState(state uint32) bool { return state == stateSealed || state == stateHanded }

// leftBehind reports whether an object that was handed over is still mapped here, while its handle
// no longer leads to it.
func (o *object) leftBehind() bool {
	return o.state != nil && o.state.Load() == stateHanded && o.seg.lost != nil && o.seg.lost()
}

// check compares a handle with the object that it led to.
func (o *object) check(h *handle) error {
	a := o.addr
	a.view = h.view
	if a.kind != h.kind || a.id != h.id || a.size != h.size || a.pid != h.pid || a.fd != h.fd || a.base != h.base ||
		a.root != h.root ||
		a.path != h.path || a.dev != h.dev || a.ino != h.ino || a.mtime != h.mtime {
		return fmt.Errorf("%w: its array is another one, or of another size, than it says: %.80q", ErrHandle,
			string(h.text()))
	}
	lo, hi, err := h.view.bounds()
	if err == nil && (lo < o.data || hi > o.data+o.length) {
		err = fmt.Errorf("the view covers bytes %d to %d, the array %d to %d", lo, hi, o.data, o.data+o.length)
	}
	if err != nil {
		return fmt.Errorf("%w: %w", ErrHandle, err)
	}
	return nil
}

func (s *Pool) attachParsed(h *handle, mode Mode) (*object, error) {
	write := mode == ReadWrite
	if mode != CopyOnWrite {
		s.reg.mu.Lock()
		if s.reg.closed {
			s.reg.mu.Unlock()
			return nil, ErrClosed
		}
		// What was handed over has other handles at its sender and its receiver: each is looked at.
		if o := s.reg.objects[objectKey{h.id, write}]; o != nil && o.addr.pid == h.pid && o.addr.fd == h.fd {
			defer s.reg.mu.Unlock()
			if err := o.usable(write); err != nil {
				return nil, err
			}
			if o.leftBehind() {
				return nil, errFreed
			}
			if write && !o.write {
				return nil, errSealed
			}
			s.reg.retain(o)
			return o, nil
		}
		if h.kind == kindMemfd && h.base > 0 && !write {
			if o := s.knownEntry(h); o != nil {
				s.reg.mu.Unlock()
				return o, nil
			}
		}
		// Before memory is mapped, what is of no more use is given up.
		old := s.reg.sweepIdle()
		s.reg.mu.Unlock()
		if err := closeAll(old); err != nil {
			return nil, err
		}
	}
	seg, err := s.mapSegment(h, mode)
	if err != nil {
		return nil, err
	}
	o, err := objectIn(seg, h)
	if err != nil {
		return nil, errors.Join(err, seg.close())
	}
	o.write = write
	if mode == CopyOnWrite {
		o.refs, o.copied = 1, true
		return o, nil
	}
	return s.enter(o)
}

// enter makes an object of a segment that was just mapped known. Another goroutine may have been
// quicker: then its mapping is the one.
func (s *Pool) enter(o *object) (*object, error) {
	s.reg.mu.Lock()
	if s.reg.closed {
		s.reg.mu.Unlock()
		return nil, errors.Join(ErrClosed, o.seg.close())
	}
	if first := s.reg.objects[objectKey{o.addr.id, o.write}]; first != nil && first.addr.pid == o.addr.pid &&
		first.addr.fd == o.addr.fd {
		s.reg.retain(first)
		s.reg.mu.Unlock()
		return first, o.seg.close()
	}
	if o.seg.arena && !o.write {
		k := arenaKey{o.addr.pid, o.addr.fd}
		if seg := s.reg.arenas[k]; seg != nil {
			if first, err := objectIn(seg, &o.addr); err == nil {
				s.reg.addObject(first)
				s.reg.mu.Unlock()
				return first, o.seg.close()
			}
		}
		s.reg.arenas[k] = o.seg
	}
	s.reg.addSegment(o.seg)
	s.reg.addObject(o)
	s.reg.mu.Unlock()
	return o, nil
}

// knownEntry finds an entry in an arena that is mapped already. What its process and descriptor
// lead to may be another arena by now: the entry's id tells. The caller holds the registry's mutex.
func (s *Pool) knownEntry(h *handle) *object {
	seg := s.reg.arenas[arenaKey{h.pid, h.fd}]
	if seg == nil {
		return nil
	}
	o, err := objectIn(seg, h)
	if err != nil {
		return nil // it is stale, or the arena is: a new look will tell
	}
	s.reg.addObject(o)
	return o
}

// objectIn makes the object of a handle from a mapped segment, after it compared it with its tag.
func objectIn(seg *segment, h *handle) (*object, error) {
	o := &object{addr: *h, seg: seg}
	o.addr.view = view{}
	if h.kind == kindUser {
		o.data, o.length = 0, h.size
		return o, nil
	}
	at, kind := int64(len(seg.mem))-pageSize, uint16(kindWhole)
	if seg.arena {
		at, kind = h.base, kindEntry
		if h.base%entryAlign != 0 || h.base > int64(len(seg.mem))-pageSize-tagSize ||
			h.size > int64(len(seg.mem))-pageSize-h.base {
			return nil, fmt.Errorf("%w: no array begins at byte %d of its memory", ErrHandle, h.base)
		}
		o.base = h.base
	}
	t, err := parseTag(seg.mem[at:])
	if err != nil {
		return nil, err
	}
	if t.id != h.id {
		return nil, fmt.Errorf("%w: its memory has been used again", ErrStale)
	}
	// The tag is shared memory, which its maker may have changed since the file was looked at.
	if t.kind != kind || t.size != h.size || t.size > int64(len(seg.mem))-o.base {
		return nil, fmt.Errorf("%w: it says %d bytes, its array has %d", ErrHandle, h.size, t.size)
	}
	o.data, o.length = t.data, t.length
	o.state = stateOf(seg.mem[at:])
	return o, o.usable(false)
}

// mapSegment maps the file that a handle names, holding a lock on it.
func (s *Pool) mapSegment(h *handle, mode Mode) (*segment, error) {
	switch h.kind {
	case kindMemfd:
		return mapMemfd(h, mode)
	case kindFile:
		return s.mapNamed(h, mode)
	}
	return s.mapUser(h, mode)
}

func protection(mode Mode) (prot, flags int) {
	switch mode {
	case ReadWrite:
		return protWrite, mapShared
	case CopyOnWrite:
		return protWrite, mapPrivate
	}
	return protRead, mapShared
}

func mapMemfd(h *handle, mode Mode) (*segment, error) {
	fd, size, err := openMemfd(h.pid, h.fd, mode == ReadWrite)
	if err != nil {
		return nil, err
	}
	// The mapping keeps the open file and its locks.
	defer unix.Close(fd)
	arena := h.base > 0
	kind := uint16(kindWhole)
	if arena {
		kind = kindArena
	}
	if _, err := readTag(fd, size, kind, h); err != nil {
		return nil, err
	}
	seg, err := mapFD(fd, size, mode)
	if err != nil {
		return nil, err
	}
	seg.arena, seg.pid = arena, h.pid
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, errors.Join(fmt.Errorf("attaching: %w", err), seg.close())
	}
	pid, from := h.pid, h.fd
	seg.lost = func() bool { return !leadsTo(pid, from, uint64(st.Dev), st.Ino) }
	seg.state = stateOf(seg.mem[size-pageSize:])
	return seg, nil
}

// readTag reads the tag of a whole file, before anything is mapped.
func readTag(fd int, size int64, kind uint16, h *handle) (tag, error) {
	if size < 2*pageSize || size%pageSize != 0 || size > maxMapping {
		return tag{}, fmt.Errorf("%w: what it leads to is no array of leat", ErrHandle)
	}
	var b [tagSize]byte
	if err := preadFull(fd, b[:], size-pageSize); err != nil {
		return tag{}, err
	}
	t, err := parseTag(b[:])
	switch {
	case err != nil:
		return tag{}, err
	case t.kind != kind:
		return tag{}, fmt.Errorf("%w: its memory has been used again", ErrStale)
	case t.size != size:
		return tag{}, fmt.Errorf("%w: what it leads to has %d bytes instead of %d", ErrHandle, size, t.size)
	case kind == kindWhole && t.id != h.id:
		return tag{}, fmt.Errorf("%w: its memory has been used again", ErrStale)
	case kind == kindWhole && t.state != stateOpen && !sealedState(t.state):
		return tag{}, errFreed
	}
	return t, nil
}

const maxMapping = 1 << 46

func mapFD(fd int, size int64, mode Mode) (*segment, error) {
	prot, flags := protection(mode)
	data, err := unix.Mmap(fd, 0, int(size), prot, flags)
	if err != nil {
		return nil, mapError(size, err)
	}
	seg := &segment{mem: data, fd: -1, write: mode != ReadOnly}
	seg.close = func() error { return unix.Munmap(mem(seg)) }
	return seg, nil
}

// mapNamed maps a named array, found by its id below our own root.
func (s *Pool) mapNamed(h *handle, mode Mode) (*segment, error) {
	d, err := s.dir(h.root)
	if err != nil {
		return nil, err
	}
	write := mode == ReadWrite
	hold, err := d.LockShared(fileName(h.id), write)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("%w: there is no %s", ErrStale, d.FilePath(fileName(h.id)))
	case errors.Is(err, lockfile.ErrForeign):
		return nil, fmt.Errorf("%w: %w", ErrForeign, err)
	case write && errors.Is(err, fs.ErrPermission):
		return nil, errSealed
	case errors.Is(err, lockfile.ErrLocked):
		return nil, fmt.Errorf("attaching: another process looks after the file, and holds it longer than that should take: try again: %w", err)
	case err != nil:
		return nil, fmt.Errorf("attaching: %w", err)
	}
	t, err := checkNamed(hold, h, write)
	if err != nil {
		return nil, errors.Join(err, hold.Release())
	}
	prot, flags := protection(mode)
	m, err := hold.MapAs(int(t.size), prot, flags)
	if err != nil {
		return nil, fmt.Errorf("attaching: %w", noRoomIf(err))
	}
	seg := &segment{mem: m.Data, fd: -1, write: mode != ReadOnly}
	seg.state = stateOf(seg.mem[t.size-pageSize:])
	seg.close = closeNamed(seg, d, fileName(h.id), m)
	name := fileName(h.id)
	seg.lost = func() bool { return !d.Exists(name) }
	return seg, nil
}

func checkNamed(hold *lockfile.Lock, h *handle, write bool) (tag, error) {
	if write {
		if ok, err := lockWriter(hold.Fd()); err != nil {
			return tag{}, err
		} else if !ok {
			return tag{}, fmt.Errorf("%w: the array is being sealed", ErrSealed)
		}
	}
	var st unix.Stat_t
	if err := unix.Fstat(hold.Fd(), &st); err != nil {
		return tag{}, fmt.Errorf("attaching: %w", err)
	}
	t, err := readTag(hold.Fd(), st.Size, kindWhole, h)
	if err == nil && write && sealedState(t.state) {
		err = errSealed
	}
	return t, err
}

// attachInline takes the array out of its handle. It is this process's own; as with larger arrays,
// which are shared, nobody may write to what was put.
func attachInline(text Handle, mode Mode) (*object, view, error) {
	if mode == ReadWrite {
		return nil, view{}, errSealed
	}
	file, header, err := parseInline(text)
	if err != nil {
		return nil, view{}, err
	}
	offset := int64(header.DataOffset)
	if offset%entryAlign != 0 {
		return nil, view{}, fmt.Errorf("%w: its elements are not aligned", ErrHandle)
	}
	// Base64 was decoded to memory that Go aligns for large blocks only.
	mem := alignedCopy(file)
	seg := &segment{mem: mem, fd: -1, write: true, close: func() error { return nil }}
	o := &object{seg: seg, addr: handle{size: int64(len(mem))}, data: offset, length: int64(len(mem)) - offset,
		refs: 1}
	return o, contiguousView(header.Elem, offset, header.Shape, header.Fortran), nil
}
