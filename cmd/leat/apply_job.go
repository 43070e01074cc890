package main

import (
	"context"
	"errors"

	"leat/apply"
	"leat/stores"
)

// Finalize reads the values of all options, as far as they are right.
func (f *applyFlags) Finalize() error {
	return errors.Join(f.stores.Finalize(), f.inputFlags.Finalize(), f.vectors.Finalize(), f.outputFlags.Finalize(),
		f.gridFlags.Finalize(), f.python.Finalize(), f.runFlags.Finalize(), f.remote.Finalize(), f.showFlags.Finalize())
}

// job returns the job that the options ask for, and all that is wrong with the options. The job is
// partial if inputs, outputs or expressions could not be read.
func (f *applyFlags) job(ctx context.Context, in *stores.Stores) (_ *apply.Job, partial bool, _ error) {
	job := &apply.Job{Open: in.Open, Store: in, Inputs: map[string]apply.Input{}, Outputs: map[string]apply.Output{},
		Expressions: map[string]string{}}
	errs := []error{f.Finalize()}
	if len(f.inputs) == 0 && len(f.vectors.vectors) == 0 {
		errs = append(errs, errors.New("no input: give at least one -i NAME=FILE"))
		partial = true
	}
	inputs, err := f.inputFlags.addTo(ctx, job, in)
	vectors, err1 := f.vectors.addTo(job)
	f.outputFlags.mayBeMissing = f.python.given() && f.program.events != nil
	outputs, err2 := f.outputFlags.addTo(job)
	var expressions error
	if f.python.given() {
		expressions = f.python.addTo(job, &f.outputFlags)
	} else {
		expressions = f.addExpressions(ctx, job, outputs)
	}
	errs = append(errs, err, err1, err2, expressions)
	tables := addTables(ctx, job)
	errs = append(errs, tables)
	partial = partial || tables != nil || !inputs || !vectors || !outputs || expressions != nil
	if vectors {
		errs = append(errs, f.addCutline(job))
		errs = append(errs, f.vectors.setOptions(job))
	}
	if outputs {
		errs = append(errs, f.outputFlags.setOptions(ctx, job))
	}
	if inputs && vectors {
		errs = append(errs, f.inputFlags.setOptions(job, &f.vectors), f.setTimes(ctx, job), f.setWarps(job))
	}
	f.runFlags.setOptions(job)
	if f.remote.valid {
		job.Concurrency, err = f.concurrency()
		errs = append(errs, err)
	}
	job.Controls.NoMask, job.Controls.Unscale, job.Controls.NodataCollision = f.noMask, f.unscale, f.failCollisions
	errs = append(errs, f.gridFlags.setOptions(ctx, job),
		checkReplaced(job, optionFiles(job, &f.gridFlags, &f.inputFlags)))
	return job, partial, errors.Join(errs...)
}

// fileError is about a file that the command line names, not about the command line.
type fileError struct{ err error }

func (e fileError) Error() string { return e.err.Error() }
func (e fileError) Unwrap() error { return e.err }
