package exec

import (
	"context"
	"fmt"
	"sync"
)

// MergeAhead is how many blocks beyond the first unmerged one may be started. It bounds the emitted
// values that wait for an earlier block.
const MergeAhead = 1024

// merger passes emitted values to Merge in block order. The zero value is for a job without Merge:
// waitFor returns at once, and the other methods need start. The caller of add holds the run's
// mutex.
type merger struct {
	mu      sync.Mutex
	next    int
	waiting map[int][]any
	moved   chan struct{} // closed and replaced when next grows
	active  bool
	failed  bool // Merge returned an error: it is not called again
	// before returns the values of a block that an earlier run computed, in block order, none for
	// one that is skipped, and false for other blocks; nil if there are no such blocks.
	before func(n int) (values []any, ok bool, err error)
}

// start prepares the merger for values.
func (m *merger) start() {
	m.active = true
	m.waiting = map[int][]any{}
	m.moved = make(chan struct{})
}

// waitFor blocks until block n may be started.
func (m *merger) waitFor(ctx context.Context, n int) error {
	for {
		m.mu.Lock()
		if !m.active || n < m.next+MergeAhead {
			m.mu.Unlock()
			return nil
		}
		moved := m.moved
		m.mu.Unlock()
		select {
		case <-moved:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// add takes the values of a finished block and merges all that are next in order.
func (m *merger) add(n int, values []any, merge func(int, any) error) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.failed {
		return nil
	}
	m.waiting[n] = values
	return m.advance(merge)
}

// begin merges the values of an earlier run before the first block that is still to be done.
func (m *merger) begin(merge func(int, any) error) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.advance(merge)
}

// advance merges all values that are next in order. The caller holds m.mu.
func (m *merger) advance(merge func(int, any) error) error {
	for {
		values, ok := m.waiting[m.next]
		if !ok && m.before != nil {
			var err error
			if values, ok, err = m.before(m.next); err != nil {
				m.failed = true
				return err
			}
		}
		if !ok {
			break
		}
		for _, v := range values {
			if err := merge(m.next, v); err != nil {
				m.failed = true
				return fmt.Errorf("merging block %d: %w", m.next, err)
			}
		}
		delete(m.waiting, m.next)
		m.next++
	}
	close(m.moved)
	m.moved = make(chan struct{})
	return nil
}
