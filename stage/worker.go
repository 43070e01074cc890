package stage

import (
	"context"
	"time"
)

// startWorker starts another worker unless there are enough. mu is held.
func (p *Pool) startWorker() {
	if p.workers >= p.o.Workers || p.stopping {
		return
	}
	p.workers++
	p.wg.Go(func() {
		for {
			p.mu.Lock()
			var it *item
			if !p.stopping {
				it = p.dequeue()
			}
			if it == nil {
				p.workers--
				p.mu.Unlock()
				return
			}
			p.mu.Unlock()
			p.run(it)
		}
	})
}

// runNow copies an item at once, in addition to the workers: a caller waits for it. mu is held.
func (p *Pool) runNow(it *item) {
	p.setState(it, running, nil)
	p.wg.Go(func() { p.run(it) })
}

// run makes one attempt to stage an item, whose state is running.
func (p *Pool) run(it *item) {
	ctx, cancel := context.WithCancel(p.ctx)
	defer cancel()
	p.mu.Lock()
	it.cancel = cancel
	p.mu.Unlock()
	o := p.attempt(ctx, it)
	o.cancelled = ctx.Err() != nil // an error of the source may look the same
	p.finish(it, o)
}

// finish sets the state of an item after an attempt.
func (p *Pool) finish(it *item, o outcome) {
	p.mu.Lock()
	it.cancel = nil
	if o.size > 0 {
		it.size = o.size
	}
	unused := o.entry != nil && (it.refs == 0 || p.stopping)
	if unused {
		drop := it.drop || p.o.Keep == Drop
		p.mu.Unlock()
		// Before the state changes: once Wait returns, the object can be evicted or is removed.
		p.unuse(o.entry, drop)
		o.entry = nil
		p.mu.Lock()
		p.wakeJanitorLocked()
	}
	switch {
	case o.entry != nil:
		it.entry = o.entry
		if src, ok := it.src.(*memSource); ok {
			src.forget()
		}
		p.setState(it, staged, nil)
		p.wakeJanitorLocked()
	case p.stopping:
		p.setState(it, failed, ErrClosed)
	case it.refs == 0:
		p.setState(it, idle, nil)
	case unused, o.err != nil && o.cancelled:
		p.enqueueFirst(it) // released, and wanted again
	case o.err != nil:
		p.setState(it, failed, o.err)
	case o.busy:
		it.shared = true
		p.setState(it, copiedElsewhere, nil)
		p.elsewhere[it] = struct{}{}
		p.startJanitor()
		p.wakeJanitorLocked() // the other process may only evict it, which ends soon
	case it.wanted > 0:
		p.readThrough(it)
	case o.unstageable:
		p.setState(it, idle, o.cause)
	default:
		if !it.waited {
			it.waited = true
			p.count(countWaits, 1)
			p.waiting = append(p.waiting, it)
		} else {
			p.waiting = append([]*item{it}, p.waiting...)
		}
		p.setState(it, waitingForSpace, nil)
		p.startJanitor()
	}
	p.mu.Unlock()
}

// startJanitor starts the goroutine that retries items which wait for space or for other processes.
// mu is held.
func (p *Pool) startJanitor() {
	if p.janitor || p.stopping {
		return
	}
	p.janitor = true
	pause := max(p.pause, shortestPause)
	p.wg.Go(func() { p.runJanitor(pause) })
}

// wakeJanitorLocked makes the janitor retry at once, since there may be space now. mu is held.
func (p *Pool) wakeJanitorLocked() {
	if p.janitor {
		select {
		case p.wake <- struct{}{}:
		default:
		}
	}
	p.pause = 0
}

func (p *Pool) wakeJanitor() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.wakeJanitorLocked()
}

const (
	shortestPause = 100 * time.Microsecond
	longestPause  = 10 * time.Millisecond // the longest delay until a change by another process is noticed
)

func (p *Pool) runJanitor(pause time.Duration) {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	for {
		select {
		case <-p.ctx.Done():
		case <-p.wake:
			pause = time.Millisecond
		case <-timer.C:
			pause = min(2*pause, longestPause)
		}
		p.mu.Lock()
		if p.retryWaiting(); len(p.waiting) == 0 && len(p.elsewhere) == 0 || p.stopping {
			// The item retried last may wait again at once: the pauses then continue to grow.
			p.janitor, p.pause = false, pause
			p.mu.Unlock()
			return
		}
		busy := make([]*item, 0, len(p.elsewhere))
		for it := range p.elsewhere {
			busy = append(busy, it)
		}
		p.mu.Unlock()
		for _, it := range busy {
			if p.index.Busy(it.key) {
				continue
			}
			p.mu.Lock()
			if it.state == copiedElsewhere {
				delete(p.elsewhere, it)
				if it.wanted > 0 {
					p.runNow(it)
				} else {
					p.enqueueFirst(it)
				}
				pause = shortestPause
			}
			p.mu.Unlock()
		}
		timer.Reset(pause)
	}
}

// retryWaiting retries the item that has waited for space longest. If it gets its space, finish
// wakes the janitor for the next one.
func (p *Pool) retryWaiting() {
	for len(p.waiting) > 0 {
		it := p.waiting[0]
		p.waiting[0] = nil
		p.waiting = p.waiting[1:]
		if it.state == waitingForSpace {
			p.enqueueFirst(it)
			return
		}
	}
}
