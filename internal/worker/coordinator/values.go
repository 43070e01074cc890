package coordinator

import (
	"errors"
	"fmt"
	"math"
	"time"

	"leat/internal/worker/protocol"
	"leat/worker"
)

// Value is what a worker returned for the blocks that it computed.
type Value struct {
	Worker     int // its number
	Name, Host string
	Blocks     int // accepted from it
	Body       []byte
}

// values holds the values of workers that have left. Coordinator.mu guards it.
type values struct {
	of    map[int][]byte // by number of the member
	bytes int64
}

// Values returns the values of all workers with accepted blocks, in the order of worker numbers.
// Call it after Wait has returned nil. The caller owns the values.
func (c *Coordinator) Values() (list []Value) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, m := range c.members {
		if v, ok := c.values.of[m.number]; ok {
			list = append(list, Value{Worker: m.number, Name: m.name, Host: m.host, Blocks: m.done, Body: v})
		}
	}
	return list
}

// blocksOver reports whether workers should leave: the run has ended, or waits for their values.
func (c *Coordinator) blocksOver() bool { return c.ended || c.collecting }

// finish ends the run after its last block, or lets the workers leave with their values first.
func (c *Coordinator) finish() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.owed() == 0 {
		c.endLocked(nil)
		return
	}
	c.collecting = true
	c.polls.wake(math.MaxInt)
	for _, m := range c.members {
		c.polls.wakeOne(m.turn)
		m.wakeHeartbeat()
	}
}

// owed counts the workers with accepted blocks whose values have not arrived.
func (c *Coordinator) owed() (n int) {
	if c.o.MaxValue == 0 {
		return 0
	}
	for _, m := range c.members {
		if c.owes(m) {
			n++
		}
	}
	return n
}

func (c *Coordinator) owes(m *member) bool {
	_, ok := c.values.of[m.number]
	return c.o.MaxValue > 0 && m.done > 0 && !ok
}

// takeValue takes the value with which a worker leaves. A value of blocks that were not accepted
// can't be used: other workers compute those blocks again.
func (c *Coordinator) takeValue(m *member, q *protocol.Leave) {
	if c.ended || !c.owes(m) {
		return
	}
	if q.Blocks != m.done {
		text := "without the value of its blocks"
		if q.Blocks > 0 {
			text = fmt.Sprintf("with the value of %d blocks", q.Blocks)
		}
		c.endLocked(&worker.LostError{Block: -1, Worker: m.name, Reason: fmt.Sprintf(
			"worker %s on %s left %s, of which %d were accepted", m.name, m.host, text, m.done)})
		return
	}
	if c.values.bytes += int64(len(q.Value)); c.values.bytes > c.o.MaxValues {
		c.endLocked(fmt.Errorf("%w: more than %d bytes", ErrValuesSize, c.o.MaxValues))
		return
	}
	if c.values.of == nil {
		c.values.of = map[int][]byte{}
	}
	c.values.of[m.number] = q.Value
	if c.collecting && c.owed() == 0 {
		c.endLocked(nil)
	}
}

// ErrValuesSize means that the values of all workers together exceed Options.MaxValues.
var ErrValuesSize = errors.New("the values of workers are too large together")

// valueLost fails the run if a worker was lost before its value arrived.
func (c *Coordinator) valueLost(m *member, why string, now time.Time) {
	if c.ended || !c.owes(m) || c.failing != nil && (c.failing.final || c.failing.err.Block >= 0) {
		return
	}
	c.failing = &failing{err: &worker.LostError{Block: -1, Worker: m.name, Reason: fmt.Sprintf(
		"worker %s on %s was lost with the value of %d accepted blocks (%s)", m.name, m.host, m.done, why)},
		workers: []int{m.number}, by: now.Add(c.times.ExitReportWait), final: true}
}
