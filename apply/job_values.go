package apply

import (
	"cmp"
	"slices"

	"leat/apply/internal/jobspec"
)

// values returns the values of a job without its functions.
func (j *Job) values() *jobspec.Job {
	v := &jobspec.Job{Inputs: map[string]jobspec.Input{}, Vectors: map[string]jobspec.Vector{},
		Outputs: map[string]jobspec.Output{}, Expressions: j.Expressions, Controls: jobspec.Controls(j.Controls),
		Concurrency: jobspec.Concurrency(j.Concurrency), Version: j.Version, Resume: j.Resume,
		BudgetBytes: j.Controls.MemoryBytes,
		Function: jobspec.Function{Defined: j.Func != nil, Name: j.Function, Merges: j.Merge != nil,
			Params: j.Params, ParamsCodec: j.Functions[j.Function].Params, Emits: j.Emits}}
	for name, in := range j.Inputs {
		v.Inputs[name] = jobspec.Input(in)
	}
	for name, vector := range j.Vectors {
		v.Vectors[name] = jobspec.Vector(vector)
	}
	for name, out := range j.Outputs {
		v.Outputs[name] = jobspec.Output(out)
	}
	if v.BudgetBytes == 0 {
		v.BudgetBytes = DefaultMemoryBytes()
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
