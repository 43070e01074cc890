// Package subprocess starts workers as child processes of this one: the [worker.Kind] that needs nothing but this machine.
//
// A child is the program it is told, with
//
//	LEAT_WORKER=fds:3,4,5            three inherited connections to the channel
//	LEAT_WORKER_NAME=subprocess-0    its name
//	LEAT_WORKER_SLOTS=2              how many blocks it computes at once
//
// in its environment, so there is no address to find and no secret to keep. Descriptors from 6 on are [Options.Files]. Its standard input is
// empty; the lines of its standard output and error are passed on under its name, and the end of them is kept for the word of its death.
//
// Children form process groups of their own. The terminal's ^C does not reach them: this process ends them in order. A worker's end, however it
// comes, ends all processes of its group. When this process dies, even by SIGKILL, its workers die with it: on Linux the kernel sees to that, and
// everywhere the end of their connections tells them.
//
// What it does not promise: a process that a worker starts and that leaves the worker's group (setsid) is out of reach; and when this process
// and thereby its workers are killed by SIGKILL, processes that workers have started must notice by themselves, by the end of their standard input.
package subprocess

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"leat/worker"
)

// Name is the kind's name.
const Name = "subprocess"

// connections is how many a worker has: for heartbeats, leases and results.
const connections = 3

// FirstFile is the descriptor at which a worker finds the first of [Options.Files].
const FirstFile = 3 + connections

// defaultGrace is short, since a run has to be over 5 s after ^C, and workers have been told to stop by their channel before.
const defaultGrace = time.Second

// Options are optional.
type Options struct {
	// Files are inherited by each worker as the descriptors 6, 7 and on ([FirstFile]). They stay the caller's, who may close them once Start has returned.
	Files []*os.File
	// Env is added to the environment that workers inherit from this process: NAME=VALUE each.
	Env []string
	// Slots is how many blocks each worker computes at once; 0: the processors this process may use, shared out among the workers that
	// are started together, at least 1.
	Slots int
	// Output takes the lines that workers print, each as "NAME: LINE" with one call of Write; nil: they go to the Logger of the start, at level Info. A
	// worker that prints faster than they are taken is held up.
	Output io.Writer
	// Grace is how long workers have from SIGTERM to SIGKILL; 0: one second.
	Grace time.Duration
}

func (o *Options) validate() error {
	var errs []error
	for i, f := range o.Files {
		if f == nil {
			errs = append(errs, fmt.Errorf("subprocess: Files[%d] is nil", i))
		}
	}
	for i, e := range o.Env {
		name, _, ok := strings.Cut(e, "=")
		switch {
		case !ok || name == "" || strings.ContainsRune(e, 0):
			errs = append(errs, fmt.Errorf("subprocess: Env[%d] is %q: it must be NAME=VALUE", i, e))
		case isReserved(name):
			errs = append(errs, fmt.Errorf("subprocess: Env[%d] sets %s, which the kind sets itself", i, name))
		}
	}
	if o.Slots < 0 {
		errs = append(errs, fmt.Errorf("subprocess: Slots is %d: it must be 0 (share out the processors) or more", o.Slots))
	}
	if o.Grace < 0 {
		errs = append(errs, fmt.Errorf("subprocess: Grace is %v: it must be 0 (one second) or more", o.Grace))
	}
	return errors.Join(errs...)
}

// isReserved tells whether a variable is one by which a process is told that it is a worker; it would refuse those that it does not know.
func isReserved(name string) bool { return strings.HasPrefix(name, worker.EnvInvitation) }

// Kind starts child processes. It may be used by several goroutines at once.
type Kind struct {
	o Options
}

var _ worker.Kind = (*Kind)(nil)

// New returns the kind; nil stands for the defaults. Options that can't be are reported by Check and Start.
func New(o *Options) *Kind {
	k := &Kind{}
	if o != nil {
		k.o = *o
	}
	if k.o.Grace == 0 {
		k.o.Grace = defaultGrace
	}
	if k.o.Output != nil {
		k.o.Output = &oneAtATime{w: k.o.Output}
	}
	return k
}

// Name returns "subprocess".
func (k *Kind) Name() string { return Name }

// Facts tells that workers are children of this process.
func (k *Kind) Facts() worker.Facts { return worker.Facts{Local: true} }

// Check returns what is wrong with the options.
func (k *Kind) Check(context.Context) error { return k.o.validate() }

// Start starts the workers and returns once each of them runs its program. An error names the program, and no worker is left then.
func (k *Kind) Start(ctx context.Context, o worker.StartOptions) (worker.Fleet, error) {
	if err := errors.Join(k.o.validate(), validateStart(o)); err != nil {
		return nil, err
	}
	f := newFleet(k.o, o)
	if err := f.start(ctx); err != nil {
		return nil, err
	}
	return f, nil
}

func validateStart(o worker.StartOptions) error {
	var errs []error
	if o.Workers < 1 {
		errs = append(errs, fmt.Errorf("subprocess: Workers is %d: it must be 1 or more", o.Workers))
	}
	if len(o.Command) == 0 || !filepath.IsAbs(o.Command[0]) {
		errs = append(errs, fmt.Errorf("subprocess: Command is %q: it must begin with the absolute path of a program", o.Command))
	}
	if o.Connect == nil {
		errs = append(errs, errors.New("subprocess: Connect is nil: workers would have no connection"))
	}
	return errors.Join(errs...)
}
