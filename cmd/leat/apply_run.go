package main

import (
	"context"
	"os"
	"os/signal"
	"runtime/debug"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"leat/apply"
	"leat/apply/outcome"
	"leat/internal/childproc"
	"leat/internal/terminal"
	"leat/stores"
	"leat/timing"
)

// execute runs the job and reports what it did.
func (f *applyFlags) execute(cmd *cobra.Command, in *stores.Stores, job *apply.Job, items []*itemFile) error {
	// A reader that goes away, as head does, must not kill the run in the middle: that would leave
	// unfinished outputs.
	signal.Ignore(unix.SIGPIPE)
	ctx, people := cmd.Context(), cmd.ErrOrStderr()
	rec := timing.New()
	job.Timings = rec
	w, mode := people, chooseProgress(os.Stderr)
	switch {
	case f.program.events != nil:
		w, mode = f.program.events, progressJSON
	case f.json:
		w, mode = cmd.OutOrStdout(), progressJSON
	case f.quiet:
		mode = progressNone
	}
	bar := newProgress(w, mode)
	above := bar.above(people)
	again := bar.again
	f.stores.retried.Store(&again)
	job.Logger = f.program.logger(above, nil)
	if job.Python != nil {
		job.Python.Output = above
	}
	var shown *shownRun
	if f.serveAt != "" {
		var err error
		if shown, err = f.serve(above, job, rec); err != nil {
			return err
		}
	}
	warn := func(m message) { f.program.warn(above, []message{m}) }
	res, err := runJob(ctx, job, warn, rec, bar, shown)
	if shown != nil {
		shown.end(err)
	}
	bar.finish()
	if err == nil {
		if err = f.sideFiles(ctx, in, job, res, rec, items); err != nil {
			err = afterOutputs{err}
		}
	}
	if err != nil {
		if f.json && f.program.events == nil {
			// The error itself goes to people whether or not this can be written.
			writeJSON(cmd.OutOrStdout(), newErrorEvent(err))
		}
		return err
	}
	warnings := noteMessages("", res.Plan.Warnings)
	for _, o := range res.Outputs {
		warnings = append(warnings, noteMessages(terminal.Name(o.Path)+": ", o.Warnings)...)
	}
	if f.program.events != nil {
		if err := writeJSON(f.program.events, newDoneEvent(res, items)); err != nil {
			return afterOutputs{err}
		}
		return nil
	}
	printMessages(people, warningPrefix, warnings)
	switch {
	case f.json:
		if err := stdoutError(writeJSON(cmd.OutOrStdout(), newDoneEvent(res, items))); err != nil {
			return afterOutputs{err}
		}
	case !f.quiet:
		f.summarize(people, res, items)
	}
	return nil
}

// runJob runs the job and shows its progress.
func runJob(ctx context.Context, job *apply.Job, warn func(message), rec *timing.Recorder, bar *progress,
	shown *shownRun) (*apply.Result, error) {
	if on := job.Concurrency.On; on != nil && on.Capabilities().Local {
		childproc.MakeBatch() // its readers would interrupt the workers, which have the same processors
	}
	r, err := apply.Start(ctx, *job)
	if err != nil {
		return nil, err
	}
	plan := r.Status().Plan
	limitHeap(plan)
	if plan.Replaced != nil {
		warn(replacedMessage(plan.Replaced))
	}
	if shown != nil {
		shown.watch(r)
	}
	bar.started(plan)
	showProgress(r, rec, bar)
	return r.Wait()
}

// codeBytes is what the program has in memory besides its heap: its code and constants, of which
// 32 to 33 MiB are resident, and stacks.
const codeBytes = 34 << 20

// limitHeap sets a soft limit of the heap within the budget, so that garbage does not exceed it.
// With the usual budget that changes nothing.
func limitHeap(p *outcome.Plan) {
	if p.Kind != "" {
		return // the heaps of several processes share it
	}
	limit := max(p.BudgetBytes-p.ForeignBytes-codeBytes, 16<<20)
	if limit < debug.SetMemoryLimit(-1) { // GOMEMLIMIT may ask for less
		debug.SetMemoryLimit(limit)
	}
}
