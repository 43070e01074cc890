package exec

import (
	"fmt"

	"leat/apply/internal/jobspec"
	"leat/apply/internal/output"
	"leat/apply/internal/plan"
	"leat/apply/internal/resolve"
	"leat/apply/outcome"
)

// NewSpec describes a run for workers. It is called before the first block, which sets types that
// are still open.
func NewSpec(values *jobspec.Job, p *plan.Plan, in *resolve.Inputs, outs []*output.Output) (_ *jobspec.Spec,
	err error) {
	s := &jobspec.Spec{Expressions: values.Expressions, Tables: values.Tables, Variables: values.Variables,
		Function: values.Function.Name, Emits: values.Function.Emits != nil, Merges: values.Function.Merges,
		MergesWorkers: values.Function.MergesWorkers, BigEndian: jobspec.BigEndian,
		Outputs: map[string]jobspec.OutputSpec{}, Controls: values.Controls, Grid: p.Grid, Blocks: p.Blocks,
		Reads: p.WorkersRead, CacheBytes: p.CacheBytes / int64(max(1, p.Shares)),
		AheadBytes: p.AheadLimit() / int64(max(1, p.Shares)), ExtraReads: p.ExtraReads / max(1, p.Shares),
		GDALBytes: p.GDALBytes, OutputBytes: p.OutputBytes,
		Mixed: values.Concurrency.AllowMixedBuilds, Workers: p.Workers, Site: values.Concurrency.WorkerConfig}
	if codec := values.Function.ParamsCodec; codec != nil && values.Function.Name != "" {
		if s.Params, err = codec.Encode(values.Function.Params); err != nil {
			return nil, &outcome.JobError{Err: fmt.Errorf("Job.Params can't be sent to workers: %w", err)}
		}
	}
	if s.Inputs, err = in.Specs(s.Reads, values.Controls.Unscale); err != nil {
		return nil, err
	}
	for _, o := range outs {
		spec := o.Spec
		spec.Path, spec.TempDir, spec.BeforeClose = o.Spec.Label(), "", nil
		s.Outputs[o.Name] = jobspec.OutputSpec{Spec: jobspec.Output(spec), Type: o.Type, Bands: o.Bands,
			Nodata: o.Nodata}
	}
	return s, nil
}
