package resolve

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"

	"leat/apply/internal/jobspec"
	"leat/apply/internal/output"
	"leat/apply/outcome"
	"leat/block"
	"leat/internal/expr"
	"leat/raster"
)

// Env is what a job needs besides its values.
type Env struct {
	Open   Opener       // nil: OpenLocal
	Store  output.Store // nil: outputs are local files
	Logger *slog.Logger // may be nil
}

// Check returns all errors in a job that can be found before its inputs are combined. It writes
// nothing. For partial see apply.Check.
func Check(ctx context.Context, job *jobspec.Job, env Env, partial bool) error {
	_, in, _, err := openJob(ctx, job, env, partial)
	return errors.Join(err, in.Close())
}

// openJob opens the inputs of a job and its reference, whose grid the result has, and resolves its
// outputs. The caller closes the inputs even if there is an error, which joins all.
func openJob(ctx context.Context, job *jobspec.Job, env Env, partial bool) (_ *jobspec.Job, in *Inputs,
	outs []*output.Output, err error) {
	if env.Open == nil {
		env.Open = OpenLocal
	}
	job, err = withReferenceFile(ctx, job, env.Open)
	errs := []error{err, validate(job, partial)}
	outs, err = resolveOutputs(job)
	errs = append(errs, err, output.FindFormats(outs), output.CheckStore(ctx, outs, env.Store, env.Logger))
	if len(validateConcurrency(job)) == 0 {
		errs = append(errs, checkLauncher(ctx, &job.Concurrency))
	}
	in, err = openInputs(ctx, job, env.Open)
	if ctx.Err() != nil {
		return job, in, outs, context.Cause(ctx)
	}
	errs = append(errs, err)
	if err = errors.Join(errs...); err != nil {
		err = errors.Join(err, checkExpressions(job, in, outs, partial))
	}
	return job, in, outs, err
}

// resolveOutputs returns the outputs of a job, and all errors that can be found before the grid is
// known.
func resolveOutputs(job *jobspec.Job) (outs []*output.Output, err error) {
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(job.Outputs)) {
		o, wrong := output.New(name, output.Spec(job.Outputs[name]), job.Expressions != nil)
		errs = append(errs, wrong...)
		outs = append(outs, o)
	}
	return outs, jobspec.JobErrors(errs...)
}

// checkExpressions returns the errors in the expressions of a job that has other errors. It skips
// expressions that use inputs that were not opened, since their types are unknown.
func checkExpressions(job *jobspec.Job, in *Inputs, outs []*output.Output, partial bool) error {
	described := describeInputs(job, in, block.Window{}, nil)
	var errs []error
	links := linkExpressions(job, job.IsInput)
	for _, o := range outs {
		e := links.exprs[o.Name]
		if e == nil {
			continue // it has none, or validate has reported its error
		}
		whole := true
		for _, name := range e.Names() {
			_, raster := job.Inputs[name]
			_, vector := job.Vectors[name]
			if !raster && !vector && !partial {
				names, text := namesOfInputs(job)
				errs = append(errs, &outcome.UnknownNameError{Name: name, Known: names,
					Err: fmt.Errorf("output %s: no input is named %s; %s", o.Name, name, text)})
			}
			whole = whole && raster && len(described[name].Files) == len(job.Inputs[name].Files)
		}
		if !whole {
			continue
		}
		if _, err := expr.Compile(e, described, exprOptions(job, o, raster.Grid{})); err != nil {
			errs = append(errs, compileError(job, o.Name, err))
		}
	}
	return jobspec.JobErrors(errs...)
}

// namesOfInputs lists the names that expressions can use, for an error message.
func namesOfInputs(job *jobspec.Job) (names []string, text string) {
	names = append(slices.Sorted(maps.Keys(job.Inputs)), slices.Sorted(maps.Keys(job.Vectors))...)
	if len(names) == 0 {
		return nil, "there are no inputs"
	}
	slices.Sort(names)
	return names, "the inputs are " + strings.Join(names, ", ")
}

// resolveTypes completes the outputs for a grid: nodata in the type of the pixels, tiles and
// overviews. It returns all errors that the types show.
func resolveTypes(outs []*output.Output, grid raster.Grid, expressions bool) error {
	var errs []error
	for _, o := range outs {
		o.SetGrid(grid)
		if !o.Type.Valid() {
			continue
		}
		if !expressions {
			if err := o.SetNodata(); err != nil {
				errs = append(errs, fmt.Errorf("output %s: %w", o.Name, err))
				continue
			}
		}
		if err := o.CheckType(); err != nil {
			errs = append(errs, fmt.Errorf("output %s: %w", o.Name, err))
		}
	}
	return jobspec.JobErrors(errs...)
}
