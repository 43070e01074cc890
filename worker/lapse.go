package worker

import (
	"context"
	"sync"
	"time"
)

// lapseSteps are in how many steps a lapse is counted.
const lapseSteps = 8

// lapse calls do after a time in which this process ran. It is counted in steps: when the process is stopped, or its machine stands still, for however long, that is one of them. What
// is waited for may have come meanwhile and lie there unread, or whoever has to send it may have been stopped too.
type lapse struct {
	step time.Duration
	do   func()

	mu   sync.Mutex
	t    *time.Timer
	left int // steps; 0: it was called, or stopped
}

func newLapse(d time.Duration, do func()) *lapse {
	l := &lapse{step: d / lapseSteps, do: do, left: lapseSteps}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.t = time.AfterFunc(l.step, l.count)
	return l
}

func (l *lapse) count() {
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

// stop tells whether it comes before the call of do.
func (l *lapse) stop() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	before := l.left > 0
	l.left = 0
	l.t.Stop()
	return before
}

// within is context.WithTimeout, by a lapse.
func within(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	l := newLapse(d, func() { cancel(context.DeadlineExceeded) })
	return ctx, func() {
		l.stop()
		cancel(nil)
	}
}
