package client

import (
	"context"
	"sync"
	"time"
)

// timerSteps is the number of steps in which an activeTimer counts its time.
const timerSteps = 8

// activeTimer calls do after a duration in which this process was running. It counts in steps, so
// that any pause of the process or its machine counts as one step: a message may have arrived
// unread meanwhile, or its sender may have been paused too.
type activeTimer struct {
	step time.Duration
	do   func()

	mu   sync.Mutex
	t    *time.Timer
	left int // steps; 0: do was called, or the timer was stopped
}

func newActiveTimer(d time.Duration, do func()) *activeTimer {
	l := &activeTimer{step: d / timerSteps, do: do, left: timerSteps}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.t = time.AfterFunc(l.step, l.count)
	return l
}

func (l *activeTimer) count() {
	l.mu.Lock()
	if l.left == 0 {
		l.mu.Unlock()
		return
	}
	if l.left--; l.left > 0 {
		l.t.Reset(l.step)
		l.mu.Unlock()
		return
	}
	l.mu.Unlock()
	l.do()
}

// stop stops the timer and reports whether do had not been called yet.
func (l *activeTimer) stop() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	before := l.left > 0
	l.left = 0
	l.t.Stop()
	return before
}

// within works like context.WithTimeout, with an activeTimer.
func within(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	l := newActiveTimer(d, func() { cancel(context.DeadlineExceeded) })
	return ctx, func() {
		l.stop()
		cancel(nil)
	}
}
