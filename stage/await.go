package stage

import (
	"context"
	"fmt"

	"leat/stage/internal/shelf"
)

// Await waits until the object is staged, and is never read in another way: for those who want it on the disk rather than its bytes. Unlike Open it leaves the object its place in
// the queue. The error is ErrNoRoom where there is no room for it now: it waits for room as long as the Lazy is held. ctx ends the waiting, not the copy.
func (l *Lazy) Await(ctx context.Context) error {
	it := l.h.it
	p := it.p
	p.mu.Lock()
	defer p.mu.Unlock()
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
		}
		changed := it.changed()
		p.mu.Unlock()
		var err error
		select {
		case <-changed:
		case <-ctx.Done():
			err = ctx.Err()
		}
		p.mu.Lock()
		if err != nil {
			return err
		}
	}
}

// noRoom is the error for an item that is not staged. mu is held.
func (p *Pool) noRoom(it *item) error {
	switch need := shelf.Charge(it.size); {
	case it.size <= 0:
		return fmt.Errorf("%w for %s", ErrNoRoom, it.id)
	case need > p.o.MaxBytes:
		return fmt.Errorf("%w for %s: it takes %d bytes, and the limit of all objects together is %d", ErrNoRoom, it.id, need, p.o.MaxBytes)
	default:
		return fmt.Errorf("%w for the %d bytes of %s", ErrNoRoom, it.size, it.id)
	}
}
