//go:build unix

package shm

import (
	"errors"
	"fmt"
	"io/fs"

	"golang.org/x/sys/unix"

	"leat/internal/lockfile"
)

// attach finds or maps the object of a handle. The object has a reference for the caller.
func (s *Pool) attach(text Handle, mode Mode) (*object, view, error) {
	if isInline(text) {
		return attachInline(text, mode)
	}
	h, err := parseHandle(text)
	if err != nil {
		return nil, view{}, err
	}
	if h.boot != s.boot {
		return nil, view{}, bootError(text)
	}
	o, err := s.attachParsed(&h, mode)
	if err != nil {
		return nil, view{}, err
	}
	// The handle must match the registry's object in every part, and its view lie in the data.
	if err := o.check(&h); err != nil {
		if o.private() {
			return nil, view{}, errors.Join(err, o.seg.close())
		}
		return nil, view{}, errors.Join(err, s.release(o))
	}
	return o, h.view, nil
}

func bootError(text Handle) error {
	return fmt.Errorf("%w: made on another host, or before the last boot: %.80q", ErrForeign, string(text))
}

// usable returns an error if an object of the registry cannot be attached.
func (o *object) usable(write bool) error {
	if o.state == nil {
		return nil
	}
	switch state := o.state.Load(); {
	case state != stateOpen && !sealedState(state):
		return errFreed
	case write && sealedState(state):
		return errSealedArray
	}
	return nil
}

var errFreed = fmt.Errorf("%w: it was freed", ErrStale)

// sealedState reports whether nobody but its creator may write to an array.
func sealedState(state uint32) bool { return state == stateSealed || state == stateHanded }

// leftBehind reports whether an object that was handed over is still mapped here although its
// handle no longer leads to it.
func (o *object) leftBehind() bool {
	return o.state != nil && o.state.Load() == stateHanded && o.seg.lost != nil && o.seg.lost()
}

// check compares a handle with its object.
func (o *object) check(h *handle) error {
	a := &o.addr
	if a.kind != h.kind || a.id != h.id || a.size != h.size || a.pid != h.pid || a.fd != h.fd || a.base != h.base ||
		a.root != h.root ||
		a.path != h.path || a.dev != h.dev || a.ino != h.ino || a.mtime != h.mtime {
		return fmt.Errorf("%w: describes another array or size: %.80q", errHandle,
			string(h.text()))
	}
	lo, hi, err := h.view.bounds()
	if err == nil && (lo < o.data || hi > o.data+o.length) {
		err = fmt.Errorf("the view covers bytes %d to %d, the array %d to %d", lo, hi, o.data, o.data+o.length)
	}
	if err != nil {
		return fmt.Errorf("%w: %w", errHandle, err)
	}
	return nil
}

func (s *Pool) attachParsed(h *handle, mode Mode) (*object, error) {
	write := mode == ReadWrite
	if mode != CopyOnWrite {
		if err := s.reg.lock(); err != nil {
			return nil, err
		}
		// An array that was handed over has one handle at its sender and one at its receiver.
		if o := s.reg.objects[objectKey{h.id, write}]; o != nil && o.addr.pid == h.pid && o.addr.fd == h.fd {
			defer s.reg.mu.Unlock()
			if err := o.usable(write); err != nil {
				return nil, err
			}
			if o.leftBehind() {
				return nil, errFreed
			}
			if write && !o.write {
				return nil, errSealedArray
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

// enter registers an object of a segment that was just mapped. If another goroutine was quicker,
// its mapping is used.
func (s *Pool) enter(o *object) (*object, error) {
	if err := s.reg.lock(); err != nil {
		return nil, errors.Join(err, o.seg.close())
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

// knownEntry finds an entry in an arena that is mapped already, or returns nil. Its process and
// descriptor may be another arena's by now, so it compares the entry's id. The caller holds the
// registry's mutex.
func (s *Pool) knownEntry(h *handle) *object {
	seg := s.reg.arenas[arenaKey{h.pid, h.fd}]
	if seg == nil {
		return nil
	}
	o, err := objectIn(seg, h)
	if err != nil {
		return nil // it or the arena is stale
	}
	s.reg.addObject(o)
	return o
}

// objectIn returns the object of a handle in a mapped segment, whose tag must match.
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
			return nil, fmt.Errorf("%w: no array begins at byte %d of its memory", errHandle, h.base)
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
		return nil, fmt.Errorf("%w: size is %d bytes, that of its array %d", errHandle, h.size, t.size)
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
		return s.mapNamed(h, mode, -1)
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

// readTag reads and checks the tag of a whole file before it is mapped.
func readTag(fd int, size int64, kind uint16, h *handle) (tag, error) {
	if size < 2*pageSize || size%pageSize != 0 || size > maxMapping {
		return tag{}, fmt.Errorf("%w: its file is not a shared array", errHandle)
	}
	var b [tagSize]byte
	if err := readFull(fd, b[:], size-pageSize); err != nil {
		return tag{}, err
	}
	t, err := parseTag(b[:])
	switch {
	case err != nil:
		return tag{}, err
	case t.kind != kind:
		return tag{}, fmt.Errorf("%w: its memory has been used again", ErrStale)
	case t.size != size:
		return tag{}, fmt.Errorf("%w: its memory has %d bytes, expected %d", errHandle, size, t.size)
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
	data, err := mapMemory(fd, size, prot, flags)
	if err != nil {
		return nil, mapError(size, err)
	}
	seg := &segment{mem: data, fd: -1, write: mode != ReadOnly}
	seg.close = func() error { return unmapMemory(mem(seg)) }
	return seg, nil
}

// mapNamed maps a named array, found by its id below our own root. received is a descriptor that
// must be of the same file, or -1.
func (s *Pool) mapNamed(h *handle, mode Mode, received int) (*segment, error) {
	d, err := s.dir(h.root)
	if err != nil {
		return nil, err
	}
	write, name := mode == ReadWrite, fileName(h.id)
	hold, err := d.LockShared(name, write)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("%w: %s does not exist", ErrStale, d.FilePath(name))
	case errors.Is(err, lockfile.ErrForeign):
		return nil, fmt.Errorf("%w: %w", ErrForeign, err)
	case write && errors.Is(err, fs.ErrPermission):
		return nil, errSealedArray
	case err != nil:
		return nil, fmt.Errorf("attaching: %w", err)
	}
	t, err := checkNamed(hold, h, write, received)
	if err != nil {
		return nil, errors.Join(err, hold.Release())
	}
	prot, flags := protection(mode)
	m, err := hold.MapAs(int(t.size), prot, flags)
	if err != nil {
		return nil, fmt.Errorf("attaching: %w", wrapNoSpace(err))
	}
	seg := &segment{mem: m.Data, fd: -1, write: mode != ReadOnly}
	seg.state = stateOf(seg.mem[t.size-pageSize:])
	seg.close = closeNamed(seg, d, name, m)
	seg.lost = func() bool { return !d.Exists(name) }
	return seg, nil
}

func checkNamed(hold *lockfile.Lock, h *handle, write bool, received int) (tag, error) {
	if write {
		if ok, err := lockByte(hold.Fd(), unix.F_RDLCK); err != nil {
			return tag{}, err
		} else if !ok {
			return tag{}, fmt.Errorf("%w: the array is being sealed", errSealed)
		}
	}
	var st, came unix.Stat_t
	if err := unix.Fstat(hold.Fd(), &st); err != nil {
		return tag{}, fmt.Errorf("attaching: %w", err)
	}
	if received >= 0 {
		if err := unix.Fstat(received, &came); err != nil {
			return tag{}, fmt.Errorf("attaching: %w", err)
		}
		if came.Dev != st.Dev || came.Ino != st.Ino {
			return tag{}, fmt.Errorf("%w: descriptor is of another file than %s", errHandle, fileName(h.id))
		}
	}
	t, err := readTag(hold.Fd(), st.Size, kindWhole, h)
	if err == nil && write && sealedState(t.state) {
		err = errSealedArray
	}
	return t, err
}

// attachInline returns the array in a handle, as private memory. As with larger arrays, ReadWrite
// is refused.
func attachInline(text Handle, mode Mode) (*object, view, error) {
	if mode == ReadWrite {
		return nil, view{}, errSealedArray
	}
	file, header, err := parseInline(text)
	if err != nil {
		return nil, view{}, err
	}
	offset := int64(header.DataOffset)
	if offset%entryAlign != 0 {
		return nil, view{}, fmt.Errorf("%w: elements at byte %d, expected a multiple of %d", errHandle, offset, entryAlign)
	}
	mem := alignedCopy(file) // Go aligns only large blocks
	seg := &segment{mem: mem, fd: -1, write: true, close: func() error { return nil }}
	o := &object{seg: seg, addr: handle{size: int64(len(mem))}, data: offset, length: int64(len(mem)) - offset,
		refs: 1}
	return o, contiguousView(header.Elem, offset, header.Shape, header.Fortran), nil
}

// alignedCopy returns b in memory whose address is a multiple of entryAlign.
func alignedCopy(b []byte) []byte {
	m := make([]byte, len(b)+entryAlign)
	off := int(-address(m) & (entryAlign - 1))
	m = m[off : off+len(b) : off+len(b)]
	copy(m, b)
	return m
}
