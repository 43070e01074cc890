package apply

import (
	"context"
	"fmt"
	"leat/apply/internal/jobspec"
	"leat/apply/internal/output"
	"leat/apply/internal/resolve"
)

// spec describes the run for workers. It is called before the first block, which sets types that
// are still open.
func (r *run) spec() (_ *jobspec.Spec, err error) {
	values, p := r.res.Values, r.decided
	s := &jobspec.Spec{Expressions: values.Expressions, Function: values.Function.Name,
		Emits: values.Function.Emits != nil, Merges: values.Function.Merges, BigEndian: jobspec.BigEndian,
		Outputs: map[string]jobspec.OutputSpec{}, Controls: values.Controls, Grid: p.Grid, Blocks: p.Blocks,
		Reads: p.WorkersRead, CacheBytes: p.CacheBytes / int64(max(1, p.Shares)), GDALBytes: p.GDALBytes,
		Mixed: values.Concurrency.AllowMixedBuilds, Workers: p.Workers, Site: values.Concurrency.WorkerConfig}
	if codec := values.Function.ParamsCodec; codec != nil && values.Function.Name != "" {
		if s.Params, err = codec.Encode(values.Function.Params); err != nil {
			return nil, &JobError{Err: fmt.Errorf("Job.Params can't be sent to workers: %w", err)}
		}
	}
	if s.Inputs, err = r.in.Specs(s.Reads, values.Controls.Unscale); err != nil {
		return nil, err
	}
	for _, o := range r.writers {
		spec := o.Spec
		spec.Path, spec.TempDir, spec.BeforeClose = o.Spec.Label(), "", nil
		s.Outputs[o.Name] = jobspec.OutputSpec{Spec: jobspec.Output(spec), Type: o.Type, Bands: o.Bands,
			Nodata: o.Nodata}
	}
	return s, nil
}

// restore makes the worker's part of the run that the spec describes, without spools and budget.
func restore(ctx context.Context, s *jobspec.Spec, o *WorkOptions) (_ *run, err error) {
	job := &Job{Outputs: map[string]Output{}, Controls: Controls(s.Controls)}
	if err := bind(s, job, o.Functions); err != nil {
		return nil, err
	}
	for name, out := range s.Outputs {
		job.Outputs[name] = Output(out.Spec)
	}
	var closeStore func() error
	if s.Reads && o.Opener != nil {
		if job.Open, closeStore, err = o.Opener(s.Site); err != nil {
			return nil, err
		}
	}
	res, err := resolve.Restore(ctx, s, job.values().Function, job.Open, closeStore)
	if err != nil {
		return nil, err
	}
	r := &run{job: job, res: res, in: res.Inputs, outs: res.Outputs, log: discard(o.Logger), function: job.Func}
	if res.Programs != nil {
		r.exprs = newExpressions(r, res.Programs)
		r.function = r.exprs.compute
	}
	for _, out := range r.outs {
		r.writers = append(r.writers, output.NewWriter(out, output.Options{Grid: s.Grid, Blocks: s.Blocks, Workers: 1,
			Timings: r.timings, Log: r.log}))
	}
	r.plan = &Plan{Grid: s.Grid, Blocks: s.Blocks, Workers: 1, Readers: 1, CacheBytes: s.CacheBytes}
	r.indexFiles()
	if s.Reads {
		r.shareTiles()
	}
	return r, nil
}

// bind looks up the job's function.
func bind(s *jobspec.Spec, job *Job, functions Functions) error {
	if s.Function == "" {
		return nil
	}
	job.Functions, job.Function = functions, s.Function
	if err := bindFunction(job); err != nil {
		return fmt.Errorf("this program is not the program of the run: %w", err)
	}
	if s.Emits != (job.Emits != nil) {
		return fmt.Errorf("this program is not the program of the run: only one of the two emits values from the function %q", s.Function)
	}
	if s.Merges {
		job.Merge = func(int, any) error { return nil } // the coordinator calls the real Merge
	}
	if codec := functions[s.Function].Params; codec != nil {
		var err error
		if job.Params, err = codec.Decode(s.Params); err != nil {
			return fmt.Errorf("the parameters of the function %q can't be read: %w", s.Function, err)
		}
	}
	return nil
}
