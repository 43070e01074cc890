package apply

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"leat/internal/pytest"
	"leat/internal/rundir"
	"leat/internal/worker/pbstest"
	"leat/internal/worker/slurmtest"
	"leat/worker"
	"leat/worker/pbs"
	"leat/worker/slurm"
)

// clusterJobs returns a job of expressions and one of a function with values, whose outputs are in
// a directory that the nodes can reach.
func clusterJobs(red, nir string) map[string]func(dir string) Job {
	return map[string]func(dir string) Job{
		"expression": func(dir string) Job {
			return Job{Inputs: map[string]Input{"red": File(red), "nir": File(nir)},
				Expressions: map[string]string{"out": "(nir - red) / (nir + red)"},
				Outputs: map[string]Output{"out": {Path: filepath.Join(dir, "out.tif"), Nodata: "nan", COG: true,
					OverviewMethod: "average", TileSize: 128}}}
		},
		"function": func(dir string) Job {
			return Job{Inputs: map[string]Input{"red": File(red)}, Functions: testFunctions, Function: "focal",
				Params: focalParams{1.5},
				Merge:  func(int, any) error { return nil },
				Outputs: map[string]Output{"mean": {Path: filepath.Join(dir, "mean.tif"), Nodata: "-1", TileSize: 128},
					"copy": {Path: filepath.Join(dir, "copy.tif"), TileSize: 128}},
				Controls: Controls{Overlap: 1, WindowWidth: 256, WindowHeight: 256}}
		},
	}
}

// onCluster runs jobs with 1 to 8 workers of a launcher and with one for each block, and compares
// the outputs with those of this process.
func onCluster(t *testing.T, kind func() worker.Launcher) {
	red, nir := smallScene(t)
	jobs := clusterJobs(red, nir)
	if python, ok := pytest.Find("numpy"); ok && !testing.Short() {
		file := filepath.Join(t.TempDir(), "functions.py")
		if err := os.WriteFile(file, []byte(pythonFunctions), 0o600); err != nil {
			t.Fatal(err)
		}
		jobs["function in Python"] = func(dir string) Job {
			return Job{Inputs: map[string]Input{"red": File(red), "nir": File(nir)},
				Python: &Python{File: file, Name: "ndvi", Executable: python},
				Outputs: map[string]Output{"out": {Path: filepath.Join(dir, "out.tif"), Nodata: "nan", COG: true,
					TileSize: 128}}}
		}
	}
	for name, make := range jobs {
		here := make(t.TempDir())
		mustRun(t, here)
		want := map[string][]byte{}
		for n, o := range here.Outputs {
			want[n] = fileBytes(t, o.Path)
		}
		counts := []int{1, 2, 8, 0}
		if testing.Short() {
			counts = []int{2, 0}
		}
		for _, n := range counts {
			t.Run(fmt.Sprintf("%s, %d workers", name, n), func(t *testing.T) {
				dir := t.TempDir()
				job := make(dir)
				job.Concurrency = Concurrency{On: kind(), Workers: n, OneBlockPerJob: n == 0, Listen: "127.0.0.1"}
				if n == 0 { // one worker for each of a few blocks
					job.Controls.WindowWidth, job.Controls.WindowHeight = 1024, 512
				}
				if _, err := Run(t.Context(), job); err != nil {
					t.Fatal(err)
				}
				for out, o := range job.Outputs {
					sameFileBytes(t, out, o.Path, want[out])
				}
				noTraces(t, dir)
				noSharedDir(t, dir)
			})
		}
	}
}

func noSharedDir(t testing.TB, dir string) {
	t.Helper()
	list, err := filepath.Glob(filepath.Join(dir, rundir.Prefix+"*"))
	if err != nil || len(list) > 0 {
		t.Errorf("the directories %v are left (%v)", list, err)
	}
}

func TestSameBytesWithPBS(t *testing.T) {
	s := pbstest.New(t, pbstest.Settings{})
	onCluster(t, func() worker.Launcher { return pbs.New(nil) })
	if left := s.Left(); len(left) > 0 {
		t.Errorf("the jobs %v are left", left)
	}
}

func TestSameBytesWithSlurm(t *testing.T) {
	c := slurmtest.Start(t)
	c.Setenv(t)
	onCluster(t, func() worker.Launcher { return slurm.New(nil) })
	t.Run("a function that fails ends the run and its jobs", func(t *testing.T) {
		red, _ := scene(t)
		dir := t.TempDir()
		job := Job{Inputs: map[string]Input{"red": File(red)}, Functions: testFunctions, Function: "fails", Params: 3,
			Outputs:     map[string]Output{"out": {Path: filepath.Join(dir, "out.tif"), TileSize: 128}},
			Controls:    Controls{WindowWidth: 256, WindowHeight: 256},
			Concurrency: Concurrency{On: slurm.New(nil), Workers: 2, Listen: "127.0.0.1"}}
		failRun(t, job, "slurm-", "block 3", errMarsh.Error())
		noSharedDir(t, dir)
	})
	t.Run("a file that the node does not have", func(t *testing.T) {
		red, _ := scene(t)
		dir := t.TempDir()
		job := slowRemote(red, filepath.Join(dir, "out.tif"), 2, 0)
		job.Concurrency = Concurrency{On: &removing{slurm.New(nil), red}, Workers: 2, Listen: "127.0.0.1"}
		failRun(t, job, "slurm-", filepath.Base(red), "of a worker, which reads it itself")
		noSharedDir(t, dir)
	})
	t.Run("rasters of vectors", func(t *testing.T) {
		vectors, here, out := vectorFiles(t), t.TempDir(), t.TempDir()
		mustRun(t, burnJob(vectors, here))
		job := burnJob(vectors, out)
		job.Concurrency = Concurrency{On: slurm.New(nil), Workers: 2, Listen: "127.0.0.1"}
		mustRun(t, job)
		for name, o := range job.Outputs {
			sameFileBytes(t, name, o.Path, fileBytes(t, filepath.Join(here, name+".tif")))
		}
		noSharedDir(t, out)
	})
	if left := c.Jobs(t); len(left) > 0 {
		t.Errorf("the jobs %v are left", left)
	}
}

// removing removes a file when workers are started.
type removing struct {
	worker.Launcher
	path string
}

func (r *removing) Start(ctx context.Context, o worker.StartOptions) (worker.Fleet, error) {
	if err := os.Remove(r.path); err != nil {
		return nil, err
	}
	return r.Launcher.Start(ctx, o)
}

// A resumed run starts no more workers than there are blocks left.
func TestResumeOneBlockPerJob(t *testing.T) {
	pbstest.New(t, pbstest.Settings{})
	red, nir := scene(t)
	job := clusterJobs(red, nir)["expression"](t.TempDir())
	job.Controls.WindowWidth, job.Controls.WindowHeight = 512, 512
	ctx, stop := context.WithCancel(t.Context())
	first := job
	first.Concurrency.Workers, first.Concurrency.Readers = 1, 1
	afterBlocks(t, 3, stop)
	if _, err := Run(ctx, first); err == nil {
		t.Fatal("the first run was not stopped")
	}
	job.Resume = true
	job.Concurrency = Concurrency{On: pbs.New(nil), OneBlockPerJob: true, Listen: "127.0.0.1"}
	res := mustRun(t, job)
	if res.Resumed < 3 || len(res.Workers.Workers) != res.Blocks-res.Resumed {
		t.Errorf("%d workers for %d blocks of which %d were done", len(res.Workers.Workers), res.Blocks, res.Resumed)
	}
}
