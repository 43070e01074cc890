package apply

import (
	"context"
	"fmt"
	"sync"
)

// mergeAhead is how many blocks may be given out beyond the first one that is not merged yet: it bounds the
// emitted values that wait for an earlier block.
const mergeAhead = 1024

// merger hands emitted values on in block order. The zero value is ready for use; add is called under
// the run's mutex.
type merger struct {
	mu      sync.Mutex
	next    int
	waiting map[int][]any
	moved   chan struct{} // closed and replaced when next grows
	active  bool
	failed  bool // Merge gave an error: it is not called again
	// before brings the values of a block that an earlier run did, when its turn has come; false for others. nil: there are none.
	before func(n int) (values []any, ok bool, err error)
}

func (m *merger) start() {
	m.active = true
	m.waiting = map[int][]any{}
	m.moved = make(chan struct{})
}

// waitFor returns when block n may be given out.
func (m *merger) waitFor(ctx context.Context, n int) error {
	for {
		m.mu.Lock()
		if !m.active || n < m.next+mergeAhead {
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

// add takes the values of a finished block and merges all whose turn has come.
func (m *merger) add(n int, values []any, merge func(int, any) error) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.failed {
		return nil
	}
	m.waiting[n] = values
	return m.advance(merge)
}

// begin merges what stands before the first block that is still to be done.
func (m *merger) begin(merge func(int, any) error) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.advance(merge)
}

// advance merges all values whose turn has come. m.mu is held.
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
