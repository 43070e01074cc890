package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"time"
)

// beat tells the run once that this worker lives. Its answer takes Times.Heartbeat, unless there is news.
func (w *work) beat(ctx context.Context) error {
	w.mu.Lock()
	m := heartbeatMessage{Worker: w.number, Wait: w.times.Heartbeat.Milliseconds(), Noted: w.noted, Dropped: w.dropped}
	if !w.opened {
		m.Noted = math.MaxUint64 // there is nobody yet to be told
	}
	w.dropped = nil
	w.mu.Unlock()
	a, err := tell[heartbeatAnswer](ctx, w.beats, pathHeartbeat, m, w.times.Silence, maxAnswer)
	if err != nil {
		w.mu.Lock()
		w.dropped = append(w.dropped, m.Dropped...)
		w.mu.Unlock()
		return err
	}
	w.note(a.Note, a.Noted)
	w.giveUp(a.Superseded)
	return ended(a.End)
}

// giveUp stops the work on blocks that others have finished. A lease that is not known may be one whose answer is still on its way.
func (w *work) giveUp(leases []uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, id := range leases {
		if i := w.held[id]; i != nil {
			i.cancel()
		} else {
			w.tooLate[id] = true
		}
	}
}

func ended(end string) error {
	switch end {
	case endDone:
		return errDone
	case endFailed:
		return errEnded
	}
	return nil
}

// lease asks once for as many blocks as there is room for.
func (w *work) lease(ctx context.Context) error {
	w.mu.Lock()
	m := leaseMessage{Worker: w.number, Want: w.limit - len(w.held), Wait: w.times.Poll.Milliseconds(), Noted: w.noted, Held: make([]uint64, 0, len(w.held))}
	for id := range w.held {
		m.Held = append(m.Held, id)
	}
	if w.single && w.took {
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
	a, err := tell[leaseAnswer](ctx, w.leases, pathLease, m, w.times.Poll+w.times.Silence, maxAnswer)
	if err != nil {
		return err
	}
	if w.o.Leased != nil {
		w.o.Leased(time.Since(asked), len(a.Leases))
	}
	w.note(a.Note, a.Noted)
	if len(a.Leases) > m.Want {
		err := fmt.Errorf("worker: the run gave %d blocks where %d were asked for", len(a.Leases), m.Want)
		w.stop(err)
		return err
	}
	for _, g := range a.Leases {
		w.hold(g)
	}
	w.mu.Lock()
	clear(w.tooLate) // there is no other answer on its way
	w.mu.Unlock()
	return ended(a.End)
}

// hold takes up a lease. One that comes when the work has ended, and the others were given back, is dropped.
func (w *work) hold(g leaseGrant) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ctx.Err() != nil {
		w.dropped = append(w.dropped, g.Lease)
		return
	}
	i := &item{id: g.Lease, lease: Lease{Block: g.Block, Payload: g.Payload}}
	i.ctx, i.cancel = context.WithCancel(w.ctx)
	if w.tooLate[i.id] {
		i.cancel()
	}
	w.held[i.id] = i
	w.took = true
	w.todo <- i // has room for all that are held
}

// note tells the computer of a note that is newer than the last.
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
	if w.deaf {
		return nil
	}
	w.mu.Lock()
	news := version > w.noted
	if news {
		w.noted = version
	}
	w.mu.Unlock()
	if news {
		defer rescue(&err)
		w.computer.Noted(note)
	}
	return nil
}

// discharge ends a lease. told: the run knows.
func (w *work) discharge(i *item, told bool) {
	i.cancel()
	w.mu.Lock()
	delete(w.held, i.id)
	if !told {
		w.dropped = append(w.dropped, i.id)
	}
	w.mu.Unlock()
	if w.single { // it gets no other, however this one has ended
		w.stop(errServed)
	}
	select {
	case w.freed <- struct{}{}:
	default:
	}
}

// loop does something over and over until the work ends, or it has an error that can't be mended. When it is vital, it goes on until the worker has left, and can't go
// wrong for longer than Times.Silence.
func (w *work) loop(once func(context.Context) error, vital bool) {
	ctx := w.ctx
	if vital {
		ctx = w.links
	}
	patient, end := w.patient(vital)
	defer func() { end() }()
	var last error // that says more than that the time is over
	for pause := firstPause; ctx.Err() == nil; {
		err := once(patient)
		if !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, context.Canceled) {
			last = err
		}
		switch {
		case errors.Is(err, errAnswer): // that which asks next would get no other
			w.report(err, 0, -1)
			return
		case err == nil:
			end()
			patient, end = w.patient(vital)
			pause = firstPause
			continue
		case final(err), errors.Is(err, errDone), errors.Is(err, errEnded):
			w.stop(verdictOf(err))
			return
		case vital && patient.Err() != nil && w.links.Err() == nil:
			text := fmt.Errorf("%w: no word came from it for %v", errLink, w.times.Silence)
			if last != nil {
				text = fmt.Errorf("%w: %w", text, last)
			}
			w.stop(text)
			return
		}
		rest(ctx, &pause)
	}
}

// patient is the context of what goes on until the worker has left, and ends when the run was silent for too long meanwhile if that is vital.
func (w *work) patient(vital bool) (context.Context, context.CancelFunc) {
	if !vital {
		return w.links, func() {}
	}
	return within(w.links, w.times.Silence)
}

// verdictOf is what the end of the work is called when the run refuses a message.
func verdictOf(err error) error {
	switch {
	case refusedWith(err, "lost"):
		return ErrLost
	case refusedWith(err, "done"):
		return errDone // a copy's result came after the last block of all
	case refusedWith(err, "ended"):
		return errEnded
	}
	var no *refusedError
	if errors.As(err, &no) {
		return fmt.Errorf("worker: %w", err)
	}
	return err
}
