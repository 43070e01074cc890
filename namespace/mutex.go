//go:build unix

package namespace

import (
	"context"
	"crypto/sha256"
	"encoding/binary"

	"leat/internal/backoff"
	"leat/internal/lockfile"
)

// mutexNumbers is the first lock number of mutexes, beyond those of the members' slots.
const mutexNumbers = 1 << 61

// Mutex is a lock among the processes of a job, and among the goroutines of each. The kernel
// unlocks it when its holder dies, which may leave what it guards in a partial state.
type Mutex struct {
	space  *Namespace
	number int64
	mine   chan struct{} // for the goroutines of this process, which share the kernel's lock
}

// Mutex returns the mutex of that name. It takes no memory.
func (n *Namespace) Mutex(name string) (*Mutex, error) {
	if err := checkWhat(name); err != nil {
		return nil, err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		return nil, ErrClosed
	}
	mine := n.locks[name]
	if mine == nil {
		mine = make(chan struct{}, 1)
		n.locks[name] = mine
	}
	sum := sha256.Sum256([]byte(name))
	return &Mutex{space: n, number: mutexNumbers + int64(binary.LittleEndian.Uint64(sum[:])>>4), mine: mine}, nil
}

// Lock waits for the mutex until ctx is done or the Namespace is closed. The caller calls unlock
// once. Lock polls every millisecond or more often, and is not fair.
func (m *Mutex) Lock(ctx context.Context) (unlock func() error, err error) {
	select {
	case m.mine <- struct{}{}:
	case <-m.space.closing:
		return nil, ErrClosed
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	p := backoff.Backoff{Next: waitFirst, Max: waitMax}
	for {
		locks, got, err := m.try()
		if got {
			return m.unlocker(locks), nil
		}
		if err == nil {
			_, err = p.Wait(ctx)
		}
		if err != nil {
			<-m.mine
			return nil, err
		}
	}
}

// TryLock locks the mutex if it is free; unlock is nil otherwise.
func (m *Mutex) TryLock() (unlock func() error, err error) {
	select {
	case m.mine <- struct{}{}:
	default:
		return nil, nil
	}
	locks, got, err := m.try()
	if !got {
		<-m.mine
		return nil, err
	}
	return m.unlocker(locks), nil
}

func (m *Mutex) try() (*lockfile.Ranges, bool, error) {
	m.space.mu.Lock()
	defer m.space.mu.Unlock()
	if m.space.closed {
		return nil, false, ErrClosed
	}
	locks := m.space.reg.locks
	got, err := locks.Try(lockfile.Write, m.number, 1)
	return locks, got, err
}

func (m *Mutex) unlocker(locks *lockfile.Ranges) func() error {
	return func() error {
		defer func() { <-m.mine }()
		m.space.mu.Lock()
		defer m.space.mu.Unlock()
		if m.space.closed {
			return ErrClosed // which released the lock
		}
		_, err := locks.Try(lockfile.Free, m.number, 1)
		return err
	}
}
