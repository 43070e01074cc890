package apply

import (
	"context"
	"fmt"
	"strings"

	"leat/apply/internal/exec"
	"leat/apply/internal/resolve"
	"leat/apply/outcome"
	"leat/codec"
)

// Functions maps names to functions, so that other processes find them. The program that runs a job
// and its workers are the same program and use the same table.
type Functions map[string]Function

// Function is a function that worker processes can run. Its fields take the place of Job.Func,
// Setup, Close, Emits and WorkerValues.
type Function struct {
	Func  Func
	Setup func(ctx context.Context, w WorkerInfo) (any, error)
	Close func(state any) (value any, err error)
	// Params encodes Job.Params, which Block.Params returns in a worker; nil for a function without
	// parameters. Emits encodes the values that it emits, and WorkerValues those that Close
	// returns; nil for a function that has none.
	Params, Emits, WorkerValues codec.Codec[any]
	// Errors are sentinels that errors.Is finds in the errors of Func, Setup and Close even if
	// another process called them; at most 48.
	Errors []error
}

// bindFunction copies the function that the job names, with its hooks, into the job.
func (j *Job) bindFunction() error {
	if j.Python != nil || j.Function == "" {
		return nil
	}
	f, ok := j.Functions[j.Function]
	switch {
	case j.Func != nil || j.Setup != nil || j.Close != nil || j.Emits != nil || j.WorkerValues != nil:
		return &outcome.JobError{Err: fmt.Errorf("the job names the function %q, and also sets Func, Setup, Close, Emits or WorkerValues, which belong in the table", j.Function)}
	case !ok && len(j.Functions) == 0:
		return &outcome.JobError{Err: fmt.Errorf("the job names the function %q, and has no table of functions (Job.Functions)",
			j.Function)}
	case !ok:
		return &outcome.JobError{Err: fmt.Errorf("there is no function %q; there is %s", j.Function,
			strings.Join(sortedKeys(j.Functions), ", "))}
	case f.Func == nil:
		return &outcome.JobError{Err: fmt.Errorf("the function %q is nil", j.Function)}
	case len(f.Errors) > exec.MaxErrors:
		return &outcome.JobError{Err: fmt.Errorf("the function %q has %d errors in its table, expected at most %d", j.Function,
			len(f.Errors), exec.MaxErrors)}
	}
	j.Func, j.Setup, j.Close, j.Emits, j.WorkerValues = f.Func, f.Setup, f.Close, f.Emits, f.WorkerValues
	return nil
}

// execFunction returns the function of the resolved job as it is executed.
func (j *Job) execFunction(resolved *resolve.Job) exec.Function {
	if j.python != nil {
		return j.python.Exec(resolved)
	}
	n := newNames(resolved)
	f := exec.Function{Close: j.Close, Emits: j.Emits, WorkerValues: j.WorkerValues,
		Errors: j.Functions[j.Function].Errors}
	if compute := j.Func; compute != nil {
		f.Compute = func(ctx context.Context, b *exec.Block) error { return compute(ctx, newBlock(b, n)) }
	}
	if setup := j.Setup; setup != nil {
		f.Setup = func(ctx context.Context, w exec.WorkerInfo) (any, error) { return setup(ctx, WorkerInfo(w)) }
	}
	return f
}

// Gob returns a codec for the values of a job that are of one type T: those that its function
// emits, those of its workers, or its Params.
func Gob[T any]() codec.Codec[any] { return codec.Any(codec.Gob[T]()) }
