package worker

import (
	"context"
	"fmt"
	"hash/crc32"
	"io"
	"net/http"
	"time"
)

// stride is how much of a body must come within Times.Silence: 64 KiB in 10 s is less than any link on which rasters are computed, and more than a
// client sends that means to hold memory.
const stride = 64 << 10

// resulted takes the result of a block. Its memory is taken before its body is read.
func (c *Channel) resulted(w http.ResponseWriter, r *http.Request, k *connection) (any, *refused) {
	h, err := parseResultHeader(r.Header)
	if err != nil {
		c.count(func(f *Refused) { f.Malformed++ })
		return nil, &refused{http.StatusBadRequest, "malformed", err.Error(), true}
	}
	n := r.ContentLength
	switch {
	case n < 0:
		c.count(func(f *Refused) { f.Malformed++ })
		return nil, &refused{http.StatusLengthRequired, "length", "a result's length is told before its body", true}
	case n > c.o.MaxResult:
		c.count(func(f *Refused) { f.Size++ })
		return nil, &refused{http.StatusRequestEntityTooLarge, "size", fmt.Sprintf("the result has %d bytes, results of this run have %d at most", n, c.o.MaxResult), true}
	}
	// What is not wanted is not given memory; the worker learns it when it has sent its body, since its connection, which it may not be able to make
	// again, would be broken otherwise.
	if !c.wanted(k, h) {
		if err := c.take(w, r, nil, n, nil); err != nil {
			return nil, c.broken(err)
		}
		return c.claim(r.Context(), k, h, n, nil)
	}
	if !c.room.TryAcquire(n) {
		ctx, cancel := context.WithCancel(r.Context())
		defer cancel()
		defer context.AfterFunc(c.ctx, cancel)()
		if c.room.Acquire(ctx, n) != nil {
			return nil, c.hangUp()
		}
	}
	defer c.room.Release(n)
	c.held.Add(n)
	defer c.held.Add(-n)
	body, giveBack := c.buffer(n)
	defer giveBack()
	var sum uint32
	if err := c.take(w, r, body, n, &sum); err != nil {
		return nil, c.broken(err)
	}
	if sum != h.checksum {
		c.count(func(f *Refused) { f.Checksum++ })
		return nil, refuse(http.StatusUnprocessableEntity, "checksum", "the body's checksum is %08x, not %08x as was told", sum, h.checksum)
	}
	return c.claim(r.Context(), k, h, n, body)
}

func (c *Channel) hangUp() *refused {
	c.mu.Lock()
	defer c.mu.Unlock()
	no := &refused{http.StatusServiceUnavailable, "closed", "the connection ended", true}
	if c.ended {
		no = c.isOver()
		no.hangUp = true
	}
	return no
}

// take reads a body of n bytes, into b unless that is nil. Each stride of it must come in time.
func (c *Channel) take(w http.ResponseWriter, r *http.Request, b []byte, n int64, sum *uint32) error {
	rc := http.NewResponseController(w)
	defer func() { _ = rc.SetReadDeadline(time.Time{}) }()
	for at := int64(0); at < n; {
		part := min(n-at, stride)
		_ = rc.SetReadDeadline(time.Now().Add(c.times.Silence))
		if b == nil {
			if _, err := io.CopyN(io.Discard, r.Body, part); err != nil {
				return err
			}
		} else {
			if _, err := io.ReadFull(r.Body, b[at:at+part]); err != nil {
				return err
			}
			*sum = crc32.Update(*sum, castagnoli, b[at:at+part])
		}
		at += part
	}
	// The end is read too, by which net/http knows that what follows is another message, and watches the connection.
	_, err := io.Copy(io.Discard, r.Body)
	return err
}

// wanted tells whether a result would be taken as things stand.
func (c *Channel) wanted(k *connection, h resultHeader) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended || h.worker >= len(c.members) || c.members[h.worker].state != StateJoined {
		return false
	}
	m := c.members[h.worker]
	m.heard = time.Now()
	c.bind(k, m)
	v := c.schedule.judge(h.worker, h.lease, h.block)
	return v == takeIt || v == tookIt
}

// accepted waits until the block of a result that came before is done.
func (c *Channel) accepted(ctx context.Context, block int) *refused {
	c.mu.Lock()
	done := c.accepting[block]
	c.mu.Unlock()
	if done == nil {
		return nil
	}
	select {
	case <-done:
		return nil
	case <-c.over:
		select {
		case <-done: // with it the run has ended
			return nil
		default:
		}
	case <-ctx.Done():
	}
	return c.hangUp()
}

// claim takes a result whose body has come, if it is still wanted.
func (c *Channel) claim(ctx context.Context, k *connection, h resultHeader, n int64, body []byte) (any, *refused) {
	m, released, no := c.claimBlock(k, h, n)
	if no == nil && m == nil { // it is there already; its lease ends, and its worker may use the body's memory again, when it was accepted
		no = c.accepted(ctx, h.block)
	}
	if no != nil || m == nil {
		c.release(released)
		return struct{}{}, no
	}
	if err := c.accept(c.ctx, &Result{Block: h.block, Worker: m.name, Host: m.host, Body: body}); err != nil {
		c.end(fmt.Errorf("block %d, from worker %s: %w", h.block, m.name, err))
		c.mu.Lock()
		defer c.mu.Unlock()
		return nil, c.isOver()
	}
	free, last := c.isDone(h.block)
	if free {
		c.release([]int{h.block})
	}
	if last {
		c.end(nil)
	}
	return struct{}{}, nil
}

// isDone notes that a block is. free: nobody holds it; last: there is no other.
func (c *Channel) isDone(block int) (free, last bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	free = c.schedule.accepted(block)
	delete(c.payloads, block)
	close(c.accepting[block])
	delete(c.accepting, block)
	return free, c.schedule.undone == 0
}

// claimBlock gives a block to a result; no member: the result is there already.
func (c *Channel) claimBlock(k *connection, h resultHeader, n int64) (m *member, released []int, no *refused) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended {
		return nil, nil, c.isOver()
	}
	if m, no = c.member(k, h.worker); no != nil {
		return nil, nil, no
	}
	verdict, free := c.schedule.claim(m.number, h.lease, h.block)
	if free {
		released = []int{h.block}
	}
	switch verdict {
	case tookIt:
		return nil, nil, nil
	case superseded:
		c.polls.wakeThis(m.turn)
		return nil, released, refuse(http.StatusConflict, "superseded", "another worker's result of block %d came first", h.block)
	case noBlock:
		c.refused.Block++
		return nil, nil, refuse(http.StatusNotFound, "block", "the run has no block %d", h.block)
	case noLease:
		c.refused.Lease++
		return nil, nil, refuse(http.StatusConflict, "lease", "worker %s has no lease %d of block %d", m.name, h.lease, h.block)
	}
	c.accepting[h.block] = make(chan struct{})
	m.done++
	m.bytes += n
	for _, l := range c.schedule.blocks[h.block].holders {
		if l != nil {
			c.members[l.worker].nudge()
		}
	}
	c.polls.wakeThis(m.turn) // it has a slot for a copy, or has none left and may get a block for the last time
	return m, nil, nil
}
