package resolve

import (
	"context"
	"errors"
	"slices"

	"leat/apply/internal/jobspec"
	"leat/apply/internal/output"
	"leat/apply/outcome"
	"leat/block"
	"leat/raster"
)

// Job is a job with open inputs and all that follows from them. It is only read.
type Job struct {
	Values   *jobspec.Job // the job that the user wrote, with the grid of a reference file
	Inputs   *Inputs
	Outputs  []*output.Output // in the order of their names
	Programs []*Program       // by output; nil for a function
	// Variables are those of a function, in the order of their names; nil if there are none.
	Variables []*Program
	Grid      raster.Grid
	// Domain is the window in which focal functions see pixels, in columns and rows of the grid,
	// which it contains; empty without them.
	Domain block.Window
	// Notes are decisions that differ from the request, Warnings are about probable errors.
	Notes, Warnings []outcome.Note
}

// Resolve checks a job and everything it names, opens its inputs, and combines them. It writes
// nothing but samples in directories of its own. The caller closes the inputs.
func Resolve(ctx context.Context, values *jobspec.Job, env Env) (*Job, error) {
	values, in, outs, err := openJob(ctx, values, env, false)
	if err != nil {
		return nil, errors.Join(err, in.Close())
	}
	r := &Job{Values: values, Inputs: in, Outputs: outs}
	if err := r.combine(ctx, env.Store); err != nil {
		return nil, errors.Join(err, r.Inputs.Close())
	}
	return r, nil
}

// combine finds the grid, compiles the expressions, and chooses how files are read.
func (r *Job) combine(ctx context.Context, store any) (err error) {
	in, outs, expressions := r.Inputs, r.Outputs, r.Values.Expressions != nil
	focal, err := r.setMargin()
	if err != nil {
		return err
	}
	job := r.Values
	var domain block.Window
	var notes []outcome.Note
	r.Grid, domain, notes, err = findGrid(job, in)
	if err != nil {
		return errors.Join(err, checkExpressions(job, in, outs, false))
	}
	if focal {
		r.Domain = domain
	}
	r.note(notes...)
	r.note(jobspec.NewNotes(keepControl(job, in, &r.Grid)...)...)
	note, err := output.ResolveCRS(outs, &r.Grid)
	if note != "" {
		r.note(outcome.Note{Text: note})
	}
	if note := pointNames(&r.Grid); note != "" && output.HasNative(outs) {
		r.note(outcome.Note{Text: note})
	}
	errs := []error{err, in.addVectors(ctx, job, r.Grid, store)}
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case job.Variables != nil && errs[1] == nil:
		var kept *Inputs
		if r.Variables, kept, err = compileVariables(job, in, r.Grid, r.Domain); err == nil {
			r.Inputs, in = kept, kept
		}
		errs = append(errs, err)
	case !expressions:
	case errs[1] != nil:
		errs = append(errs, checkExpressions(job, in, outs, false))
	default:
		var kept *Inputs
		if r.Programs, kept, err = compile(job, in, r.Grid, r.Domain, outs); err == nil {
			r.Inputs, in = kept, kept
		}
		errs = append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	r.note(scalingNotes(outs)...)
	if err := resolveTypes(outs, r.Grid, expressions); err != nil {
		return err
	}
	r.note(alphaNotes(job, outs)...)
	whole := r.Grid.Window().Grow(job.Controls.Overlap)
	if err := in.ChooseModes(ctx, slices.Values([]block.Window{whole})); err != nil {
		return err
	}
	r.note(in.notes()...)
	r.note(in.nodataNotes(job)...)
	r.note(paletteNotes(in)...)
	r.Warnings = in.warnings()
	if expressions || job.Variables != nil {
		r.Warnings = append(r.Warnings, unusedInputs(in, job.Controls.Reference)...)
	}
	return sampleFormats(ctx, outs, in, r.Grid)
}

func (r *Job) note(notes ...outcome.Note) { r.Notes = append(r.Notes, notes...) }
