//go:build unix

package namespace

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"
	"unsafe"
)

// ErrBroken tells that somebody gave up waiting at a barrier, so that it can never be complete.
var ErrBroken = errors.New("the barrier is broken")

// Barrier is where n processes (or goroutines) wait for each other, any number of times.
type Barrier struct {
	n     int
	space *Namespace
	// rounds done << 32 | broken << 31 | arrived: one word, so that a kill leaves nothing half done
	word *atomic.Uint64
}

const barrierBroken = 1 << 31

// load returns the state, which is memory until the namespace is closed.
func (b *Barrier) load() (uint64, error) {
	b.space.mu.Lock()
	defer b.space.mu.Unlock()
	if b.space.closed {
		return 0, ErrClosed
	}
	return b.word.Load(), nil
}

// swap changes the state if it is from.
func (b *Barrier) swap(from, to uint64) bool {
	b.space.mu.Lock()
	defer b.space.mu.Unlock()
	return !b.space.closed && b.word.CompareAndSwap(from, to)
}

// Barrier returns the barrier of that name. All who wait there must give the same n.
func (n *Namespace) Barrier(name string, parties int) (*Barrier, error) {
	if parties < 1 || parties >= barrierBroken {
		return nil, fmt.Errorf("a barrier for %d can't be", parties)
	}
	data, err := n.memory("barrier-", name, 16)
	if err != nil {
		return nil, err
	}
	want := (*atomic.Uint64)(unsafe.Pointer(&data[8]))
	if !want.CompareAndSwap(0, uint64(parties)) && want.Load() != uint64(parties) {
		return nil, fmt.Errorf("the barrier %s is for %d, not %d", name, want.Load(), parties)
	}
	return &Barrier{n: parties, space: n, word: (*atomic.Uint64)(unsafe.Pointer(&data[0]))}, nil
}

// How long a wait looks at memory before it begins to sleep, and how it sleeps. What it waits for
// is mostly microseconds away, or seconds.
const (
	waitFirst = 20 * time.Microsecond
	waitMost  = time.Millisecond
)

// Wait waits until n have come. It fails with ctx, with a *DiedError when a process of the job died
// (which may be one that should have come), and with ErrBroken when another failed so: after an
// error the barrier stays broken, since it is not known who will come. A process that left the job
// in good order is not missed: give such waits a deadline.
func (b *Barrier) Wait(ctx context.Context) error {
	var round uint64
	for {
		s, err := b.load()
		if err != nil {
			return err
		}
		round = s >> 32
		if s&barrierBroken != 0 {
			return ErrBroken
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
	p := newPause(waitFirst, waitMost)
	for {
		s, err := b.load()
		if err != nil {
			return err
		}
		if s>>32 != round {
			return nil
		}
		if s&barrierBroken != 0 {
			return ErrBroken
		}
		err = p.wait(ctx)
		if err == nil {
			err = b.space.died()
		}
		if err == nil {
			continue
		}
		// Unless the round was completed meanwhile, nobody can rely on it any more.
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

// died returns a *DiedError if a member died.
func (n *Namespace) died() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		return ErrClosed
	}
	return n.reg.table.died(n.reg.slot)
}
