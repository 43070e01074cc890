package block

import (
	"context"
	"sync"
)

// FreeList lends out at most a fixed number of things, each made when first needed and used
// again after it was given back. When all are out, Get waits: that is what bounds a pipeline's memory. Safe for
// concurrent use.
type FreeList[T any] struct {
	free chan T
	make func() T

	mu   sync.Mutex
	left int // not made yet
}

// NewFreeList returns a list of n things that make creates.
func NewFreeList[T any](n int, make_ func() T) *FreeList[T] {
	return &FreeList[T]{free: make(chan T, n), make: make_, left: n}
}

// Get returns a thing, waiting for one to come back if all are out, or until ctx ends.
func (f *FreeList[T]) Get(ctx context.Context) (T, error) {
	select {
	case t := <-f.free:
		return t, nil
	default:
	}
	f.mu.Lock()
	if f.left > 0 {
		f.left--
		f.mu.Unlock()
		return f.make(), nil
	}
	f.mu.Unlock()
	select {
	case t := <-f.free:
		return t, nil
	case <-ctx.Done():
		var zero T
		return zero, ctx.Err()
	}
}

// Put gives a thing back. Giving back more than were got is the caller's mistake and panics.
func (f *FreeList[T]) Put(t T) {
	select {
	case f.free <- t:
	default:
		panic("block: Put of a thing that was not got from the list")
	}
}

// Free returns how many things a Get would find without waiting.
func (f *FreeList[T]) Free() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.free) + f.left
}
