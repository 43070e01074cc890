package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"runtime/debug"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"leat/apply"
	"leat/internal/preview"
	"leat/internal/report"
	"leat/internal/tempfile"
	"leat/internal/terminal"
	"leat/internal/units"
	"leat/stores"
	"leat/timing"
)

// execute runs the job and reports what it did.
func (f *applyFlags) execute(cmd *cobra.Command, in *stores.Stores, job *apply.Job) error {
	// A reader that goes away, as head does, must not kill the run in the middle: that would leave
	// unfinished outputs.
	signal.Ignore(unix.SIGPIPE)
	ctx, people := cmd.Context(), cmd.ErrOrStderr()
	rec := timing.New()
	job.Timings = rec
	w, mode := people, chooseProgress(os.Stderr)
	switch {
	case f.json:
		w, mode = cmd.OutOrStdout(), progressJSON
	case f.quiet:
		mode = progressNone
	}
	bar := newProgress(w, mode)
	above := bar.above(people)
	again := bar.again
	f.stores.retried.Store(&again)
	job.Logger = slog.New(&peopleHandler{w: above})
	var shown *shownRun
	if f.serveAt != "" {
		var err error
		if shown, err = f.serve(above, job, rec); err != nil {
			return err
		}
	}
	res, err := runJob(ctx, job, above, rec, bar, shown)
	if shown != nil {
		shown.end(err)
	}
	bar.finish(err)
	if err == nil {
		if err = f.sideFiles(ctx, in, job, res, rec); err != nil {
			err = afterOutputs{err}
		}
	}
	if err != nil {
		if f.json {
			// The error itself goes to people whether or not this can be written.
			event := map[string]any{"event": "error", "error": errorText(withoutLeftover(err))}
			if hint := hintText(withoutLeftover(err)); hint != "" {
				event["hint"] = hint
			}
			if left := new(apply.IncompleteError); errors.As(err, &left) {
				event["kept"], event["kept_bytes"], event["kept_blocks"] = left.Paths, left.Bytes, left.Done
			}
			writeJSON(cmd.OutOrStdout(), event)
		}
		return err
	}
	for _, warning := range res.Plan.Warnings {
		printLine(people, warningPrefix, terminal.Text(warning))
	}
	for _, o := range res.Outputs {
		for _, warning := range o.Warnings {
			printLine(people, warningPrefix, terminal.Name(o.Path)+": "+warning)
		}
	}
	switch {
	case f.json:
		if err := stdoutError(writeJSON(cmd.OutOrStdout(), resultEvent(res))); err != nil {
			return afterOutputs{err}
		}
	case !f.quiet:
		f.summarise(people, res)
	}
	return nil
}

// runJob runs the job and shows its progress.
func runJob(ctx context.Context, job *apply.Job, people io.Writer, rec *timing.Recorder, bar *progress,
	shown *shownRun) (*apply.Result, error) {
	r, err := apply.Start(ctx, *job)
	if err != nil {
		return nil, err
	}
	plan := r.Status().Plan
	limitHeap(plan)
	if plan.Replaced != nil {
		printMessages(people, warningPrefix, []message{replacedMessage(plan.Replaced)})
	}
	if shown != nil {
		shown.watch(r)
	}
	showProgress(r, rec, bar)
	return r.Wait()
}

// progressEvery is how often the status of a run is looked at.
const progressEvery = 100 * time.Millisecond

// showProgress shows the progress of a run until it has ended.
func showProgress(r *apply.Running, rec *timing.Recorder, bar *progress) {
	tick := time.NewTicker(progressEvery)
	defer tick.Stop()
	var asked time.Time
	stage, resumed := "", 0
	for ended := false; !ended; {
		select {
		case <-r.Done():
			ended = true
		case <-tick.C:
		}
		s := r.Status()
		if s.Resumed > resumed {
			resumed = s.Resumed
			bar.from(s.Done, len(s.Blocks), s.Pixels)
		}
		if now := time.Now(); now.Sub(asked) > 500*time.Millisecond {
			asked, stage = now, bottleneck(rec.Summary())
		}
		shown := stage
		if s.Stage != "blocks" && s.Stage != "done" {
			shown = s.Stage
		}
		rec.Gauge(report.PixelsDone, s.Pixels)
		bar.update(s.Done, len(s.Blocks), s.Pixels, shown)
	}
}

// codeBytes is what the program has in memory besides its heap: its code and constants, and stacks.
const codeBytes = 28 << 20

// limitHeap sets a soft limit of the heap within the budget, so that garbage does not exceed it.
// With the usual budget that changes nothing.
func limitHeap(p *apply.Plan) {
	if p.Kind != "" {
		return // the heaps of several processes share it
	}
	limit := max(p.BudgetBytes-p.ForeignBytes-codeBytes, 16<<20)
	if limit < debug.SetMemoryLimit(-1) { // GOMEMLIMIT may ask for less
		debug.SetMemoryLimit(limit)
	}
}

// sideFiles writes preview, trace and report.
func (f *applyFlags) sideFiles(ctx context.Context, in *stores.Stores, job *apply.Job, res *apply.Result,
	rec *timing.Recorder) error {
	if f.preview != "" {
		src, err := openOutput(ctx, in, job.Outputs[res.Outputs[0].Name].Path)
		if err != nil {
			return err
		}
		if err := errors.Join(preview.Write(ctx, f.preview, src, preview.DefaultSide), src.Close()); err != nil {
			return fmt.Errorf("the preview %s could not be written: %w", f.preview, cause(err))
		}
	}
	if f.trace != "" {
		if err := writeFile(f.trace, rec.Trace); err != nil {
			return fmt.Errorf("the trace %s could not be written: %w", f.trace, cause(err))
		}
	}
	if f.report != "" {
		if err := writeReport(ctx, in, f.report, job, res, rec); err != nil {
			return fmt.Errorf("the report %s could not be written: %w", f.report, cause(err))
		}
	}
	return nil
}

// writeFile publishes what write makes.
func writeFile(path string, write func(io.Writer) error) error {
	p, err := tempfile.Create(path, 0o666)
	if err != nil {
		return err
	}
	defer p.Abort()
	if err := write(p); err != nil {
		return err
	}
	return p.Commit()
}

// summarise writes what was done for the user. What can't be written is lost without an error: the
// work is done.
func (f *applyFlags) summarise(w io.Writer, res *apply.Result) {
	for _, note := range res.Plan.Notes {
		fmt.Fprintln(w, note)
	}
	for _, o := range res.Outputs {
		fmt.Fprintf(w, "%s: %d x %d, %d x %v, %s (%v)", terminal.Name(o.Path), res.Plan.Grid.Width,
			res.Plan.Grid.Height, len(o.Bands), o.Type, units.FormatSize(o.Bytes), o.Coding)
		if o.Nodata != nil {
			fmt.Fprintf(w, ", nodata %v", o.Nodata)
		}
		fmt.Fprintln(w)
		for i, b := range o.Bands {
			if m := b.Moments; m.Valid > 0 {
				fmt.Fprintf(w, "  band %d: %.6g to %.6g, mean %.6g, stddev %.6g, %.4g %% valid\n", i+1, m.Min, m.Max,
					m.Mean, m.StdDev(), m.ValidPercent())
			} else if m.Total > 0 {
				fmt.Fprintf(w, "  band %d: no valid pixel\n", i+1)
			}
		}
	}
	if o := res.Workers; o != nil && o.LostWorkers > 0 {
		fmt.Fprintf(w, "workers that were lost: %d, and replaced: %d; blocks that were given out again: %d\n",
			o.LostWorkers, o.ReplacedWorkers, o.Reissued)
	}
	fmt.Fprintln(w)
	res.Timings.Text(w, f.verbose)
	if text := advice(res.Timings, res.Plan); text != "" {
		fmt.Fprintln(w, text)
	}
}

// resultEvent is the last line of --json.
func resultEvent(res *apply.Result) map[string]any {
	outputs := []map[string]any{}
	for _, o := range res.Outputs {
		var bands []map[string]any
		for _, b := range o.Bands {
			m := map[string]any{"valid": b.Moments.Valid, "total": b.Moments.Total, "nan": b.Moments.NaN}
			if b.Moments.Valid > 0 {
				m["min"], m["max"], m["mean"], m["stddev"] = jsonNumber(b.Moments.Min), jsonNumber(b.Moments.Max),
					jsonNumber(b.Moments.Mean), jsonNumber(b.Moments.StdDev())
			}
			bands = append(bands, m)
		}
		nodata := any(nil)
		if o.Nodata != nil {
			nodata = o.Nodata.String()
		}
		outputs = append(outputs, map[string]any{"name": o.Name, "path": o.Path, "type": o.Type.String(),
			"nodata": nodata, "bytes": o.Bytes,
			"coding": o.Coding, "format": o.Format, "files": orEmpty(o.Files), "bands": bands,
			"saturated": o.Counts.Saturated, "nodata_collisions": o.Counts.NodataCollision,
			"inf": o.Counts.Inf, "warnings": orEmpty(o.Warnings)})
	}
	event := map[string]any{"event": "done", "wall_seconds": res.Wall.Seconds(), "blocks": res.Blocks,
		"pixels":  res.Pixels,
		"resumed": res.Resumed, "outputs": outputs, "notes": orEmpty(res.Plan.Notes),
		"warnings": orEmpty(res.Plan.Warnings), "timings": res.Timings}
	if o := res.Workers; o != nil {
		event["workers"], event["lost_workers"], event["reissued_blocks"], event["copied_blocks"] = len(o.Workers),
			o.LostWorkers, o.Reissued, o.Copies
		event["replaced_workers"] = o.ReplacedWorkers
	}
	return event
}

// orEmpty is the list, never null.
func orEmpty(list []string) []string { return append([]string{}, list...) }

// jsonNumber is v, or its name where JSON has no number for it.
func jsonNumber(v float64) any {
	if v-v != 0 {
		return fmt.Sprint(v)
	}
	return v
}
