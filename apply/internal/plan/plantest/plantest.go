// Package plantest plans small jobs for tests of workers without a run.
package plantest

import (
	"os"
	"path/filepath"
	"testing"

	"leat/apply/internal/jobspec"
	"leat/apply/internal/plan"
	"leat/apply/internal/resolve"
	"leat/internal/npy"
	"leat/ndarray"
	"leat/worker/subprocess"
)

// Job is a planned job.
type Job struct {
	Values *jobspec.Job
	*resolve.Job
	Plan *plan.Plan
}

// New plans a job of one worker that reads. Its input a is an array of 128 x 128 bytes in blocks of
// 64 x 64. function is the name of its function, and outputs are the names of its outputs. The
// inputs are closed when the test ends.
func New(t testing.TB, function string, outputs ...string) Job {
	t.Helper()
	dir := t.TempDir()
	header := npy.Header{Shape: []int{128, 128}, Elem: npy.ElemOfDType(ndarray.Uint8)}
	file, err := header.Append(nil, 64)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "a.npy")
	if err := os.WriteFile(path, append(file, make([]byte, 128*128)...), 0o600); err != nil {
		t.Fatal(err)
	}
	values := &jobspec.Job{Inputs: map[string]jobspec.Input{"a": {Files: []string{path}}},
		Outputs:  map[string]jobspec.Output{},
		Function: jobspec.Function{Defined: true, Name: function}, BudgetBytes: 1 << 30,
		Controls:    jobspec.Controls{WindowWidth: 64, WindowHeight: 64},
		Concurrency: jobspec.Concurrency{On: subprocess.New(nil), Workers: 1, Reading: jobspec.ReadByWorkers}}
	for _, name := range outputs {
		values.Outputs[name] = jobspec.Output{Path: filepath.Join(dir, name+".tif"), TileSize: 64}
	}
	job, err := resolve.Resolve(t.Context(), values, resolve.Env{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { job.Inputs.Close() })
	p, err := plan.New(t.Context(), job)
	if err != nil {
		t.Fatal(err)
	}
	return Job{Values: values, Job: job, Plan: p}
}
