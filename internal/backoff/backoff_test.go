package backoff

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func TestPausesDoubleUpToMax(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := Backoff{Next: time.Millisecond, Max: 6 * time.Millisecond}
		for _, top := range []time.Duration{1, 2, 4, 6, 6} {
			top *= time.Millisecond
			begin := time.Now()
			d := b.Sleep()
			if d < top/2 || d > top || time.Since(begin) != d {
				t.Errorf("slept %v, returned %v; expected %v to %v", time.Since(begin), d, top/2, top)
			}
		}
	})
}

func TestWaitEndsWithTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cause := errors.New("cause")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { cancel(cause) })
		begin := time.Now()
		b := Backoff{Next: time.Hour}
		if _, err := b.Wait(ctx); !errors.Is(err, cause) || time.Since(begin) != time.Second {
			t.Errorf("%v after %v", err, time.Since(begin))
		}
		b = Backoff{Next: time.Second}
		if _, err := b.Wait(t.Context()); err != nil || b.Next != 2*time.Second {
			t.Errorf("%v, next %v", err, b.Next)
		}
	})
}
