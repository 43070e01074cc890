package namespace

import (
	"context"
	"math/rand/v2"
	"time"
)

// pause is the time between two polls: short at first, then up to a limit. Its random part spreads
// processes that started together.
type pause struct{ next, most time.Duration }

func newPause(first, most time.Duration) *pause { return &pause{first, most} }

// wait sleeps, or returns the cause of the end of ctx.
func (p *pause) wait(ctx context.Context) error {
	d := p.next/2 + rand.N(p.next)
	if p.next *= 2; p.next > p.most {
		p.next = p.most
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-t.C:
		return nil
	}
}
