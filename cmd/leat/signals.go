package main

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// signalError is the cause of a context that a signal ended.
type signalError struct{ unix.Signal }

func (e signalError) Error() string { return e.String() + " signal received" }

// notifyContext returns a context that SIGINT, SIGTERM or SIGHUP ends, except those that the parent
// process ignores, as nohup does. A second signal ends the process at once.
func notifyContext(parent context.Context) (ctx context.Context, stop func()) {
	var ends []os.Signal
	for _, s := range []os.Signal{unix.SIGINT, unix.SIGTERM, unix.SIGHUP} {
		if !signal.Ignored(s) {
			ends = append(ends, s)
		}
	}
	ctx, cancel := context.WithCancelCause(parent)
	if len(ends) == 0 { // Notify takes an empty list for all signals
		return ctx, func() { cancel(nil) }
	}
	received := make(chan os.Signal, 1)
	signal.Notify(received, ends...)
	var g sync.WaitGroup
	g.Go(func() {
		defer signal.Stop(received)
		select {
		case s := <-received:
			if n, ok := s.(syscall.Signal); ok {
				cancel(signalError{n})
			}
		case <-ctx.Done():
		}
	})
	return ctx, func() {
		cancel(nil)
		g.Wait()
	}
}

// signalOf returns the signal that ended a context of notifyContext, 0 if none did.
func signalOf(ctx context.Context) unix.Signal {
	var e signalError
	if errors.As(context.Cause(ctx), &e) {
		return e.Signal
	}
	return 0
}

// dieBy ends the process by a signal, after everything was cleaned up. A shell whose user pressed
// ^C goes on with its loop unless it sees that the signal ended the program.
func dieBy(s unix.Signal) {
	signal.Reset(s)
	if os.Getpid() != 1 { // the kernel keeps such signals from the first process of a container
		if unix.Kill(os.Getpid(), s) == nil {
			time.Sleep(time.Minute)
		}
	}
	os.Exit(128 + int(s))
}
