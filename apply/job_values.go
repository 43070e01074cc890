package apply

import (
	"cmp"
	"log/slog"
	"slices"

	"leat/apply/internal/exec"
	"leat/apply/internal/jobspec"
	"leat/internal/sysmem"
)

// values returns the values of a job without its functions. abort, which may be nil, ends the run
// if an output's BeforeClose ends its goroutine.
func (j *Job) values(abort func(error)) *jobspec.Job {
	v := &jobspec.Job{Inputs: map[string]jobspec.Input{}, Vectors: map[string]jobspec.Vector{},
		Outputs: map[string]jobspec.Output{}, Expressions: j.Expressions, Tables: j.Tables, Variables: j.Variables,
		Controls:    jobspec.Controls(j.Controls),
		Concurrency: jobspec.Concurrency(j.Concurrency), Version: j.Version, Resume: j.Resume,
		BudgetBytes: j.Controls.MemoryBytes,
		Function: j.describePython(jobspec.Function{Defined: j.Func != nil, Name: j.Function, Merges: j.Merge != nil,
			MergesWorkers: j.MergeWorkers != nil, Closes: j.Close != nil, Params: j.Params,
			ParamsCodec: j.Functions[j.Function].Params, Emits: j.Emits, WorkerValues: j.WorkerValues})}
	for name, in := range j.Inputs {
		v.Inputs[name] = jobspec.Input(in)
	}
	for name, vector := range j.Vectors {
		v.Vectors[name] = jobspec.Vector(vector)
	}
	for name, out := range j.Outputs {
		out.BeforeClose = exec.RecoverBeforeClose(out.BeforeClose, abort)
		v.Outputs[name] = jobspec.Output(out)
	}
	if v.BudgetBytes == 0 {
		v.BudgetBytes = sysmem.DefaultLimit()
	}
	return v
}

// sortedKeys returns the keys of a map in order.
func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K {
	keys := make([]K, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// logger returns log, or a logger that drops everything if log is nil.
func logger(log *slog.Logger) *slog.Logger {
	if log == nil {
		return slog.New(slog.DiscardHandler)
	}
	return log
}
