package zonaljob

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"leat/apply"
	"leat/internal/proctest"
	"leat/internal/worker/pbstest"
	"leat/internal/worker/slurmtest"
	"leat/internal/zonal"
	"leat/worker/pbs"
	"leat/worker/slurm"
)

// clusterStatistics are those of the tests on clusters: some need all values of a zone.
const clusterStatistics = "mean,std,median,histogram(-1,0,9),count,mode"

// killFile is a file that the first worker with a block removes before it kills itself. A cluster's
// jobs run the same program in another environment.
func killFile() string { return os.Args[0] + ".kill" }

// clusterFunctions are the functions of workers in tests.
func clusterFunctions() apply.Functions {
	list := Functions()
	f := list[functionName]
	compute := f.Func
	f.Func = func(ctx context.Context, b *apply.Block) error {
		if os.Remove(killFile()) == nil {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {} // the signal is on its way
		}
		return compute(ctx, b)
	}
	list[functionName] = f
	return list
}

// clusterJob returns a job in this process, or of three workers of a launcher.
func clusterJob(dir, kind string) (*apply.Job, error) {
	job, err := testJob(dir, clusterStatistics, zonal.ByCoverage)
	if err != nil || kind == "" {
		return job, err
	}
	job.Concurrency = apply.Concurrency{On: slurm.New(nil), Workers: 3, Listen: "127.0.0.1"}
	if kind == "pbs" {
		job.Concurrency.On = pbs.New(nil)
	}
	return job, nil
}

// onCluster kills a worker of a launcher during a run, and compares the table with that of a run in
// this process. It does the same with runs that are killed and resumed. left names the jobs that
// have not ended.
func onCluster(t *testing.T, kind string, left func() []string) {
	needGDAL(t)
	dir := t.TempDir()
	makeRasters(t, dir, 260, 210)
	makeZones(t, dir, 60)
	job, err := clusterJob(dir, "")
	if err != nil {
		t.Fatal(err)
	}
	want := runJob(t, job)
	table := filepath.Join(dir, "out.csv")
	run := func(t *testing.T, resume bool) *apply.Result {
		t.Helper()
		job, err := clusterJob(dir, kind)
		if err != nil {
			t.Fatal(err)
		}
		job.Resume = resume
		result, err := apply.Run(t.Context(), *job)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(table); err != nil || !bytes.Equal(got, want) {
			t.Errorf("the table differs from that of the run without workers: %v", err)
		}
		return result
	}
	// Workers of a killed run end by themselves, after a while.
	noneBut := func(t *testing.T, earlier []string) {
		t.Helper()
		for _, job := range left() {
			if !slices.Contains(earlier, job) {
				t.Errorf("the job %v is left", job)
			}
		}
	}
	t.Run("killed worker", func(t *testing.T) {
		proctest.Must(t, os.Remove(table))
		proctest.Must(t, os.WriteFile(killFile(), nil, 0o600))
		defer os.Remove(killFile())
		result := run(t, false)
		if _, err := os.Stat(killFile()); err == nil {
			t.Error("no worker was killed")
		}
		// Idle workers may be given its block before it counts as lost.
		if w := result.Workers; w.Reissued == 0 && w.Copies == 0 {
			t.Errorf("%d workers were lost, but no block leased again", w.LostWorkers)
		}
		noneBut(t, nil)
	})
	for point, n := range map[string]int{"apply.record": 3, "apply.block-done": 9} {
		t.Run("killed run at "+point, func(t *testing.T) {
			proctest.Must(t, os.Remove(table))
			if killed, out, err := proctest.New("zonal", dir, kind).KillAt(point, n).Start(t).Wait(); !killed {
				t.Fatalf("no run was killed: %v: %s", err, out)
			}
			if _, err := os.Stat(table); err == nil {
				t.Error("the table exists")
			}
			earlier := left()
			result := run(t, true)
			if result.Resumed == 0 || result.Resumed == result.Blocks {
				t.Errorf("%d of %d blocks were resumed", result.Resumed, result.Blocks)
			}
			noneBut(t, earlier)
		})
	}
	list, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range list {
		if name := e.Name(); name != "a.tif" && name != "f.tif" && name != "z.geojson" && name != "out.csv" {
			t.Errorf("%s is left", name)
		}
	}
}

func TestZonalWithSlurm(t *testing.T) {
	c := slurmtest.Start(t)
	c.Setenv(t)
	onCluster(t, "slurm", func() (list []string) {
		for line := range strings.Lines(c.Jobs(t)) {
			id, _, _ := strings.Cut(line, " ")
			list = append(list, id)
		}
		return list
	})
}

func TestZonalWithPBS(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: kills runs and workers of the stand-in for PBS")
	}
	s := pbstest.New(t, pbstest.Settings{})
	onCluster(t, "pbs", s.Left)
}
