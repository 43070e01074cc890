//go:build unix

package shm

import "errors"

const (
	// arenaMax is the size up to which arrays share a memfd. A file of its own costs two pages, a
	// descriptor, a mapping and about ten system calls (30 us); copying 64 KiB takes less.
	arenaMax = 64 << 10
	// arenaSize is the size of an arena without its tag, a size class. It holds 60 of the largest
	// entries.
	arenaSize = 4 << 20
	// entryAlign is the alignment of entries and their data, as in .npy files.
	entryAlign = 64
)

// putSmall makes an array in the arena.
func (s *Pool) putSmall(p *allocation) (*object, error) {
	var err error
	if p.header, err = p.npyHeader(entryAlign); err != nil {
		return nil, err
	}
	size := tagSize + roundUp(p.data()+p.length, entryAlign)
	s.arenaMu.Lock()
	defer s.arenaMu.Unlock()
	// No entry begins at 0, which is the base of whole files in handles.
	if s.arena == nil || s.arenaAt+size > arenaSize {
		if err := s.newArena(); err != nil {
			return nil, err
		}
	}
	seg, base := s.arena, s.arenaAt
	// Memory is taken page by page; a recycled segment has its pages already.
	if need := roundUp(base+size, pageSize) - roundUp(seg.filled, pageSize); need > 0 {
		if err := s.reserveMemory(need); err != nil {
			return nil, err
		}
	}
	mem := seg.mem[base : base+size]
	id := newIdent()
	t := tag{kind: kindEntry, id: id, size: size, data: tagSize + p.data(), length: p.length}
	state := stateOf(mem)
	state.Store(stateMaking)
	t.encode(mem)
	copy(mem[tagSize:], p.header)
	p.src.read(mem[t.data:t.data+p.length], 0)
	clear(mem[t.data+p.length:])
	state.Store(stateSealed)
	o := &object{
		addr: handle{kind: kindMemfd, boot: s.boot, id: id, size: size, pid: s.pid, fd: seg.fd, base: base},
		seg:  seg, base: base, data: t.data, length: p.length, state: state, own: true,
	}
	if err := s.reg.lock(); err != nil {
		return nil, err
	}
	defer s.reg.mu.Unlock()
	s.arenaAt += size
	seg.filled = max(seg.filled, s.arenaAt)
	s.reg.addObject(o)
	return o, nil
}

// newArena starts an arena. The previous one is freed with its last entry.
func (s *Pool) newArena() error {
	const size = arenaSize + pageSize
	seg, lock, err := s.recycled.take(size, false)
	if err != nil {
		return err
	}
	if seg == nil {
		// The page of the tag. Entries take the others.
		if err := s.reserveMemory(pageSize); err != nil {
			return err
		}
		if seg, err = createMemfd(size, descriptorLimit()); err != nil {
			return err
		}
	}
	// Tags of earlier entries remain; they mark the entries as freed.
	at := int64(arenaSize)
	seg.state = stateOf(seg.mem[at:])
	t := tag{kind: kindArena, id: newIdent(), size: size, length: arenaSize}
	t.encode(seg.mem[at:])
	seg.arena, seg.full = true, false
	seg.state.Store(stateSealed)
	err = seg.seal()
	if lock >= 0 {
		err = errors.Join(err, unlock(lock))
	}
	if err != nil {
		return errors.Join(err, seg.close())
	}
	if err := s.reg.lock(); err != nil {
		return errors.Join(err, seg.close())
	}
	old := s.arena
	var out []*segment
	if old != nil {
		old.full = true
		if old.live == 0 {
			out = append(out, s.reg.retire(old))
		}
	}
	s.reg.addSegment(seg)
	s.arena, s.arenaAt = seg, entryAlign
	s.reg.mu.Unlock()
	return s.giveBack(out)
}
