package main

import "context"

// interruptible returns what f returns, or why ctx ended before that. f may open and read a pipe,
// which nothing interrupts; it is then left behind, and the process ends.
func interruptible[T any](ctx context.Context, f func() (T, error)) (T, error) {
	type result struct {
		v   T
		err error
	}
	ended := make(chan result, 1)
	go func() {
		v, err := f()
		ended <- result{v, err}
	}()
	select {
	case r := <-ended:
		return r.v, r.err
	case <-ctx.Done():
		var zero T
		return zero, context.Cause(ctx)
	}
}
