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
// the slot's number, which the kernel frees with the member; then it writes the slot, the state
// last. So a slot that says "joined" and is not locked belonged to one that died.
const (
	slotFree   = 0
	slotJoined = 1
	slotLeft   = 2

	leaderSlot = 0
)

// Offsets in a slot. All are little-endian words of the machine (leat runs on little-endian ones
// alone) written by its holder.
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
		return nil, fmt.Errorf("%w: its table of members is cut off", errRecord)
	}
	data, err := unix.Mmap(fd, int64(offset), slots*slotSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("mapping the table of members: %w", err)
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
	Alive     bool `json:"alive"` // false: it died without leaving
	slot      int
	start     uint64
}

// member reads one slot; ok is false where there is none or it has left.
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
		Leader:    slot == leaderSlot, Alive: held != lockfile.Free, slot: slot,
	}
	// It may have left between the two looks.
	return m, t.word(slot, slotState).Load() == slotJoined, nil
}

// members lists all but self, whose own locks no probe shows.
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

// anyAlive reports whether any other member lives: one look for all slots.
func (t *table) anyAlive() (bool, error) {
	held, err := t.locks.Probe(0, int64(t.slots))
	return held != lockfile.Free, err
}

// leaderAlive is for the others.
func (t *table) leaderAlive() (bool, error) {
	held, err := t.locks.Probe(leaderSlot, 1)
	return held != lockfile.Free, err
}

// leaderEnding reports whether the process that leads was killed or exits, although its locks are
// still there. One that can't be found (in another container's numbers of processes) is taken for
// alive.
func (t *table) leaderEnding() bool {
	m, ok, err := t.member(leaderSlot)
	return err == nil && ok && m.ending()
}

// ending reports whether nothing of a member that holds its lock will run any more.
func (m Member) ending() bool {
	p := procState(m.PID)
	return p.Exists && p.Start == m.start && p.Exiting
}

// enter takes a slot: the leader's, or for others that of a dead process of the same rank, else a
// free one.
func (t *table) enter(w Ranks, leader bool) (int, error) {
	if leader {
		return leaderSlot, t.occupy(leaderSlot, w)
	}
	first := 1
	for slot := 1; slot < t.slots; slot++ {
		b := t.data[slot*slotSize:]
		if t.word(slot, slotState).Load() == slotJoined &&
			binary.LittleEndian.Uint32(b[slotLocal:]) == uint32(w.LocalRank) &&
			binary.LittleEndian.Uint32(b[slotWorker:]) == uint32(w.Worker) {
			first = slot // its own earlier life, if the lock is to be had
			break
		}
	}
	for i := range t.slots - 1 {
		slot := 1 + (first-1+i)%(t.slots-1)
		if slot != first && t.word(slot, slotState).Load() == slotJoined {
			continue // of one that lives or died: its death should still be seen
		}
		err := t.occupy(slot, w)
		if !errors.Is(err, errCollision) {
			return slot, err
		}
	}
	return 0, fmt.Errorf("the namespace has %d members, there is no room for more", t.slots)
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

// leave says that this end is meant. The lock goes with the descriptor.
func (t *table) leave(slot int) { t.word(slot, slotState).Store(slotLeft) }

// DiedError tells which process of the job ended without leaving. It is ErrMemberDied.
type DiedError struct{ Member Member }

func (e *DiedError) Error() string {
	who := "a process"
	if e.Member.Leader {
		who = "the process that leads"
	}
	return fmt.Sprintf("%s of the job died: process %d, rank %d", who, e.Member.PID, e.Member.Rank)
}

// Is makes the error an ErrMemberDied.
func (e *DiedError) Is(target error) bool { return target == ErrMemberDied }

// died returns an error if a member other than self died.
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
			return &DiedError{Member: m}
		}
	}
	return nil
}
