// Package backoff waits between attempts, twice as long each time.
package backoff

import (
	"context"
	"math/rand/v2"
	"time"
)

// Backoff is a pause that grows. One goroutine at a time may use it.
type Backoff struct {
	Next time.Duration // upper bound of the next pause; positive
	Max  time.Duration // upper bound of all pauses; 0: none
}

// Sleep waits for a random time between half of Next and Next, which it then doubles. It returns
// how long it waited. The random part separates processes that started together.
func (b *Backoff) Sleep() time.Duration {
	d := b.take()
	time.Sleep(d)
	return d
}

// Wait is Sleep, but returns the cause of ctx as soon as ctx ends.
func (b *Backoff) Wait(ctx context.Context) (time.Duration, error) {
	d := b.take()
	return d, Sleep(ctx, d)
}

func (b *Backoff) take() time.Duration {
	d := b.Next/2 + rand.N(b.Next/2+1)
	b.Next *= 2
	if b.Max > 0 {
		b.Next = min(b.Next, b.Max)
	}
	return d
}

// Sleep waits for d; it returns the cause of ctx if that ends first.
func Sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
