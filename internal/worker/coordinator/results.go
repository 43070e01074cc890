package coordinator

import (
	"context"
	"fmt"
	"hash/crc32"
	"io"
	"net/http"
	"time"

	"leat/internal/worker/protocol"
	"leat/worker"
)

// bodyStep is how much of a body must arrive within Times.HeartbeatTimeout. Any usable link
// transfers 64 KiB in 10 s; a slower client would only occupy memory.
const bodyStep = 64 << 10

// handleResult receives the result of a block. It reserves memory before reading the body.
func (c *Coordinator) handleResult(w http.ResponseWriter, r *http.Request, k *connection) (any, *refused) {
	h, err := protocol.ParseResultHeader(r.Header)
	if err != nil {
		c.count(func(f *worker.Refused) { f.Malformed++ })
		return nil, &refused{http.StatusBadRequest, "malformed", err.Error(), true}
	}
	n := r.ContentLength
	switch {
	case n < 0:
		c.count(func(f *worker.Refused) { f.Malformed++ })
		return nil, &refused{http.StatusLengthRequired, "length", "the result has no Content-Length", true}
	case n > c.o.MaxResult:
		c.count(func(f *worker.Refused) { f.Size++ })
		return nil, &refused{http.StatusRequestEntityTooLarge, "size",
			fmt.Sprintf("the result has %d bytes, at most %d are allowed", n, c.o.MaxResult), true}
	}
	// An unwanted result gets no memory. Its body is still read before the refusal, because closing
	// the connection early would break it, and an inherited one can't be dialed again.
	if !c.admitResult(k, h) {
		if err := c.readBody(w, r, nil, n, nil); err != nil {
			return nil, c.bodyRefusal(err)
		}
		return c.claim(r.Context(), k, h, n, nil)
	}
	if !c.acquire(r.Context(), n) {
		return nil, c.disconnectRefusal()
	}
	defer c.memory.Release(n)
	c.held.Add(n)
	defer c.held.Add(-n)
	body, giveBack := c.buffer(n)
	defer giveBack()
	var sum uint32
	if err := c.readBody(w, r, body, n, &sum); err != nil {
		return nil, c.bodyRefusal(err)
	}
	if sum != h.Checksum {
		c.count(func(f *worker.Refused) { f.Checksum++ })
		return nil, refuse(http.StatusUnprocessableEntity, "checksum",
			"the body's checksum is %08x, expected %08x", sum, h.Checksum)
	}
	return c.claim(r.Context(), k, h, n, body)
}

// acquire reserves memory for a body, and reports false if the request or the run ended before.
func (c *Coordinator) acquire(ctx context.Context, n int64) bool {
	if c.memory.TryAcquire(n) {
		return true
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(c.ctx, cancel)()
	return c.memory.Acquire(ctx, n) == nil
}

func (c *Coordinator) disconnectRefusal() *refused {
	c.mu.Lock()
	defer c.mu.Unlock()
	no := &refused{http.StatusServiceUnavailable, "closed", "connection closed", true}
	if c.ended {
		no = c.endRefusal()
		no.closeConn = true
	}
	return no
}

// readBody reads a body of n bytes, into b unless that is nil. Each step of it must arrive in time.
func (c *Coordinator) readBody(w http.ResponseWriter, r *http.Request, b []byte, n int64, sum *uint32) error {
	rc := http.NewResponseController(w)
	defer func() { _ = rc.SetReadDeadline(time.Time{}) }()
	for at := int64(0); at < n; {
		part := min(n-at, bodyStep)
		_ = rc.SetReadDeadline(time.Now().Add(c.times.HeartbeatTimeout))
		if b == nil {
			if _, err := io.CopyN(io.Discard, r.Body, part); err != nil {
				return err
			}
		} else {
			if _, err := io.ReadFull(r.Body, b[at:at+part]); err != nil {
				return err
			}
			*sum = crc32.Update(*sum, protocol.Castagnoli, b[at:at+part])
		}
		at += part
	}
	// Read to EOF: only then does net/http expect another message and watch the connection.
	_, err := io.Copy(io.Discard, r.Body)
	return err
}

// admitResult records a message of the worker and reports whether its result would be accepted now.
func (c *Coordinator) admitResult(k *connection, h protocol.ResultHeader) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended || h.Worker >= len(c.members) || c.members[h.Worker].state != worker.StateJoined {
		return false
	}
	m := c.members[h.Worker]
	m.heard = time.Now()
	c.bind(k, m)
	v := c.schedule.classify(h.Worker, h.Lease, h.Block)
	return v == accept || v == duplicate
}

// waitAccepted waits until the block of a duplicate result is done.
func (c *Coordinator) waitAccepted(ctx context.Context, block int) *refused {
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
		case <-done: // the run ended with this block
			return nil
		default:
		}
	case <-ctx.Done():
	}
	return c.disconnectRefusal()
}

// claim accepts a result whose body has arrived, if it is still wanted.
func (c *Coordinator) claim(ctx context.Context, k *connection, h protocol.ResultHeader, n int64,
	body []byte) (any, *refused) {
	m, released, no := c.claimBlock(k, h, n)
	// A duplicate: its lease ends, and its worker may reuse the body's memory, once the first
	// result is accepted.
	if no == nil && m == nil {
		no = c.waitAccepted(ctx, h.Block)
	}
	if no != nil || m == nil {
		c.release(released)
		return struct{}{}, no
	}
	result := &Result{Block: h.Block, Worker: m.name, Host: m.host, Number: m.number, Body: body}
	if err := c.accept(c.ctx, result); err != nil {
		c.end(fmt.Errorf("block %d, from worker %s: %w", h.Block, m.name, err))
		c.mu.Lock()
		defer c.mu.Unlock()
		return nil, c.endRefusal()
	}
	free, last := c.finishBlock(h.Block)
	if free {
		c.release([]int{h.Block})
	}
	if last {
		c.finish()
	}
	return struct{}{}, nil
}

// finishBlock marks a block as done. free: no worker holds it; last: it was the last block.
func (c *Coordinator) finishBlock(block int) (free, last bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	free = c.schedule.accepted(block)
	delete(c.payloads, block)
	close(c.accepting[block])
	delete(c.accepting, block)
	return free, c.schedule.undone == 0
}

// claimBlock claims a block for a result; the member is nil if the result arrived before.
func (c *Coordinator) claimBlock(k *connection, h protocol.ResultHeader, n int64) (m *member, released []int,
	no *refused) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended {
		return nil, nil, c.endRefusal()
	}
	if m, no = c.member(k, h.Worker); no != nil {
		return nil, nil, no
	}
	verdict, free := c.schedule.claim(m.number, h.Lease, h.Block)
	if free {
		released = []int{h.Block}
	}
	switch verdict {
	case duplicate:
		return nil, nil, nil
	case superseded:
		c.polls.wakeOne(m.turn)
		return nil, released, refuse(http.StatusConflict, "superseded",
			"another worker's result of block %d was first", h.Block)
	case noBlock:
		c.refused.Block++
		return nil, nil, refuse(http.StatusNotFound, "block", "the run has no block %d", h.Block)
	case noLease:
		c.refused.Lease++
		return nil, nil, refuse(http.StatusConflict, "lease", "worker %s has no lease %d of block %d", m.name, h.Lease,
			h.Block)
	}
	c.accepting[h.Block] = make(chan struct{})
	m.done++
	m.bytes += n
	for _, l := range c.schedule.blocks[h.Block].holders {
		if l != nil {
			c.members[l.worker].wakeHeartbeat()
		}
	}
	c.polls.wakeOne(m.turn) // a slot is free for a copy, or the worker may get a block's last try
	return m, nil, nil
}
