package apply

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"

	"golang.org/x/sys/unix"

	"leat/apply/internal/exec"
	"leat/apply/internal/jobspec"
	"leat/apply/internal/resolve"
	"leat/internal/terminal"
	"leat/internal/worker/client"
	"leat/internal/worker/protocol"
	"leat/raster"
)

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
	if !client.Started() {
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
			return openWorker(ctx, &o, j)
		}})
}

// openWorker makes this worker process's part of a run.
func openWorker(ctx context.Context, o *WorkOptions, join client.JoinInfo) (_ client.Handler, err error) {
	defer func() {
		if err != nil {
			err = exec.Starting(err)
		}
	}()
	spec, err := jobspec.ParseSpec(join.Job)
	if err != nil {
		return nil, err
	}
	job := &Job{Functions: o.Functions, Function: spec.Function}
	if err := job.bindSpec(spec); err != nil {
		return nil, err
	}
	var closeStore func() error
	if spec.Reads && o.Opener != nil {
		if job.Open, closeStore, err = o.Opener(spec.Site); err != nil {
			return nil, err
		}
	}
	resolved, err := resolve.Restore(ctx, spec, job.values(nil).Function, job.Open, closeStore)
	if err != nil {
		return nil, err
	}
	return exec.OpenWorker(ctx, spec, resolved, job.execFunction(resolved), join, logger(o.Logger))
}

// bindSpec binds the function that the run's description names, and its parameters.
func (j *Job) bindSpec(s *jobspec.Spec) error {
	if s.Function == "" {
		return nil
	}
	if s.Function == pythonFunction {
		if s.Merges {
			j.Merge = func(int, any) error { return nil } // the coordinator calls the real Merge
		}
		return j.bindPython(s.Params)
	}
	if err := j.bindFunction(); err != nil {
		return fmt.Errorf("this program is not the program of the run: %w", err)
	}
	if s.Emits != (j.Emits != nil) {
		return fmt.Errorf("this program is not the program of the run: only one of the two emits values from the function %q", s.Function)
	}
	if s.MergesWorkers && (j.WorkerValues == nil || j.Close == nil) {
		return fmt.Errorf("this program is not the program of the run: only the run has values of workers from the function %q", s.Function)
	}
	if s.Merges {
		j.Merge = func(int, any) error { return nil } // the coordinator calls the real Merge
	}
	if codec := j.Functions[s.Function].Params; codec != nil {
		var err error
		if j.Params, err = codec.Decode(s.Params); err != nil {
			return fmt.Errorf("the parameters of the function %q can't be read: %w", s.Function, err)
		}
	}
	return nil
}
