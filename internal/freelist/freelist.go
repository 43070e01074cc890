// Package freelist has the bounded list through which the stages of a pipeline return buffers.
package freelist

import (
	"context"
	"sync"
)

// List lends a fixed number of items, each created when it is first needed and reused after it
// is returned. Get waits while all are lent, which bounds the memory of a pipeline. It is safe for
// concurrent use.
type List[T any] struct {
	free   chan T
	create func() (T, error)

	mu   sync.Mutex
	left int // not created yet
}

// New returns a list of n items that create makes.
func New[T any](n int, create func() (T, error)) *List[T] {
	return &List[T]{free: make(chan T, n), create: create, left: n}
}

// Get returns an item, or the error of making it. While all are lent it waits for one to return, or
// until ctx ends.
func (f *List[T]) Get(ctx context.Context) (T, error) {
	select {
	case t := <-f.free:
		return t, nil
	default:
	}
	f.mu.Lock()
	if f.left > 0 {
		f.left--
		f.mu.Unlock()
		return f.create()
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

// Put returns an item to the list. It panics when the list already holds all its items.
func (f *List[T]) Put(t T) {
	select {
	case f.free <- t:
	default:
		panic("freelist: Put into a full list")
	}
}

// Free returns the number of items that Get would find without waiting.
func (f *List[T]) Free() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.free) + f.left
}
