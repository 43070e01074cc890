package apply

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"leat/apply/internal/exec"
	"leat/apply/internal/plan"
	"leat/apply/internal/pyfunc"
	"leat/apply/internal/resolve"
	"leat/apply/outcome"
	"leat/timing"
)

// env returns what a job needs besides its values.
func (j *Job) env() resolve.Env { return resolve.Env{Open: j.Open, Store: j.Store, Logger: j.Logger} }

// Check returns all errors in a job that can be found before its inputs are combined: wrong fields
// and expressions, inputs that can't be opened, outputs that can't be written. Run and MakePlan
// begin with it. If partial is true, inputs, outputs and expressions may be missing from the job,
// and a reference to a missing one is not an error. Check writes nothing.
func Check(ctx context.Context, job Job, partial bool) error {
	err := job.addOutputLists()
	return errors.Join(err, resolve.Check(ctx, job.values(nil), job.env(), partial))
}

// MakePlan opens the inputs of a job, checks all that can be checked, and returns how Run would run
// it. It writes nothing.
func MakePlan(ctx context.Context, job Job) (*outcome.Plan, error) {
	resolved, p, err := prepare(ctx, &job, nil)
	if err != nil {
		return nil, err
	}
	_, err = job.awaitPython()
	job.closePython()
	if err = errors.Join(err, resolved.Inputs.Close()); err != nil {
		return nil, err
	}
	return &p.Plan, nil
}

// prepare checks a job and everything it names, and plans it. It binds the job's function and adds
// its lists of outputs. abort, which may be nil, ends the run that follows. The caller closes the
// inputs.
func prepare(ctx context.Context, job *Job, abort func(error)) (_ *resolve.Job, _ *plan.Plan, err error) {
	if err := errors.Join(job.bindFunction(), job.loadPython(ctx)); err != nil {
		return nil, nil, err
	}
	defer func() {
		if err != nil {
			if canceled, lerr := job.awaitPython(); lerr != nil && !canceled {
				err = lerr
			}
			job.closePython()
		}
	}()
	if err := job.addOutputLists(); err != nil {
		return nil, nil, errors.Join(err, resolve.Check(ctx, job.values(abort), job.env(), false))
	}
	resolved, err := resolve.Resolve(ctx, job.values(abort), job.env())
	if err != nil {
		return nil, nil, err
	}
	if job.python != nil {
		if err := pyfunc.CheckScales(resolved); err != nil {
			return nil, nil, errors.Join(&outcome.JobError{Err: err}, resolved.Inputs.Close())
		}
	}
	if job.MakeParams != nil {
		r := Resolved{Grid: resolved.Grid, Variables: map[string]Variable{}}
		for i, name := range sortedKeys(job.Variables) {
			p := resolved.Variables[i]
			r.Variables[name] = Variable{p.Type(), p.Bands()}
		}
		made, err := job.MakeParams(ctx, r)
		if err != nil {
			return nil, nil, errors.Join(err, resolved.Inputs.Close())
		}
		f := &resolved.Values.Function
		f.Params, f.ParamsBytes, f.ParamsGDAL = made.Params, made.Bytes, made.GDAL
		for name, o := range job.Outputs {
			if made.Needs != nil && o.Table == nil {
				err := fmt.Errorf("output %s has pixels of all blocks, expected a table: the job skips blocks (MadeParams.Needs)", name)
				return nil, nil, errors.Join(&outcome.JobError{Err: err}, resolved.Inputs.Close())
			}
		}
		f.MergeBytes, f.PixelBytes, f.Needs = made.MergeBytes, made.PixelBytes, made.Needs
	}
	p, err := plan.New(ctx, resolved)
	if err == nil && job.CheckPlan != nil {
		err = job.CheckPlan(&p.Plan)
	}
	if err != nil {
		return nil, nil, errors.Join(err, resolved.Inputs.Close())
	}
	return resolved, p, nil
}

// Run is Start and Wait.
func Run(ctx context.Context, job Job) (*Result, error) {
	r, err := Start(ctx, job)
	if err != nil {
		return nil, err
	}
	return r.Wait()
}

// Running is a run that [Start] has started. Its methods may be called by any goroutine at any
// time.
type Running struct {
	plan    *outcome.Plan
	outputs []OutputState // without Bytes
	tracker *exec.Tracker
	done    chan struct{} // closed when res and err are set
	res     *Result
	err     error
}

// Start checks a job and all that it names, plans it, and starts to run it. It returns the errors
// in the job, an [outcome.JobError] or those of inputs and outputs, before any output is touched.
// When ctx is done, the run ends with ctx's cause within about the time of one block. The caller
// must call Wait.
func Start(ctx context.Context, job Job) (*Running, error) {
	start := time.Now()
	ctx, abort := context.WithCancelCause(ctx)
	resolved, p, err := prepare(ctx, &job, abort)
	if err != nil {
		abort(nil)
		return nil, err
	}
	s := &Running{plan: &p.Plan, outputs: outputStates(resolved.Outputs), tracker: exec.NewTracker(p),
		done: make(chan struct{})}
	o := &exec.Options{Job: resolved, Plan: p, Function: job.execFunction(resolved),
		Merge:        exec.RecoverMerge("Merge", job.Merge, abort),
		MergeWorkers: exec.RecoverMerge("MergeWorkers", job.MergeWorkers, abort), Store: job.Store, Tracker: s.tracker,
		Timings: cmp.Or(job.Timings, timing.New()), Log: logger(job.Logger), Abort: abort}
	go func() {
		defer close(s.done)
		s.work(ctx, o, start, job.closePython)
	}()
	if canceled, err := job.awaitPython(); err != nil && !canceled {
		abort(err)
		<-s.done
		return nil, err
	}
	return s, nil
}

// work runs the job and calls end. A function of the job that ends its goroutine ends the run with
// an error.
func (s *Running) work(ctx context.Context, o *exec.Options, start time.Time, end func()) {
	returned := false
	defer func() {
		if !returned {
			if s.err = context.Cause(ctx); s.err == nil {
				s.err = exec.Goexit()
			}
		}
		if err := o.Job.Inputs.Close(); err != nil && s.err == nil {
			s.res, s.err = nil, err
		}
		s.tracker.End()
		o.Abort(nil)
	}()
	res, err := func() (*exec.Result, error) {
		defer end()
		return exec.Run(ctx, o)
	}()
	if s.err = err; err == nil {
		s.res = newResult(res, s.plan, o.Timings.Summary(), time.Since(start))
	}
	returned = true
}

// Status returns the status of the run, which may have ended.
func (s *Running) Status() Status { return newStatus(s.tracker.Status(), s.plan, s.outputs) }

// Done is closed when the run has ended, so that Wait returns at once.
func (s *Running) Done() <-chan struct{} { return s.done }

// Wait waits for the end of the run, in which every block was computed once and all outputs were
// published. On an error old files are unchanged, except that several outputs are renamed one by
// one at the very end. An error or a panic of the function, or of Setup or Close, is an
// [outcome.BlockError]; a panic of Merge, MergeWorkers or BeforeClose is an [outcome.PanicError]. A
// run that can be resumed is an [outcome.IncompleteError]. Wait returns when all goroutines of the
// run have ended; later calls return the same.
func (s *Running) Wait() (*Result, error) {
	<-s.done
	return s.res, s.err
}
