package slurm

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"leat/internal/worker/coordinator"
	"leat/internal/worker/slurmtest"
)

// run runs blocks on workers of workertest.Main, in Single mode one for each; accepted is called
// with each block.
func run(t testing.TB, l *log, dir string, blocks, workers int, single bool, accepted func(*coordinator.Result)) {
	t.Helper()
	barrier := time.Minute
	if single {
		barrier = 0
	}
	c, err := coordinator.New(coordinator.Options{
		Barrier: barrier,
		Job:     json.RawMessage(`{"Size": 100}`), Blocks: blocks, MaxResult: 64 << 10, MaxBytes: 1 << 20,
		Build: "workertest", Workers: workers, OneBlockPerJob: single,
		Logger: l.logger(),
		Accept: func(_ context.Context, r *coordinator.Result) error {
			accepted(r)
			return nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	endpoint, err := c.Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	err = coordinator.Run(t.Context(), c, New(nil), coordinator.RunOptions{
		Workers: workers, Command: []string{exe}, Run: "run", Dir: dir, Endpoint: endpoint, Logger: l.logger(),
		StopWithin: time.Minute,
	})
	if err != nil {
		t.Errorf("the run failed: %v", err)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}

// RIOS waits for all jobs of its single-block mode to have started before it has the first ended,
// which is never when the cluster runs fewer at once; and the jobs stay in the queue.
func TestRIOSSingleBlockJobs(t *testing.T) {
	c := slurmtest.Start(t)
	c.Setenv(t)
	const blocks = 2*slurmtest.CPUs + 3
	var (
		mu  sync.Mutex
		did = map[string]int{}
		l   log
	)
	run(t, &l, "", blocks, blocks, true, func(r *coordinator.Result) {
		mu.Lock()
		defer mu.Unlock()
		did[r.Worker]++
	})
	if len(did) != blocks {
		t.Errorf("%d blocks were done by %d workers: %v", blocks, len(did), did)
	}
	if left := c.Jobs(t); left != "" {
		t.Errorf("jobs are left:\n%s", left)
	}
}

func TestRIOSErrorPrintedByGoodRun(t *testing.T) {
	c := slurmtest.Start(t)
	c.Setenv(t)
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	var l log
	run(t, &l, dir, 40, 3, false, func(*coordinator.Result) {})
	if text := l.String(); regexp.MustCompile(`(?i)error|level=WARN`).MatchString(text) || text == "" {
		t.Errorf("the run was good, and it was said:\n%s", text)
	}
	logs := list(t, dir, "*.log")
	for _, name := range logs {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(b)) {
			// Slurm itself notes the end of a job whose script had not quite ended.
			if !strings.Contains(line, "CANCELLED AT") {
				t.Errorf("%s: %s", filepath.Base(name), line)
			}
		}
	}
	if len(logs) == 0 || len(list(t, dir, "*")) != len(logs) {
		t.Errorf("in the directory: %v", list(t, dir, "*"))
	}
	if left := c.Jobs(t); left != "" {
		t.Errorf("jobs are left:\n%s", left)
	}
}

// BenchmarkFirstBlock is from before sbatch to the first block's result, with the scheduler's least
// delay.
func BenchmarkFirstBlock(b *testing.B) {
	c := slurmtest.Start(b)
	c.Setenv(b)
	var times []time.Duration
	for b.Loop() {
		var l log
		begin := time.Now()
		run(b, &l, "", 1, 1, false, func(*coordinator.Result) { times = append(times, time.Since(begin)) })
	}
	slices.Sort(times)
	b.ReportMetric(float64(times[len(times)/2].Microseconds())/1000, "ms-median")
	b.ReportMetric(float64(times[0].Microseconds())/1000, "ms-least")
	b.ReportMetric(float64(times[len(times)-1].Microseconds())/1000, "ms-most")
}
