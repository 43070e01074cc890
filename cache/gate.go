package cache

import (
	"sync/atomic"
	"time"
)

// gate lets calls in until it is closed, and waits for those inside then. Calls for different slots mostly touch
// different words: one counter for all costs 8 busy goroutines more than the reading of an entry.
type gate struct {
	closed atomic.Bool
	inside [32]struct {
		n atomic.Int64
		_ [56]byte
	}
}

func (g *gate) enter(i int64) bool {
	in := &g.inside[i&31].n
	in.Add(1)
	if g.closed.Load() {
		in.Add(-1)
		return false
	}
	return true
}

func (g *gate) leave(i int64) { g.inside[i&31].n.Add(-1) }

// close lets nobody in any more and waits for those inside. It reports false to all but the first.
func (g *gate) close() bool {
	if g.closed.Swap(true) {
		return false
	}
	for i := range g.inside {
		for wait := 10 * time.Microsecond; g.inside[i].n.Load() > 0; wait = min(2*wait, 5*time.Millisecond) {
			time.Sleep(wait)
		}
	}
	return true
}
