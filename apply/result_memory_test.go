package apply

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"leat/ndarray"
	"leat/worker/subprocess"
)

// TestTilesInSharedMemory checks that workers on this machine send no tiles with their results,
// except those that do not fit the memory they share with the run.
func TestTilesInSharedMemory(t *testing.T) {
	t.Parallel()
	red, nir := scene(t)
	for name, slots := range map[string]int{"fits": 1, "more slots than planned": 4 * runtime.GOMAXPROCS(0)} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			job := Job{Inputs: map[string]Input{"red": File(red), "nir": File(nir)},
				Expressions: map[string]string{"out": "(nir - red) / (nir + red)", "sum": "nir + red"},
				Outputs: map[string]Output{"out": {Path: filepath.Join(dir, "out.tif")},
					"sum": {Path: filepath.Join(dir, "sum.tif"), Type: ndarray.Uint16}},
				Concurrency: Concurrency{Workers: 1}}
			mustRun(t, job)
			want, wantSum := fileBytes(t, filepath.Join(dir, "out.tif")), fileBytes(t, filepath.Join(dir, "sum.tif"))
			job.Concurrency = Concurrency{On: subprocess.New(&subprocess.Options{Slots: slots, Output: os.Stderr}),
				Workers: 1}
			r, err := Start(t.Context(), job)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := r.Wait(); err != nil {
				t.Fatal(err)
			}
			sameFileBytes(t, "out", filepath.Join(dir, "out.tif"), want)
			sameFileBytes(t, "sum", filepath.Join(dir, "sum.tif"), wantSum)
			sent := r.Status().Remote.Workers[0].Bytes
			if fits := slots == 1; fits != (sent < int64(len(want)+len(wantSum))/4) {
				t.Errorf("%d bytes were sent, the outputs have %d and %d", sent, len(want), len(wantSum))
			}
		})
	}
}
