package apply

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"strings"

	"golang.org/x/sys/unix"

	"leat/raster"
	"leat/worker"
)

// Functions are functions by the names under which other processes find them: the same table in the program that runs a job and in those
// that work for it, which are the same program.
type Functions map[string]Function

// Function is one of them: what Job.Func, Setup, Close and Emits are for a function that stays in its process.
type Function struct {
	Func  Func
	Setup func(ctx context.Context, w WorkerInfo) (any, error)
	Close func(state any) error
	// Params encodes Job.Params, which a worker's Block.Params gives; nil for a function that takes none. Emits encodes what it emits; nil for one that
	// emits nothing.
	Params, Emits Codec
}

// WorkOptions are what a worker process brings along.
type WorkOptions struct {
	Functions Functions
	// Opener makes what opens inputs, as Job.Open does, where workers read them. site is the run's Concurrency.Site. close is called when
	// the inputs are closed. nil: local files alone.
	Opener func(site []byte) (open func(ctx context.Context, path string) (raster.Source, error), close func() error, err error)
	Logger *slog.Logger
	// Secrets fetch what a variable of the environment only names, by the kind of name.
	Secrets map[string]func(ctx context.Context, name string) (string, error)
}

// Main makes of a program one that can work for its own jobs in other processes. It stands at the top of main, before flags are looked
// at: in a process that was started as a worker it computes blocks and ends the process; in any other it does nothing.
func Main(functions Functions) {
	if !IsWorker() {
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, unix.SIGTERM)
	err := Work(ctx, WorkOptions{Functions: functions})
	stop()
	if err != nil {
		fmt.Fprintf(os.Stderr, "worker: %v\n", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// IsWorker reports whether this process was started as a worker, which its environment says (LEAT_WORKER and the like).
func IsWorker() bool {
	for _, name := range []string{worker.EnvInvitation, worker.EnvFile, worker.EnvSecret} {
		if os.Getenv(name) != "" {
			return true
		}
	}
	return false
}

// Work computes blocks for the run that the environment leads to, until there are no more. It returns nil when the run needs this worker no
// more, and an error when the run can't be reached, or does not want it.
func Work(ctx context.Context, o WorkOptions) error {
	env, err := worker.FromEnvironment(ctx, o.Secrets)
	if err != nil {
		return err
	}
	if env == nil {
		return errors.New("this process was not started as a worker: the environment has no LEAT_WORKER, LEAT_WORKER_FILE or LEAT_WORKER_SECRET")
	}
	build, err := worker.BuildID()
	if err != nil {
		return err
	}
	return worker.Work(ctx, worker.WorkOptions{Environment: env, Build: build, Logger: o.Logger,
		Open: func(ctx context.Context, j worker.Joined) (worker.Computer, error) { return newWorkshop(ctx, &o, j) }})
}

// bindFunction puts the function that a job names in its place.
func bindFunction(job *Job) error {
	if job.Function == "" {
		return nil
	}
	f, ok := job.Functions[job.Function]
	switch {
	case job.Func != nil || job.Setup != nil || job.Close != nil || job.Emits != nil:
		return &JobError{fmt.Errorf("the job names the function %q, and gives Func, Setup, Close or Emits too: these stand in the table", job.Function)}
	case !ok && len(job.Functions) == 0:
		return &JobError{fmt.Errorf("the job names the function %q, and has no table of functions (Job.Functions)", job.Function)}
	case !ok:
		return &JobError{fmt.Errorf("there is no function %q; there is %s", job.Function, strings.Join(sortedKeys(job.Functions), ", "))}
	case f.Func == nil:
		return &JobError{fmt.Errorf("the function %q is nil", job.Function)}
	}
	job.Func, job.Setup, job.Close, job.Emits = f.Func, f.Setup, f.Close, f.Emits
	return nil
}

// discard is log, or a logger that drops everything.
func discard(log *slog.Logger) *slog.Logger {
	if log == nil {
		return slog.New(slog.DiscardHandler)
	}
	return log
}
