package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"time"

	"leat/internal/worker/protocol"
)

// beat sends one heartbeat. The answer takes Times.Heartbeat unless there is news.
func (w *work) beat(ctx context.Context) error {
	w.mu.Lock()
	m := protocol.Heartbeat{Worker: w.number, Wait: w.times.Heartbeat.Milliseconds(), Noted: w.noted,
		Dropped: w.dropped}
	if !w.opened {
		m.Noted = math.MaxUint64 // no handler is open to be notified
	}
	w.dropped = nil
	w.mu.Unlock()
	a, err := post[protocol.HeartbeatAnswer](ctx, w.beats, protocol.PathHeartbeat, m, w.times.HeartbeatTimeout,
		protocol.MaxAnswer)
	if err != nil {
		w.mu.Lock()
		w.dropped = append(w.dropped, m.Dropped...)
		w.mu.Unlock()
		return err
	}
	w.note(a.Note, a.Noted)
	w.cancelLeases(a.Superseded)
	return ended(a.End)
}

// cancelLeases cancels blocks that others have finished. An unknown lease may be in an answer that
// is still on its way.
func (w *work) cancelLeases(leases []uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, id := range leases {
		if i := w.held[id]; i != nil {
			i.cancel()
		} else {
			w.supersededEarly[id] = true
		}
	}
}

func ended(end string) error {
	switch end {
	case protocol.EndDone:
		return errDone
	case protocol.EndFailed:
		return errEnded
	}
	return nil
}

// lease requests once as many blocks as the worker may still hold.
func (w *work) lease(ctx context.Context) error {
	w.mu.Lock()
	m := protocol.LeaseRequest{Worker: w.number, Want: w.limit - len(w.held), Wait: w.times.Poll.Milliseconds(),
		Noted: w.noted,
		Held:  make([]uint64, 0, len(w.held))}
	for id := range w.held {
		m.Held = append(m.Held, id)
	}
	if w.single && w.hadLease {
		m.Want = 0
	}
	w.mu.Unlock()
	if m.Want == 0 {
		select {
		case <-w.freed:
		case <-w.ctx.Done():
			return context.Cause(w.ctx)
		}
		return nil
	}
	asked := time.Now()
	a, err := post[protocol.LeaseAnswer](ctx, w.leases, protocol.PathLease, m,
		w.times.Poll+w.times.HeartbeatTimeout, protocol.MaxAnswer)
	if err != nil {
		return err
	}
	if w.o.OnLease != nil {
		w.o.OnLease(time.Since(asked), len(a.Leases))
	}
	w.note(a.Note, a.Noted)
	if len(a.Leases) > m.Want {
		err := fmt.Errorf("received %d blocks, requested %d", len(a.Leases), m.Want)
		w.stop(err)
		return err
	}
	for _, g := range a.Leases {
		w.hold(g)
	}
	w.mu.Lock()
	clear(w.supersededEarly) // no other answer is on its way
	w.mu.Unlock()
	return ended(a.End)
}

// hold adds a lease. One that arrives after the end of the work is dropped.
func (w *work) hold(g protocol.Grant) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ctx.Err() != nil {
		w.dropped = append(w.dropped, g.Lease)
		return
	}
	i := &item{id: g.Lease, lease: Lease{Block: g.Block, Payload: g.Payload}}
	i.ctx, i.cancel = context.WithCancel(w.ctx)
	if w.supersededEarly[i.id] {
		i.cancel()
	}
	w.held[i.id] = i
	w.hadLease = true
	w.todo <- i // never blocks: it has space for all held leases
}

// note passes a note to the handler if it is newer than the last one.
func (w *work) note(note json.RawMessage, version uint64) {
	if version == 0 {
		return
	}
	if err := w.pass(note, version); err != nil {
		w.report(err, 0, -1)
	}
}

func (w *work) pass(note json.RawMessage, version uint64) (err error) {
	w.noteMu.Lock()
	defer w.noteMu.Unlock()
	if w.notesClosed {
		return nil
	}
	w.mu.Lock()
	news := version > w.noted
	if news {
		w.noted = version
	}
	w.mu.Unlock()
	if !news {
		return nil
	}
	return call(func() error {
		w.handler.Notify(note)
		return nil
	}, func(err error) { w.report(err, 0, -1) })
}

// endLease ends a lease. reported: the coordinator knows about it.
func (w *work) endLease(i *item, reported bool) {
	i.cancel()
	w.mu.Lock()
	delete(w.held, i.id)
	if !reported {
		w.dropped = append(w.dropped, i.id)
	}
	w.mu.Unlock()
	if w.single { // it gets no other block, however this one ended
		w.stop(errServed)
	}
	select {
	case w.freed <- struct{}{}:
	default:
	}
}

// loop calls once until the work ends or an error is final. A vital loop continues until the worker
// has left, and ends the work if it fails for Times.HeartbeatTimeout.
func (w *work) loop(once func(context.Context) error, vital bool) {
	ctx := w.ctx
	if vital {
		ctx = w.connCtx
	}
	callCtx, end := w.heartbeatContext(vital)
	defer func() { end() }()
	var last error // the last error other than a timeout
	for pause := firstPause; ctx.Err() == nil; {
		err := once(callCtx)
		if !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, context.Canceled) {
			last = err
		}
		switch {
		case errors.Is(err, errAnswer): // a retry would get the same answer
			w.report(err, 0, -1)
			return
		case err == nil:
			end()
			callCtx, end = w.heartbeatContext(vital)
			pause = firstPause
			continue
		case vital && errors.Is(err, errDone) && w.owesValue(): // beat until the run has the value
			w.stop(errDone)
			last = nil
			end()
			pauseFor(ctx, w.times.Heartbeat)
			callCtx, end = w.heartbeatContext(vital)
			pause = firstPause
			continue
		case isFinal(err), errors.Is(err, errDone), errors.Is(err, errEnded):
			w.stop(endCause(err))
			return
		case vital && callCtx.Err() != nil && w.connCtx.Err() == nil:
			text := fmt.Errorf("%w: no answer for %v", ErrDisconnected, w.times.HeartbeatTimeout)
			if last != nil {
				text = fmt.Errorf("%w: %w", text, last)
			}
			w.stop(text)
			return
		}
		backOff(ctx, &pause, lastPause)
	}
}

// heartbeatContext returns the context of calls that continue until the worker has left; for vital
// calls it also ends after Times.HeartbeatTimeout.
func (w *work) heartbeatContext(vital bool) (context.Context, context.CancelFunc) {
	if !vital {
		return w.connCtx, func() {}
	}
	return within(w.connCtx, w.times.HeartbeatTimeout)
}

// endCause returns the cause of the end of the work when a message is refused.
func endCause(err error) error {
	switch {
	case refusedWith(err, "lost"):
		return ErrLost
	case refusedWith(err, "done"):
		return errDone // a copy's result arrived after the last block was done
	case refusedWith(err, "ended"):
		return errEnded
	}
	return err
}
