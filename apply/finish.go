package apply

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"leat/apply/internal/output"
	"leat/internal/fault"
	"leat/internal/units"
)

// finish lays out all outputs and then publishes them.
func (r *run) finish(ctx context.Context, start time.Time) (*Result, error) {
	if err := r.in.CheckUnchanged(); err != nil {
		return nil, err
	}
	plan := *r.plan
	plan.Notes = slices.Concat(plan.Notes, r.notes)
	res := &Result{Plan: &plan, Blocks: r.done, Resumed: r.resumed, Pixels: r.pixels}
	var finished []output.Finished
	defer func() {
		for _, f := range finished {
			if err := f.Discard(); err != nil { // nothing to do if it is published
				r.log.Warn("removing what was laid out", "error", err)
			}
		}
	}()
	r.at("laying out")
	r.buffers = nil // the memory of blocks is not needed any more
	for i, w := range r.writers {
		f, err := w.LayOut(ctx)
		if err != nil {
			return nil, err
		}
		finished = append(finished, f)
		or := newOutputResult(f.Result())
		if r.exprs != nil {
			r.exprs.programs[i].report(&or)
		}
		or.warnOfPixels()
		res.Outputs = append(res.Outputs, or)
	}
	fault.Point("apply.laid-out")
	if err := ctx.Err(); err != nil {
		return nil, context.Cause(ctx)
	}
	if r.claims != nil && r.claims.Err() != nil {
		return nil, fmt.Errorf("another run may be writing the same files: %w", r.claims.Err())
	}
	// Do what may fail first, while the old files are unchanged.
	for i, w := range r.writers {
		if !w.Spec.InStore() {
			continue
		}
		if err := r.upload(ctx, finished[i]); err != nil {
			return nil, r.keep(finished, err)
		}
		fault.Point("apply.uploaded")
	}
	for i, w := range r.writers {
		if w.Spec.InStore() {
			continue
		}
		if err := finished[i].Publish(); err != nil {
			return nil, r.keep(finished, err)
		}
		fault.Point("apply.published")
	}
	if c := r.watched.remote.Load(); c != nil {
		status := c.Status()
		res.Workers = &status
	}
	res.Timings = r.timings.Summary()
	res.Wall = time.Since(start)
	return res, nil
}

func (r *run) upload(ctx context.Context, f output.Finished) error {
	r.at("uploading")
	return f.Upload(ctx, r.job.Store)
}

// newOutputResult returns the public form of an output's result.
func newOutputResult(r *output.Result) OutputResult {
	res := OutputResult{Name: r.Name, Path: r.Path, Type: r.Type, Nodata: r.Nodata, Bytes: r.Bytes, Coding: r.Coding,
		Tiles: r.Tiles, Overviews: r.Overviews, Warnings: r.Warnings, Format: r.Format, Options: r.Options,
		Files: r.Files}
	for _, b := range r.Bands {
		res.Bands = append(res.Bands, BandResult(b))
	}
	return res
}

// UnpublishedError is returned when a run failed after its outputs were finished and before all of
// them had their names. Files are the current paths of those, by the name of the output: its own
// path if no file was there, or a similar one next to it. Old files are unchanged.
type UnpublishedError struct {
	Err   error
	Files map[string]string
}

func (e *UnpublishedError) Error() string {
	var b strings.Builder
	b.WriteString(e.Err.Error())
	for _, name := range sortedKeys(e.Files) {
		fmt.Fprintf(&b, "; the finished file of output %s is kept as %s", name, e.Files[name])
	}
	return b.String()
}

func (e *UnpublishedError) Unwrap() error { return e.Err }

// keep gives finished files local names after an error, so that no work is lost. It replaces
// nothing.
func (r *run) keep(finished []output.Finished, err error) error {
	for _, f := range finished {
		if !f.Keepable() {
			return err // the spools are kept instead
		}
	}
	kept := &UnpublishedError{Err: err, Files: map[string]string{}}
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

// report adds the counts of an expression, and warnings about them.
func (p *program) report(res *OutputResult) {
	res.Counts = p.counts
	c := &p.counts
	if c.Saturated > 0 {
		res.Warnings = append(res.Warnings,
			fmt.Sprintf("%s beyond the range of %v and became its nearest value",
				units.Plural(c.Saturated, "pixel was", "pixels were"), res.Type))
	}
	if c.NodataCollision > 0 {
		another := "another value (--nodata)"
		if res.Type.IsFloat() {
			another = "--nodata nan"
		}
		res.Warnings = append(res.Warnings,
			fmt.Sprintf("%s computed as the nodata value %v, the first at column %d, row %d: readers will take that for nodata; choose %s",
				units.Plural(c.NodataCollision, "valid pixel was", "valid pixels were"), res.Nodata, p.first.Col, p.first.Row,
				another))
	}
}

// warnOfPixels adds warnings about an output whose pixels are probably a mistake.
func (res *OutputResult) warnOfPixels() {
	var infinite int64
	var empty []string
	for i, b := range res.Bands {
		infinite += b.Moments.Infinite
		if b.Moments.Total > 0 && b.Moments.Valid+b.Moments.Infinite == 0 {
			empty = append(empty, fmt.Sprint(i+1))
		}
	}
	c := &res.Counts
	if n := max(c.Inf, infinite); n > 0 {
		res.Warnings = append(res.Warnings, fmt.Sprintf("%s infinite", units.Plural(n, "pixel is", "pixels are")))
	}
	switch {
	case len(empty) > 0 && len(empty) == len(res.Bands), c.Pixels > 0 && c.Invalid == c.Pixels:
		res.Warnings = append(res.Warnings, "it has no valid pixel")
	case len(empty) > 0:
		res.Warnings = append(res.Warnings,
			fmt.Sprintf("%s no valid pixel: %s", units.Plural(int64(len(empty)), "band has", "bands have"),
				strings.Join(empty, ", ")))
	}
}
