//go:build unix

package namespace

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"

	"leat/internal/fault"
	"leat/internal/lockfile"
)

// The table of members is shared memory in the job's file. A member takes a slot by a write lock on
// the slot's number, which the kernel releases with the process; then it writes the slot, the state
// last. So a slot whose state is joined but that nobody locks belongs to a member that died.
const (
	slotFree   = 0
	slotJoined = 1
	slotLeft   = 2

	leaderSlot = 0
)

// Offsets in a slot of little-endian words, written by its holder.
const (
	slotState  = 0  // uint32, atomic
	slotPID    = 4  // uint32
	slotStart  = 8  // uint64: start time of the process in clock ticks after boot, against recycled process ids
	slotRank   = 16 // uint32
	slotLocal  = 20 // uint32
	slotWorker = 24 // uint32
)

// table is a process's view of the members.
type table struct {
	data  []byte // mapped
	slots int
	locks *lockfile.Ranges
}

func mapTable(fd, offset, slots int, locks *lockfile.Ranges) (*table, error) {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, err
	}
	if int64(offset+slots*slotSize) > st.Size {
		return nil, fmt.Errorf("%w: table of members is cut off", errRecord)
	}
	data, err := unix.Mmap(fd, int64(offset), slots*slotSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("mapping table of members: %w", err)
	}
	return &table{data: data, slots: slots, locks: locks}, nil
}

func (t *table) close() error { return unix.Munmap(t.data) }

func (t *table) word(slot, offset int) *atomic.Uint32 {
	return (*atomic.Uint32)(unsafe.Pointer(&t.data[slot*slotSize+offset]))
}

// Member is a process of a namespace.
type Member struct {
	PID       int  `json:"pid"`
	Rank      int  `json:"rank"`
	LocalRank int  `json:"local_rank"`
	Worker    int  `json:"worker"`
	Leader    bool `json:"leader"`
	Alive     bool `json:"alive"` // false: it died without Close
	slot      int
	start     uint64
}

// member reads one slot; ok is false if it is free or its member has left.
func (t *table) member(slot int) (m Member, ok bool, err error) {
	if t.word(slot, slotState).Load() != slotJoined {
		return m, false, nil
	}
	held, err := t.locks.Probe(int64(slot), 1)
	if err != nil {
		return m, false, err
	}
	b := t.data[slot*slotSize:]
	m = Member{
		PID: int(binary.LittleEndian.Uint32(b[slotPID:])), start: binary.LittleEndian.Uint64(b[slotStart:]),
		Rank:      int(int32(binary.LittleEndian.Uint32(b[slotRank:]))),
		LocalRank: int(int32(binary.LittleEndian.Uint32(b[slotLocal:]))),
		Worker:    int(int32(binary.LittleEndian.Uint32(b[slotWorker:]))),
		Leader:    slot == leaderSlot, Alive: held, slot: slot,
	}
	// It may have left meanwhile.
	return m, t.word(slot, slotState).Load() == slotJoined, nil
}

// members returns all members. A process cannot probe its own locks, so self is alive.
func (t *table) members(self int) ([]Member, error) {
	var list []Member
	for slot := range t.slots {
		m, ok, err := t.member(slot)
		if err != nil {
			return nil, err
		}
		if ok {
			m.Alive = m.Alive || slot == self
			list = append(list, m)
		}
	}
	return list, nil
}

// anyAlive reports whether any other member is alive.
func (t *table) anyAlive() (bool, error) {
	return t.locks.Probe(0, int64(t.slots))
}

// leaderAlive reports whether the leader, another process, is alive.
func (t *table) leaderAlive() (bool, error) {
	return t.locks.Probe(leaderSlot, 1)
}

// leaderEnding reports whether the leader was killed or exits, although it still holds its locks.
// It is false for a process of another PID namespace.
func (t *table) leaderEnding() bool {
	m, ok, err := t.member(leaderSlot)
	return err == nil && ok && m.ending()
}

// ending reports whether a member that holds its lock was killed or exits.
func (m Member) ending() bool {
	p := procState(m.PID)
	return p.Exists && p.Start == m.start && p.Exiting
}

// takeSlot takes the leader's slot, or for others that of a dead process of the same rank, else a
// free one.
func (t *table) takeSlot(w Ranks, leader bool) (int, error) {
	if leader {
		return leaderSlot, t.occupy(leaderSlot, w)
	}
	first := 1
	for slot := 1; slot < t.slots; slot++ {
		b := t.data[slot*slotSize:]
		if t.word(slot, slotState).Load() == slotJoined &&
			binary.LittleEndian.Uint32(b[slotLocal:]) == uint32(w.LocalRank) &&
			binary.LittleEndian.Uint32(b[slotWorker:]) == uint32(w.Worker) {
			first = slot // of an earlier process of the same rank, unless it is locked
			break
		}
	}
	for i := range t.slots - 1 {
		slot := 1 + (first-1+i)%(t.slots-1)
		if slot != first && t.word(slot, slotState).Load() == slotJoined {
			continue // of a live member, or of a dead one whose death others must see
		}
		err := t.occupy(slot, w)
		if !errors.Is(err, errCollision) {
			return slot, err
		}
	}
	return 0, fmt.Errorf("namespace has %d members, the maximum", t.slots)
}

func (t *table) occupy(slot int, w Ranks) error {
	if got, err := t.locks.Try(lockfile.Write, int64(slot), 1); err != nil {
		return err
	} else if !got {
		return errCollision
	}
	fault.Point("namespace.slot locked")
	t.fill(slot, w)
	return nil
}

func (t *table) fill(slot int, w Ranks) {
	t.word(slot, slotState).Store(slotFree)
	putSlot(t.data[slot*slotSize:], w)
	t.word(slot, slotState).Store(slotJoined)
}

func putSlot(b []byte, w Ranks) {
	pid := os.Getpid()
	binary.LittleEndian.PutUint32(b[slotPID:], uint32(pid))
	binary.LittleEndian.PutUint64(b[slotStart:], startTime(pid))
	binary.LittleEndian.PutUint32(b[slotRank:], uint32(int32(w.Rank)))
	binary.LittleEndian.PutUint32(b[slotLocal:], uint32(int32(w.LocalRank)))
	binary.LittleEndian.PutUint32(b[slotWorker:], uint32(int32(w.Worker)))
}

// leave marks this process as ended by Close. Its lock ends with the descriptor.
func (t *table) leave(slot int) { t.word(slot, slotState).Store(slotLeft) }

// MemberDiedError is returned if a process of the job ended without Close.
type MemberDiedError struct{ Member Member }

func (e *MemberDiedError) Error() string {
	who := "a process"
	if e.Member.Leader {
		who = "the leader"
	}
	return fmt.Sprintf("%s of the job died: process %d, rank %d", who, e.Member.PID, e.Member.Rank)
}

// died returns a *MemberDiedError if a member other than self died.
func (t *table) died(self int) error {
	for slot := range t.slots {
		if slot == self {
			continue
		}
		m, ok, err := t.member(slot)
		if err != nil {
			return err
		}
		if ok && !m.Alive {
			return &MemberDiedError{Member: m}
		}
	}
	return nil
}
