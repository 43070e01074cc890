package stage

import (
	"context"
	"fmt"
	"time"

	"leat/stage/internal/store"
)

// WaitStaged waits until the object is staged and never reads it in another way: for callers that
// need it on the disk rather than its bytes. Unlike Open it does not move the object to the front
// of the queue. The error is ErrNoSpace if there is no space now, in which case the pool goes on
// waiting for space as long as the Ref is held; the failure of the directory if that prevents
// staging; and ErrStopped if a stopped process copies the object and has not continued within
// Options.Retry.StallTimeout. Canceling ctx ends the wait, not the copy.
func (l *Ref) WaitStaged(ctx context.Context) error {
	it := l.it
	p := it.p
	p.mu.Lock()
	defer p.mu.Unlock()
	var timeout <-chan time.Time // for a copy of another process
	for {
		if p.stopping || l.released.Load() {
			return ErrClosed
		}
		switch it.state {
		case staged:
			return nil
		case failed:
			return it.err
		case idle, waitingForSpace:
			return p.noSpaceError(it)
		case copiedElsewhere:
			if timeout == nil {
				timeout = time.After(p.stallTimeout())
			}
		default:
			timeout = nil
		}
		changed := it.changed()
		p.mu.Unlock()
		var err error
		select {
		case <-changed:
		case <-timeout:
			// A slow process monitors its source itself. A stopped one keeps its lock.
			timeout, err = nil, p.stoppedError(it)
		case <-ctx.Done():
			err = ctx.Err()
		}
		p.mu.Lock()
		if err != nil {
			return err
		}
	}
}

// stoppedError returns an error if the process that copies an item is stopped.
func (p *Pool) stoppedError(it *item) error {
	if !p.enter() {
		return ErrClosed
	}
	defer p.leave()
	pid := p.index.StoppedHolder(it.key)
	if pid == 0 {
		return nil
	}
	return &HolderError{PID: pid, Err: fmt.Errorf("%w: process %d is copying %s", ErrStopped, pid, it.id)}
}

// noSpaceError returns the error for an item that is not staged. mu is held.
func (p *Pool) noSpaceError(it *item) error {
	switch need := store.Charge(it.size); {
	case !p.stages():
		return fmt.Errorf("%w for %s: the pool stages nothing", ErrNoSpace, it.id)
	case it.err != nil && !store.Full(it.err):
		return fmt.Errorf("%s can't be staged: %w", it.id, it.err)
	case it.size <= 0:
		return fmt.Errorf("%w for %s", ErrNoSpace, it.id)
	case need > p.o.MaxBytes:
		return fmt.Errorf("%w for %s: it takes %d bytes, the limit of all objects is %d", ErrNoSpace,
			it.id, need, p.o.MaxBytes)
	default:
		return fmt.Errorf("%w for the %d bytes of %s", ErrNoSpace, it.size, it.id)
	}
}
