//go:build unix

package namespace

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"
	"unsafe"

	"leat/internal/backoff"
)

// errBarrierBroken is returned if another member failed to wait at a barrier, which can never be
// complete then.
var errBarrierBroken = errors.New("barrier is broken")

// Barrier lets processes (or goroutines) wait for each other, any number of times.
type Barrier struct {
	n     int
	space *Namespace
	// rounds done << 32 | broken << 31 | arrived: one word, so that a kill leaves no partial state
	word *atomic.Uint64
}

const barrierBroken = 1 << 31

// load returns the state. Close unmaps its memory.
func (b *Barrier) load() (uint64, error) {
	b.space.mu.Lock()
	defer b.space.mu.Unlock()
	if b.space.closed {
		return 0, ErrClosed
	}
	return b.word.Load(), nil
}

// swap sets the state to to if it is from and Close has not unmapped it.
func (b *Barrier) swap(from, to uint64) bool {
	b.space.mu.Lock()
	defer b.space.mu.Unlock()
	return !b.space.closed && b.word.CompareAndSwap(from, to)
}

// Barrier returns the barrier of that name. All members must give the same number of parties.
func (n *Namespace) Barrier(name string, parties int) (*Barrier, error) {
	if parties < 1 || parties >= barrierBroken {
		return nil, fmt.Errorf("barrier for %d parties, expected 1 to 2^31-1", parties)
	}
	data, err := n.memory("barrier-", name, 16)
	if err != nil {
		return nil, err
	}
	want := (*atomic.Uint64)(unsafe.Pointer(&data[8]))
	if !want.CompareAndSwap(0, uint64(parties)) && want.Load() != uint64(parties) {
		return nil, fmt.Errorf("barrier %s for %d parties, expected %d", name, parties, want.Load())
	}
	return &Barrier{n: parties, space: n, word: (*atomic.Uint64)(unsafe.Pointer(&data[0]))}, nil
}

// Pauses between checks of shared memory. Most waits take microseconds, or seconds.
const (
	waitFirst = 20 * time.Microsecond
	waitMax   = time.Millisecond
)

// Wait waits until all parties wait. It returns the error of ctx, a *MemberDiedError if a process
// of the job died, and another error if another party got one. After an error the barrier stays
// broken. A member that calls Close does not break the barrier: the others then wait until ctx is
// done.
func (b *Barrier) Wait(ctx context.Context) error {
	var round uint64
	for {
		s, err := b.load()
		if err != nil {
			return err
		}
		round = s >> 32
		if s&barrierBroken != 0 {
			return errBarrierBroken
		}
		if int(s&(barrierBroken-1))+1 == b.n {
			if b.swap(s, (round+1)<<32) {
				return nil
			}
			continue
		}
		if b.swap(s, s+1) {
			break
		}
	}
	p := backoff.Backoff{Next: waitFirst, Max: waitMax}
	for {
		s, err := b.load()
		if err != nil {
			return err
		}
		if s>>32 != round {
			return nil
		}
		if s&barrierBroken != 0 {
			return errBarrierBroken
		}
		_, err = p.Wait(ctx)
		if err == nil {
			err = b.space.died()
		}
		if err == nil {
			continue
		}
		// The barrier is broken unless the round was completed meanwhile.
		for {
			s, closed := b.load()
			if closed != nil {
				return closed
			}
			if s>>32 != round {
				return nil
			}
			if s&barrierBroken != 0 || b.swap(s, s|barrierBroken) {
				return err
			}
		}
	}
}

// died returns a *MemberDiedError if a member died.
func (n *Namespace) died() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		return ErrClosed
	}
	return n.reg.table.died(n.reg.slot)
}
