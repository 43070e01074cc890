package stage

import (
	"context"
	"time"
)

// startWorker starts a worker if there is something to do for one more.
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

// runNow has an item copied at once, beside what the workers do: somebody waits for it.
func (p *Pool) runNow(it *item) {
	p.setState(it, running, nil)
	p.wg.Go(func() { p.run(it) })
}

// run makes one attempt to have an item staged. Its state is running.
func (p *Pool) run(it *item) {
	ctx, cancel := context.WithCancel(p.ctx)
	defer cancel()
	p.mu.Lock()
	it.cancel = cancel
	p.mu.Unlock()
	o := p.attempt(ctx, it)
	o.cancelled = ctx.Err() != nil // an error of the source's may look the same
	p.finish(it, o)
}

// finish moves an item on after an attempt.
func (p *Pool) finish(it *item, o outcome) {
	p.mu.Lock()
	it.cancel = nil
	if o.size > 0 {
		it.size = o.size
	}
	switch {
	case o.entry != nil && it.refs > 0 && !p.stopping:
		it.entry, o.entry = o.entry, nil
		if given, ok := it.src.(*given); ok {
			given.forget()
		}
		p.setState(it, staged, nil)
		p.wakeHelperLocked()
	case p.stopping:
		p.setState(it, failed, ErrClosed)
	case it.refs == 0:
		p.setState(it, idle, nil)
	case o.err != nil && o.cancelled:
		p.enqueueFirst(it) // it was released, and is wanted again
	case o.err != nil:
		p.setState(it, failed, o.err)
	case o.away:
		it.shared = true
		p.setState(it, away, nil)
		p.away[it] = struct{}{}
		p.startHelper()
		p.wakeHelperLocked() // it may be nothing but an eviction, which is over soon
	case it.wanted > 0:
		p.readThrough(it)
	case o.never:
		p.setState(it, idle, o.cause)
	default:
		if !it.waited {
			it.waited = true
			p.count(countWaits, 1)
			p.parked = append(p.parked, it)
		} else {
			p.parked = append([]*item{it}, p.parked...)
		}
		p.setState(it, parked, nil)
		p.startHelper()
	}
	drop := it.drop || p.o.Keep == Drop
	p.mu.Unlock()
	if o.entry != nil {
		p.giveUp(o.entry, drop)
	}
}

// startHelper starts the goroutine that looks after what waits for room or for other processes.
func (p *Pool) startHelper() {
	if p.helper || p.stopping {
		return
	}
	p.helper = true
	pause := max(p.pause, shortestPause)
	p.wg.Go(func() { p.help(pause) })
}

// wakeHelperLocked has the helper look again at once: room may have become free. mu is held.
func (p *Pool) wakeHelperLocked() {
	if p.helper {
		select {
		case p.poke <- struct{}{}:
		default:
		}
	}
	p.pause = 0
}

func (p *Pool) wakeHelper() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.wakeHelperLocked()
}

const (
	shortestPause = 100 * time.Microsecond
	longestPause  = 10 * time.Millisecond // for which a change in another process may stay unseen
)

func (p *Pool) help(pause time.Duration) {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	for {
		select {
		case <-p.ctx.Done():
		case <-p.poke:
			pause = time.Millisecond
		case <-timer.C:
			pause = min(2*pause, longestPause)
		}
		p.mu.Lock()
		if p.retryParked(); len(p.parked) == 0 && len(p.away) == 0 || p.stopping {
			// What was parked last is tried now, and may be back at once: then the pauses go on becoming longer.
			p.helper, p.pause = false, pause
			p.mu.Unlock()
			return
		}
		look := make([]*item, 0, len(p.away))
		for it := range p.away {
			look = append(look, it)
		}
		p.mu.Unlock()
		for _, it := range look {
			if p.books.Busy(it.key) {
				continue
			}
			p.mu.Lock()
			if it.state == away {
				delete(p.away, it)
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

// retryParked has the one tried again that has waited for room longest. When it gets its room the next one's turn comes at once, see finish.
func (p *Pool) retryParked() {
	for len(p.parked) > 0 {
		it := p.parked[0]
		p.parked[0] = nil
		p.parked = p.parked[1:]
		if it.state == parked {
			p.enqueueFirst(it)
			return
		}
	}
}
