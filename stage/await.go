package stage

import (
	"context"
	"fmt"
	"time"

	"leat/stage/internal/shelf"
)

// Await waits until the object is staged, and is never read in another way: for those who want it on the disk rather than its bytes. Unlike Open it leaves the object its place in
// the queue. The error is ErrNoRoom where there is no room for it now: it waits for room as long as the Lazy is held; what failed of the directory, where it can't be staged for that; and ErrStopped where another process copies it that is stopped and
// has not gone on for as long as for a source that gives nothing is waited for (Options.Retry.Stall). ctx ends the waiting, not the copy.
func (l *Lazy) Await(ctx context.Context) error {
	it := l.h.it
	p := it.p
	p.mu.Lock()
	defer p.mu.Unlock()
	var patience <-chan time.Time // with another process
	for {
		if p.stopping || l.h.released.Load() {
			return ErrClosed
		}
		switch it.state {
		case staged:
			return nil
		case failed:
			return it.err
		case idle, parked:
			return p.noRoom(it)
		case away:
			if patience == nil {
				patience = time.After(p.stall())
			}
		default:
			patience = nil
		}
		changed := it.changed()
		p.mu.Unlock()
		var err error
		select {
		case <-changed:
		case <-patience:
			// One that copies slowly is waited for, and looks after its source itself. One that is stopped keeps its lock.
			patience, err = nil, p.stopped(it)
		case <-ctx.Done():
			err = ctx.Err()
		}
		p.mu.Lock()
		if err != nil {
			return err
		}
	}
}

// stopped is the error where the process that copies an item is stopped.
func (p *Pool) stopped(it *item) error {
	if !p.enter() {
		return ErrClosed
	}
	defer p.leave()
	pid := p.books.StoppedHolder(it.key)
	if pid == 0 {
		return nil
	}
	return fmt.Errorf("%w: process %d is copying %s: have it go on (kill -CONT %[2]d), or end it", ErrStopped, pid, it.id)
}

// noRoom is the error for an item that is not staged. mu is held.
func (p *Pool) noRoom(it *item) error {
	switch need := shelf.Charge(it.size); {
	case it.err != nil && !shelf.Full(it.err):
		return fmt.Errorf("stage: %s can't be staged: %w", it.id, it.err)
	case it.size <= 0:
		return fmt.Errorf("%w for %s", ErrNoRoom, it.id)
	case need > p.o.MaxBytes:
		return fmt.Errorf("%w for %s: it takes %d bytes, and the limit of all objects together is %d", ErrNoRoom, it.id, need, p.o.MaxBytes)
	default:
		return fmt.Errorf("%w for the %d bytes of %s", ErrNoRoom, it.size, it.id)
	}
}
