package cache

import "sync/atomic"

// drainGate counts running calls, so that close can reject new ones and wait for them. Calls for
// different slots mostly touch different words: with a single counter, 8 busy goroutines spend more
// on it than on reading an entry.
type drainGate struct {
	closed atomic.Bool
	_      [63]byte // else closed, and what is before it, shares a cache line with the first word
	inside [32]struct {
		n atomic.Int64
		_ [56]byte
	}
}

func (g *drainGate) enter(i int64) bool {
	in := &g.inside[i&31].n
	in.Add(1)
	if g.closed.Load() {
		in.Add(-1)
		return false
	}
	return true
}

func (g *drainGate) leave(i int64) { g.inside[i&31].n.Add(-1) }

// close rejects new calls and waits for running ones. Only the first call returns true.
func (g *drainGate) close() bool {
	if g.closed.Swap(true) {
		return false
	}
	for i := range g.inside {
		for pause := shortPause(); g.inside[i].n.Load() > 0; {
			pause.Sleep()
		}
	}
	return true
}
