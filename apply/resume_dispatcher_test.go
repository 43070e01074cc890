package apply

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"testing"

	"leat/apply/outcome"
	"leat/worker/subprocess"
)

func TestResumeWithOtherLauncher(t *testing.T) {
	t.Parallel()
	inputs := resumeInputs(t)
	make := func(dir string, merged *[]string) Job {
		return Job{
			Inputs: map[string]Input{"red": File(filepath.Join(inputs, "red.tif"))}, Function: "focal",
			Functions: testFunctions, Params: focalParams{2},
			Outputs: map[string]Output{"mean": {Path: filepath.Join(dir, "mean.tif"), TileSize: 64, Nodata: "-1",
				Overviews: []int{2}},
				"copy": {Path: filepath.Join(dir, "copy.tif"), TileSize: 64, Nodata: "0"}},
			Controls: Controls{Overlap: 1, WindowWidth: 64, WindowHeight: 64},
			Merge:    func(block int, v any) error { *merged = append(*merged, fmt.Sprint(block, v)); return nil },
		}
	}
	var want, got []string
	whole := make(t.TempDir(), &want)
	mustRun(t, whole)
	kinds := map[string]Concurrency{
		"goroutines":              {Workers: 2},
		"processes":               {On: subprocess.New(nil), Workers: 2, Reading: ReadHere},
		"processes that read too": {On: subprocess.New(nil), Workers: 2, Reading: ReadByWorkers},
	}
	for _, c := range [][2]string{{"goroutines", "processes"}, {"processes", "processes that read too"},
		{"processes that read too", "goroutines"}} {
		dir := t.TempDir()
		job := make(dir, &got)
		job.Concurrency = kinds[c[0]]
		stop := errors.New("enough")
		job.Merge = func(block int, v any) error {
			if block == 60 {
				return stop
			}
			return nil
		}
		_, err := Run(t.Context(), job)
		var left *outcome.IncompleteError
		if !errors.Is(err, stop) || !errors.As(err, &left) || left.Done < 40 {
			t.Fatalf("%q: %v: %+v", c, err, left)
		}
		other := make(dir, &got)
		other.Resume, other.Params = true, focalParams{3}
		failRun(t, other, "the parameters of the function differ")
		other.Params, other.Function = nil, "untyped"
		other.Merge, other.Outputs = nil, map[string]Output{"mean": other.Outputs["mean"]}
		failRun(t, other, "the function was 'focal' and is 'untyped'", "the list of outputs was copy, mean and is mean")
		got = nil
		again := make(dir, &got)
		again.Resume, again.Concurrency = true, kinds[c[1]]
		if res := mustRun(t, again); res.Resumed != left.Done {
			t.Errorf("%q: %d blocks were resumed of %d", c, res.Resumed, left.Done)
		}
		for n, o := range again.Outputs {
			sameFileBytes(t, fmt.Sprintf("%q", c), o.Path, fileBytes(t, whole.Outputs[n].Path))
		}
		if !slices.Equal(got, want) {
			t.Errorf("%q: merged %d values, not %d, or others", c, len(got), len(want))
		}
		noTraces(t, dir)
	}
}
