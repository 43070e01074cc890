// Package subprocess starts workers as child processes on this machine. It provides a
// [worker.Launcher].
//
// A child runs the given program with these environment variables:
//
//	LEAT_WORKER=fds:3,4,5            three inherited connections to the coordinator
//	LEAT_WORKER_NAME=subprocess-0    its name
//	LEAT_WORKER_SLOTS=2              how many blocks it computes at once
//
// so it needs no address and no secret. Descriptors from 6 on are [Options.Files]. Its standard
// input is empty. The lines of its standard output and error are passed on under its name, and the
// last ones are reported with its exit.
//
// Each child has its own process group, so the terminal's ^C does not reach it. When a worker ends
// for any reason, its whole group is killed. When this process dies, even by SIGKILL, its workers
// end too: on Linux by a death signal, elsewhere because their connections close.
//
// On Linux, workers are batch processes (SCHED_BATCH) with a timer slack of 2 ms, unless this
// process has a scheduling policy other than the default one: they compute for milliseconds, so
// they need not interrupt each other when they wake up. Processes that workers start inherit both.
//
// Two things are not promised. A process that leaves its worker's group (setsid) is not killed. If
// this process is killed by SIGKILL, processes started by workers are not killed: they have to end
// by themselves, for example when their standard input ends.
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

// launcherName is the launcher's name.
const launcherName = "subprocess"

// connections is the number of a worker's connections: for heartbeats, leases and results.
const connections = 3

// firstFile is the descriptor of the first of [Options.Files] in a worker.
const firstFile = 3 + connections

// defaultGrace is short, because a run ends within 5 s of ^C and the coordinator has already asked
// the workers to end.
const defaultGrace = time.Second

// Options configures a launcher.
type Options struct {
	// Files are inherited by each worker as descriptors 6, 7 and so on. The caller
	// keeps them and may close them after Start.
	Files []*os.File
	// Env is added to the inherited environment: NAME=VALUE each.
	Env []string
	// Slots is the number of blocks that each worker computes at once; 0: this process's processors
	// divided by the number of workers, at least 1.
	Slots int
	// Output receives the lines that workers print, each as "NAME: LINE" in one Write; nil: they go
	// to the Logger of the start, at level Info. A slow writer blocks the workers. Control
	// characters within a line become escapes such as \x1b.
	Output io.Writer
	// Grace is the time between SIGTERM and SIGKILL; 0: one second.
	Grace time.Duration
}

func (o *Options) validate() error {
	var errs []error
	for i, f := range o.Files {
		if f == nil {
			errs = append(errs, fmt.Errorf("option Files[%d] is nil", i))
		}
	}
	for i, e := range o.Env {
		name, _, ok := strings.Cut(e, "=")
		switch {
		case !ok || name == "" || strings.ContainsRune(e, 0):
			errs = append(errs, fmt.Errorf("option Env[%d] is %q, expected NAME=VALUE", i, e))
		case isReserved(name):
			errs = append(errs, fmt.Errorf("option Env[%d] sets %s, which is reserved for the launcher", i, name))
		}
	}
	if o.Slots < 0 {
		errs = append(errs, fmt.Errorf("option Slots is %d, expected 0 (divide the processors) or more",
			o.Slots))
	}
	if o.Grace < 0 {
		errs = append(errs, fmt.Errorf("option Grace is %v, expected 0 (one second) or more", o.Grace))
	}
	return errors.Join(errs...)
}

// isReserved reports whether a variable configures worker processes, which refuse unknown ones.
func isReserved(name string) bool { return strings.HasPrefix(name, worker.EnvEndpoint) }

// launcher starts child processes. It is safe for concurrent use.
type launcher struct {
	o Options
}

// New returns a launcher; nil means defaults. Check and Start report invalid options.
func New(o *Options) worker.Launcher { return newLauncher(o) }

func newLauncher(o *Options) *launcher {
	k := &launcher{}
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
func (k *launcher) Name() string { return launcherName }

// Capabilities reports that workers are local.
func (k *launcher) Capabilities() worker.Capabilities { return worker.Capabilities{Local: true} }

// Check returns an error that names all invalid options.
func (k *launcher) Check(context.Context) error { return k.o.validate() }

// Start starts the workers and returns once each of them runs its program. On an error, which names
// the program, no worker is left.
func (k *launcher) Start(ctx context.Context, o worker.StartOptions) (worker.Fleet, error) {
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
		errs = append(errs, fmt.Errorf("option Workers is %d, expected 1 or more", o.Workers))
	}
	if len(o.Command) == 0 || !filepath.IsAbs(o.Command[0]) {
		errs = append(errs, fmt.Errorf("option Command is %q, expected the absolute path of a program first",
			o.Command))
	}
	if o.Connect == nil {
		errs = append(errs, errors.New("option Connect is nil, expected a function"))
	}
	return errors.Join(errs...)
}
