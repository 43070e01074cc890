package batch

import (
	"context"
	"time"
)

// Pace is the interval between job queries: it grows by half from query to query, from First up to
// Longest.
type Pace struct{ First, Longest time.Duration }

// Next returns the interval after wait.
func (p Pace) Next(wait time.Duration) time.Duration { return min(wait*3/2, p.Longest) }

// Sleep waits for d and reports false if ctx ended first.
func Sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}
