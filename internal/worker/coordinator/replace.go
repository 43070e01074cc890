package coordinator

import (
	"slices"
	"time"
)

const (
	// replaceWindow is the time in which the number of replacements is bounded.
	replaceWindow = time.Hour
	// maxBlockLosses is how many workers may be lost with the same block before a worker that is
	// lost with it is no longer replaced: the block is the likely cause.
	maxBlockLosses = 3
	// firstReplacePause is the first pause after a replacement could not be started; pauses grow up
	// to lastReplacePause.
	firstReplacePause = 5 * time.Second
	lastReplacePause  = 5 * time.Minute
)

// replacements counts the workers that Run starts in place of others. Coordinator.mu guards it.
type replacements struct {
	most    int // within replaceWindow; 0: no replacements
	due     int // workers that ended and may be replaced
	started []time.Time
	count   int64
	// exitedIdle counts the workers in a row that ended without having held a block. If all do,
	// more workers do not help.
	exitedIdle int
}

// left returns how many more may be started now.
func (r *replacements) left(now time.Time) int {
	r.started = slices.DeleteFunc(r.started, func(t time.Time) bool { return now.Sub(t) >= replaceWindow })
	return max(0, r.most-len(r.started))
}

// addReplacement records that a worker started by Run ended early. blockLosses is the largest
// number of workers lost with one of its blocks.
func (c *Coordinator) addReplacement(e *expected, hadBlock bool, blockLosses int) {
	r := &c.replace
	if r.most == 0 || c.ended || !e.launched || e.counted {
		return
	}
	e.counted = true
	if hadBlock {
		r.exitedIdle = 0
	} else if r.exitedIdle++; r.exitedIdle > c.o.Reissues+c.o.Workers/16 {
		c.log.Warn("replacements stopped: too many idle exits", "worker", e.name)
		return
	}
	if blockLosses >= maxBlockLosses {
		c.log.Warn("lost worker not replaced: block lost repeatedly", "worker", e.name)
		return
	}
	r.due++
}

// replaceable returns how many replacements may be started now: none before the first worker has
// joined, since the user has to fix workers that can't start at all.
func (c *Coordinator) replaceable(now time.Time) int {
	if !c.starting || c.o.OneBlockPerJob || c.ended || c.failing != nil || len(c.members) == 0 {
		return 0
	}
	// More workers than remaining blocks would be idle.
	useful := c.schedule.undone - c.schedule.claims - c.alive() - c.pending()
	return max(0, min(c.replace.due, c.replace.left(now), useful))
}

// takeReplacements returns how many workers to start now, numbered from first on, and registers
// them.
func (c *Coordinator) takeReplacements(kind string, first int, now time.Time) (int, *start) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.replaceable(now)
	if n == 0 {
		return 0, nil
	}
	c.replace.due -= n
	c.replace.count += int64(n)
	for range n {
		c.replace.started = append(c.replace.started, now)
	}
	return n, c.expectStart(kind, first, n)
}
