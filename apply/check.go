package apply

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"leat/apply/internal/output"
	"leat/apply/internal/resolve"
	"leat/expr"
	"leat/raster"
)

// Check returns all errors in a job that can be found before its inputs are combined: wrong fields
// and expressions, inputs that can't be opened, outputs that can't be written. Run and MakePlan
// begin with it. If partial is true, inputs, outputs and expressions may be missing from the job,
// and a reference to a missing one is not an error. Check writes nothing.
func Check(ctx context.Context, job Job, partial bool) error {
	in, _, err := openJob(ctx, &job, partial)
	return errors.Join(err, in.Close())
}

// openJob opens the inputs of a job and resolves its outputs. The error joins all errors that Check
// describes; the caller closes the inputs even if there is one.
func openJob(ctx context.Context, job *Job, partial bool) (in *resolve.Inputs, outs []*output.Output, err error) {
	controls, err := withReferenceFile(ctx, job)
	job.Controls = controls
	outputs, listErr := withOutputLists(job)
	job.Outputs = outputs
	errs := []error{err, listErr, validate(job, partial)}
	outs, err = resolveOutputs(job)
	errs = append(errs, err, output.FindFormats(outs), output.CheckStore(ctx, outs, job.Store, job.Logger))
	if len(validateConcurrency(job)) == 0 {
		errs = append(errs, checkKind(ctx, &job.Concurrency))
	}
	in, err = resolve.Open(ctx, job.values(), job.Open)
	if ctx.Err() != nil {
		return in, outs, context.Cause(ctx)
	}
	errs = append(errs, err)
	if err = errors.Join(errs...); err != nil {
		err = errors.Join(err, checkExpressions(job, in, outs, partial))
	}
	return in, outs, err
}

// resolveOutputs returns the outputs of a job, and all errors that can be found before the grid is
// known.
func resolveOutputs(job *Job) (outs []*output.Output, err error) {
	var errs []error
	for _, name := range sortedKeys(job.Outputs) {
		o, wrong := output.New(name, output.Spec(job.Outputs[name]), job.Expressions != nil)
		errs = append(errs, wrong...)
		outs = append(outs, o)
	}
	return outs, jobErrors(errs...)
}

// checkExpressions returns the errors in the expressions of a job that has other errors. It skips
// expressions that use inputs that were not opened, since their types are unknown.
func checkExpressions(job *Job, in *resolve.Inputs, outs []*output.Output, partial bool) error {
	described := describeInputs(job, in, raster.Grid{}, nil)
	var errs []error
	for _, o := range outs {
		text, ok := job.Expressions[o.Name]
		if !ok {
			continue
		}
		e, err := expr.Parse(text)
		if err != nil {
			continue // validate has reported it
		}
		whole := true
		for _, name := range e.Names() {
			_, raster := job.Inputs[name]
			_, vector := job.Vectors[name]
			if !raster && !vector && !partial {
				errs = append(errs, fmt.Errorf("output %s: no input is named %s; %s", o.Name, name, namesOfInputs(job)))
			}
			whole = whole && raster && len(described[name].Files) == len(job.Inputs[name].Files)
		}
		if !whole {
			continue
		}
		if _, err := expr.Compile(e, described, exprOptions(job, o)); err != nil {
			errs = append(errs, fmt.Errorf("output %s: %w", o.Name, plain(err)))
		}
	}
	return jobErrors(errs...)
}

// namesOfInputs lists the names that expressions can use, for an error message.
func namesOfInputs(job *Job) string {
	names := append(sortedKeys(job.Inputs), sortedKeys(job.Vectors)...)
	if len(names) == 0 {
		return "there are no inputs"
	}
	slices.Sort(names)
	return "the inputs are " + strings.Join(names, ", ")
}

// resolveTypes completes the outputs for a grid: nodata in the type of the pixels, tiles and
// overviews. It returns all errors that the types show.
func (r *run) resolveTypes(grid raster.Grid) error {
	var errs []error
	for _, o := range r.outs {
		o.SetGrid(grid)
		if !o.Type.Valid() {
			continue
		}
		if r.exprs == nil {
			if err := o.SetNodata(); err != nil {
				errs = append(errs, fmt.Errorf("output %s: %w", o.Name, err))
				continue
			}
		}
		if err := o.CheckType(); err != nil {
			errs = append(errs, fmt.Errorf("output %s: %w", o.Name, err))
		}
	}
	return jobErrors(errs...)
}
