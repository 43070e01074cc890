package workers

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"leat/bench/measured"
	"leat/internal/worker/slurmtest"
	"leat/worker/slurm"
)

const slurmTarget = "Slurm, from submission to the first block < 1.5 s"

// slurm measures how soon a job of Slurm has its first block done, on a cluster of one node that is
// made for it.
func (b *bench) slurm() error {
	s := &stand{}
	defer s.end()
	cluster, why, err := s.cluster()
	if err != nil {
		return err
	}
	if cluster == nil {
		fmt.Fprintf(b.Out, "Slurm was left out: %s.\n\n", why)
		b.missing(slurmTarget, why)
		return nil
	}
	for _, e := range cluster.Env {
		name, value, _ := strings.Cut(e, "=")
		before, had := os.LookupEnv(name)
		if err := os.Setenv(name, value); err != nil {
			return err
		}
		defer func() {
			if had {
				_ = os.Setenv(name, before)
			} else {
				_ = os.Unsetenv(name)
			}
		}()
	}
	in, err := b.bands(600)
	if err != nil {
		return err
	}
	here := append(append(slices.Clone(in), "-e", ndviText), bare...)
	there := append(slices.Clone(here), "--on", "slurm", "--workers", "1", "--listen", "127.0.0.1")
	var bareJob, started, joined, first, ended, local, whole measured.Times
	for i := range b.jobs + 1 {
		alone, err := b.bareJob()
		if err != nil {
			return err
		}
		directory := filepath.Join(b.dir, "slurm")
		if err := os.Mkdir(directory, 0o700); err != nil {
			return err
		}
		s, err := b.firstBlock(slurm.New(&slurm.Options{CPUs: 1}), directory)
		if err = errors.Join(err, os.RemoveAll(directory)); err != nil {
			return err
		}
		one, err := b.apply(here, nil)
		if err != nil {
			return err
		}
		other, err := b.apply(there, nil)
		if err != nil {
			return err
		}
		if *one.out != *other.out {
			return errors.New("the output of a run on Slurm is another one than that of a run in one process")
		}
		if i > 0 {
			bareJob = append(bareJob, alone)
			started, joined, first, ended = append(started, s.started), append(joined, s.joined),
				append(first, s.first), append(ended, s.ended)
			local, whole = append(local, one.wall), append(whole, other.wall)
		}
	}
	fmt.Fprintf(b.Out, "Slurm, a cluster of one node on this machine that looks at new jobs at once (`batch_sched_delay=0`; by default it is up to 3 s later), %d jobs of one worker, from the call that submits:\n\n", b.jobs)
	measured.Table(b.Out, [][]string{
		{"", "time"},
		{"for comparison: sbatch of a script that makes a file, until that is there", bareJob.String()},
		{"sbatch has taken the job", started.String()},
		{"its worker has joined the run, by TLS", joined.String()},
		{"its first block, without work, is accepted", first.String()},
		{"the run has ended, and the job is gone", ended.String()},
		{"a whole run of `leat apply --on slurm --workers 1`, 600 x 600 pixels", whole.String()},
		{"the same in one process", local.String()},
	})
	b.target(slurmTarget, first, 1500*time.Millisecond)
	return nil
}

// bareJob is what Slurm takes for a job without a worker.
func (b *bench) bareJob() (time.Duration, error) {
	file := filepath.Join(b.dir, "job")
	begin := time.Now()
	if out, err := exec.CommandContext(b.ctx, "sbatch", "--quiet", "--output=/dev/null", "--wrap",
		": >'"+file+"'").CombinedOutput(); err != nil {
		return 0, fmt.Errorf("sbatch: %w: %s", err, out)
	}
	for {
		if _, err := os.Stat(file); err == nil {
			return time.Since(begin), os.Remove(file)
		}
		if time.Since(begin) > patience {
			return 0, fmt.Errorf("a job of Slurm did not run within %v", patience)
		}
		select {
		case <-b.ctx.Done():
			return 0, b.ctx.Err()
		case <-time.After(time.Millisecond):
		}
	}
}

// stand stands in for the test that slurmtest wants, which ends what it started.
type stand struct {
	testing.TB
	cleanups []func()
	skipped  string
	failed   error
}

func (s *stand) Helper()                   {}
func (s *stand) Cleanup(f func())          { s.cleanups = append(s.cleanups, f) }
func (s *stand) Logf(string, ...any)       {}
func (s *stand) Fatal(args ...any)         { s.fail(fmt.Sprint(args...)) }
func (s *stand) Skip(args ...any)          { s.skip(fmt.Sprint(args...)) }
func (s *stand) Fatalf(f string, a ...any) { s.fail(fmt.Sprintf(f, a...)) }
func (s *stand) Skipf(f string, a ...any)  { s.skip(fmt.Sprintf(f, a...)) }

func (s *stand) fail(text string) {
	s.failed = errors.New(text)
	runtime.Goexit()
}

func (s *stand) skip(text string) {
	s.skipped = text
	runtime.Goexit()
}

// cluster starts one; none, and why, where there can't be one.
func (s *stand) cluster() (c *slurmtest.Cluster, why string, err error) {
	done := make(chan struct{})
	go func() { // Fatal and Skip end it
		defer close(done)
		c = slurmtest.Start(s)
	}()
	<-done
	return c, s.skipped, s.failed
}

func (s *stand) end() {
	for _, f := range slices.Backward(s.cleanups) {
		f()
	}
}
