package client

import (
	"context"
	"errors"
	"testing"
	"time"
)

func TestActiveTimer(t *testing.T) {
	ctx, end := within(t.Context(), time.Millisecond)
	defer end()
	<-ctx.Done()
	if !errors.Is(context.Cause(ctx), context.DeadlineExceeded) {
		t.Error(context.Cause(ctx))
	}
	called := make(chan struct{})
	l := newActiveTimer(time.Millisecond, func() { close(called) })
	<-called
	if l.stop() {
		t.Error("stop reports true after the call")
	}
	l = newActiveTimer(time.Hour, func() { t.Error("called after stop") })
	if !l.stop() {
		t.Error("stop reports false before the call")
	}
}
