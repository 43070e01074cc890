package exec

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"leat/apply/internal/output"
	"leat/apply/outcome"
	"leat/internal/fault"
	"leat/namespace"
)

// finish lays out all outputs and then publishes them. claims may be nil.
func finish(ctx context.Context, o *Options, writers []*output.Writer, claims *namespace.Namespace,
	res *Result) error {
	if err := o.Job.Inputs.CheckUnchanged(); err != nil {
		return err
	}
	var finished []output.Finished
	defer func() {
		for _, f := range finished {
			if err := f.Discard(); err != nil { // nothing to do if it is published
				o.Log.Warn("removing unpublished output failed", "error", err)
			}
		}
	}()
	o.Tracker.at("laying out")
	for _, w := range writers {
		f, err := w.LayOut(ctx)
		if err != nil {
			return err
		}
		finished = append(finished, f)
		res.Outputs = append(res.Outputs, f.Result())
	}
	fault.Point("apply.laid-out")
	if err := ctx.Err(); err != nil {
		return context.Cause(ctx)
	}
	if claims != nil && claims.Err() != nil {
		return fmt.Errorf("another run may be writing the same files: %w", claims.Err())
	}
	// Do what may fail first, while the old files are unchanged.
	for i, w := range writers {
		if !w.Spec.InStore() {
			continue
		}
		o.Tracker.at("uploading")
		if err := finished[i].Upload(ctx, o.Store); err != nil {
			return keep(finished, err)
		}
		fault.Point("apply.uploaded")
	}
	for i, w := range writers {
		if w.Spec.InStore() {
			continue
		}
		if err := finished[i].Publish(); err != nil {
			return keep(finished, err)
		}
		fault.Point("apply.published")
	}
	return nil
}

// keep gives finished files local names after an error, so that no work is lost. It replaces
// nothing.
func keep(finished []output.Finished, err error) error {
	for _, f := range finished {
		if !f.Keepable() {
			return err // the spools are kept instead
		}
	}
	kept := &outcome.UnpublishedError{Err: err, Files: map[string]string{}}
	for _, f := range finished {
		name := f.Result().Name
		path, kerr := f.Keep()
		switch {
		case errors.Is(kerr, fs.ErrClosed): // it is published or uploaded
		case kerr != nil:
			kept.Err = errors.Join(kept.Err, fmt.Errorf("output %s: the finished file can't be kept: %w", name, kerr))
		default:
			kept.Files[name] = path
		}
	}
	if len(kept.Files) == 0 {
		return kept.Err
	}
	return kept
}
