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

	"leat/codec"
	"leat/internal/terminal"
	"leat/internal/worker/client"
	"leat/internal/worker/protocol"
	"leat/raster"
	"leat/worker"
)

// Functions maps names to functions, so that other processes find them. The program that runs a job
// and its workers are the same program and use the same table.
type Functions map[string]Function

// Function is a function that worker processes can run. Its fields stand for Job.Func, Setup, Close
// and Emits.
type Function struct {
	Func  Func
	Setup func(ctx context.Context, w WorkerInfo) (any, error)
	Close func(state any) error
	// Params encodes Job.Params, which Block.Params returns in a worker; nil for a function without
	// parameters. Emits encodes the values that it emits; nil for a function that emits none.
	Params, Emits codec.Codec[any]
	// Errors are sentinels that errors.Is finds in the errors of Func, Setup and Close even if
	// another process called them; at most 48.
	Errors []error
}

// Stores opens the inputs of jobs by path or URL. [leat/stores.Stores] implements it.
type Stores interface {
	Open(ctx context.Context, path string) (raster.Source, error)
	Close() error
}

// WorkOptions are the options of a worker process.
type WorkOptions struct {
	Functions Functions
	// Opener returns the function that opens inputs, like Job.Open, where workers read them. site
	// is the run's Concurrency.WorkerConfig. close is called when the inputs are closed. nil opens
	// local files only.
	Opener func(site []byte) (open func(ctx context.Context, path string) (raster.Source, error), close func() error,
		err error)
	Logger *slog.Logger
	// Secrets fetches a secret that a variable of the environment only names, by the kind of name.
	Secrets map[string]func(ctx context.Context, name string) (string, error)
}

// Main makes a program the worker of its own jobs. Call it at the top of main, before flags are
// parsed. In a process that was started as a worker it computes blocks and then exits; in any other
// it returns at once. stores opens inputs where workers read them, as Job.Open does in the run; nil
// opens local files. A program whose stores depend on its flags calls [Work] with
// WorkOptions.Opener instead.
func Main(functions Functions, stores Stores) {
	if !IsWorker() {
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, unix.SIGTERM)
	o := WorkOptions{Functions: functions}
	if stores != nil {
		o.Opener = func([]byte) (func(context.Context, string) (raster.Source, error), func() error, error) {
			return stores.Open, stores.Close, nil
		}
	}
	err := Work(ctx, o)
	stop()
	if err != nil {
		fmt.Fprintf(os.Stderr, "worker: %s\n", terminal.Text(err.Error()))
		os.Exit(1)
	}
	os.Exit(0)
}

// IsWorker reports whether this process was started as a worker, by the environment (LEAT_WORKER
// and the like).
func IsWorker() bool {
	for _, name := range []string{worker.EnvEndpoint, worker.EnvFile, worker.EnvSecret} {
		if os.Getenv(name) != "" {
			return true
		}
	}
	return false
}

// Work computes blocks for the run that the environment names, until there are none left. It
// returns nil when the run no longer needs this worker, and an error when the run can't be reached
// or rejects the worker.
func Work(ctx context.Context, o WorkOptions) error {
	env, err := client.FromEnvironment(ctx, o.Secrets)
	if err != nil {
		return err
	}
	if env == nil {
		return errors.New("this process was not started as a worker: the environment has no LEAT_WORKER, LEAT_WORKER_FILE or LEAT_WORKER_SECRET")
	}
	build, err := protocol.BuildID()
	if err != nil {
		return err
	}
	return client.Work(ctx, client.Options{Environment: env, Build: build, Logger: o.Logger,
		Open: func(ctx context.Context, j client.JoinInfo) (client.Handler, error) {
			return newRemoteWorker(ctx, &o, j)
		}})
}

// bindFunction copies the function that a job names, with its hooks, into the job.
func bindFunction(job *Job) error {
	if job.Function == "" {
		return nil
	}
	f, ok := job.Functions[job.Function]
	switch {
	case job.Func != nil || job.Setup != nil || job.Close != nil || job.Emits != nil:
		return &JobError{Err: fmt.Errorf("the job names the function %q, and also sets Func, Setup, Close or Emits, which belong in the table", job.Function)}
	case !ok && len(job.Functions) == 0:
		return &JobError{Err: fmt.Errorf("the job names the function %q, and has no table of functions (Job.Functions)",
			job.Function)}
	case !ok:
		return &JobError{Err: fmt.Errorf("there is no function %q; there is %s", job.Function,
			strings.Join(sortedKeys(job.Functions), ", "))}
	case f.Func == nil:
		return &JobError{Err: fmt.Errorf("the function %q is nil", job.Function)}
	case len(f.Errors) > mostErrors:
		return &JobError{Err: fmt.Errorf("the function %q has %d errors in its table: give at most %d", job.Function,
			len(f.Errors), mostErrors)}
	}
	job.Func, job.Setup, job.Close, job.Emits = f.Func, f.Setup, f.Close, f.Emits
	return nil
}

// discard returns log, or a logger that drops everything if log is nil.
func discard(log *slog.Logger) *slog.Logger {
	if log == nil {
		return slog.New(slog.DiscardHandler)
	}
	return log
}
