// Package exec executes a planned job: it reads blocks ahead, computes them in this process or in
// worker processes, spools their results, and publishes the outputs.
//
// [Run] is the process of the run. [OpenWorker] makes a worker process's part of one. Both compute
// blocks by the same code (compute.go), which gets what it needs as values that are only read: the
// resolved job, the plan, the writers of the outputs and the job's function.
package exec

import (
	"context"

	"leat/apply/internal/output"
	"leat/apply/internal/resolve"
)

// Run executes a planned job. Its errors are those of apply.Running.Wait.
func Run(ctx context.Context, o *Options) (res *Result, err error) {
	job, p := o.Job, o.Plan
	if len(job.Values.Vectors) > 0 {
		o.Timings.Declare("rasterizing")
	}
	o.Timings.Declare("reading", "computing", "encoding", "overviews", "statistics", "spooling", "laying out",
		"waiting to read", "waiting for input")
	claims, err := output.Claim(ctx, job.Outputs, o.Log)
	if err != nil {
		return nil, err
	}
	if claims != nil {
		defer func() {
			if err := claims.Close(); err != nil {
				o.Log.Warn("leaving the namespace failed", "error", err)
			}
		}()
	}
	results := newResults(job, o.Merge, o.Tracker)
	spools := newSpools(job, p, o.Timings, o.Log)
	var todo *remaining // nil until the blocks of an earlier run are counted
	defer func() { err = spools.end(err, o.Tracker, todo != nil) }()
	if err := spools.open(); err != nil {
		return nil, err
	}
	o.Tracker.at("resuming")
	res = &Result{}
	if todo, err = resume(ctx, o, spools.writers, results, res); err != nil {
		return nil, err
	}
	if err := results.start(); err != nil {
		return nil, err
	}
	o.Tracker.watchSpools(spools.writers, todo)
	o.Tracker.at("blocks")
	if todo.count > 0 {
		if err := computeBlocks(ctx, o, spools.writers, results, todo, res); err != nil {
			return nil, err
		}
	}
	if err := finish(ctx, o, spools.writers, claims, res); err != nil {
		return nil, err
	}
	res.Counts = results.counts
	res.Blocks, res.Resumed, res.Pixels = o.Tracker.progress()
	res.Workers = o.Tracker.workers()
	return res, nil
}

// computeBlocks computes the blocks that are still to be computed, after vectors are rasterized and
// staging has begun.
func computeBlocks(ctx context.Context, o *Options, writers []*output.Writer, results *results, todo *remaining,
	res *Result) error {
	job, p := o.Job, o.Plan
	rasters := &Rasterizer{Plan: p.Rasterizing, Vectors: job.Values.Vectors, Timings: o.Timings, Log: o.Log}
	defer rasters.Drop()
	if len(job.Inputs.VectorsToRasterize()) > 0 {
		o.Tracker.at("rasterizing")
	}
	inputs, notes, err := rasters.Rasterize(ctx, job.Inputs)
	if err != nil {
		return err
	}
	o.Tracker.at("blocks")
	res.Notes = append(res.Notes, notes...)
	reader := newBlockReader(inputs, p.Blocks, job.ReaderMargin(), p.ExtraReads)
	feed := &feeder{plan: p, todo: todo, reader: reader, results: results, tracker: o.Tracker, timings: o.Timings}
	if !p.WorkersRead {
		if err := resolve.BoundGDAL(p.GDALBytes); err != nil {
			return err
		}
		shareTiles(inputs, p.CacheBytes, todo)
		if feed.staging, err = startStaging(inputs, todo); err != nil {
			return err
		}
	}
	if job.Values.Concurrency.On != nil {
		d := &dispatcher{job: job, plan: p, inputs: inputs, writers: writers, function: &o.Function, results: results,
			todo: todo, feed: feed, tracker: o.Tracker, timings: o.Timings, log: o.Log, abort: o.Abort,
			lent: map[int]*blockData{}}
		err = d.run(ctx)
	} else {
		here := &localWorkers{shared: newComputing(job, p.Blocks, p.OutputBytes, inputs, writers, o.Function,
			o.Timings, o.Abort),
			feed: feed, results: results, tracker: o.Tracker, count: p.Workers}
		err = here.run(ctx)
	}
	if err != nil {
		return err
	}
	if err := results.checkAll(p.ComputedBlocks()); err != nil {
		return err
	}
	return results.mergeWorkers(o.MergeWorkers)
}
