// Package slurm starts workers as job arrays of Slurm with sbatch, squeue, scancel and scontrol. It
// provides a [worker.Launcher].
//
// n workers are the tasks 0 to n-1 of a job array named leat-RUN-WORD, where WORD is unique to the
// start (several arrays if the system's limit is lower). Each task runs a small script from
// sbatch's standard input: it builds the worker's name from SLURM_ARRAY_TASK_ID, runs the user's
// initial commands, and then the worker with as many slots as the job has CPUs. Workers write their
// output to the run's directory, and errors quote the end of it.
//
// The endpoint's secret is in a file of mode 0600 in the run's directory, if there is one; Slurm
// then never sees it. Without a directory it is in sbatch's environment, which Slurm passes on to
// the job. Other users can't read that environment: it is not in scontrol show job or on a command
// line, and Slurm stores it in files that only its own user and the job's user can read. But Slurm
// sends it over the network like everything else, and sites may keep it in their accounting
// (AccountingStoreFlags=job_env). Workers always get the submitter's whole environment
// (--export=ALL): with less, Slurm first runs a login shell on the node, which takes a second at
// best and puts the job on hold at worst.
//
// squeue is queried for the states of the jobs, at first every 0.2 s, then less often, down to
// every 5 s.
//
// The package can't be faster than the cluster's scheduler, which by default looks for new batch
// jobs every 3 s (SchedulerParameters=batch_sched_delay). A process that ignores SIGTERM is killed
// by Slurm only after KillWait (30 s by default).
package slurm

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"time"

	"leat/worker"
	"leat/worker/internal/batch"
)

// launcherName is the launcher's name.
const launcherName = "slurm"

// Options configures a launcher. The zero value works.
type Options struct {
	// Sbatch, Squeue, Scancel and Scontrol are the programs, by name or path; "": these names in
	// PATH.
	Sbatch, Squeue, Scancel, Scontrol string
	// Directives are more options of sbatch, written as on the #SBATCH lines of a job script:
	// "-p short --time=1:00:00". As there, variables such as SBATCH_PARTITION override them, and so
	// do the options that the launcher sets itself (--array, --output, --export, ...). Options with
	// which sbatch submits nothing or waits (--test-only, --wait, ...) are refused.
	Directives []string
	// Init are bash lines that each job runs before its worker: "module load gdal". The worker is
	// started even if one fails, unless the line prevents that: "module load gdal || exit 1".
	Init []string
	// Prefix and Suffix are shell words before and after the worker's command; quotes and variables
	// are interpreted by the shell: "apptainer", "exec", "$HOME/image.sif".
	Prefix, Suffix []string
	// CPUs is the number of CPUs per worker (--cpus-per-task), which is also its number of slots;
	// 0: that of Directives, or the system's default.
	CPUs int
	// MaxArray bounds the tasks of a job array; 0: the system's limit (MaxArraySize).
	MaxArray int
	// Throttle bounds how many workers of one start run at once; 0: all. It is divided among the
	// arrays if there are several.
	Throttle int
	// Dir is an existing directory that nodes can reach at the same path, for runs without one of
	// their own (worker.StartOptions.Dir). A directory within it holds the secret and the logs
	// until the fleet is stopped. If both are "", workers leave no logs.
	Dir string
}

// launcher starts workers with Slurm.
type launcher struct {
	o     Options
	times times

	mu       sync.Mutex
	maxArray int // from scontrol; 0: not queried yet
}

// times holds timeouts, which are shorter in tests.
type times struct {
	first, longest time.Duration // between queue queries
	command        time.Duration // one run of a program
	check          time.Duration // the controller's answer
	answer         time.Duration // for a running sbatch to finish after the start is canceled
	// for a canceled start to return, and for a Stop whose ctx is done
	grace   time.Duration
	pending time.Duration // after which reasons of pending jobs are logged
}

func (t times) pace() batch.Pace { return batch.Pace{First: t.first, Longest: t.longest} }

var usual = times{
	first: 200 * time.Millisecond, longest: 5 * time.Second,
	// Slurm's programs retry for tens of seconds if the controller is busy.
	command: time.Minute,
	check:   15 * time.Second,
	answer:  2 * time.Second,
	grace:   4 * time.Second,
	pending: 10 * time.Second,
}

// New returns a launcher; nil means defaults. Check and Start report invalid options.
func New(o *Options) worker.Launcher { return newLauncher(o) }

func newLauncher(o *Options) *launcher {
	k := &launcher{times: usual}
	if o != nil {
		k.o = *o
	}
	k.o.Sbatch = cmp.Or(k.o.Sbatch, "sbatch")
	k.o.Squeue = cmp.Or(k.o.Squeue, "squeue")
	k.o.Scancel = cmp.Or(k.o.Scancel, "scancel")
	k.o.Scontrol = cmp.Or(k.o.Scontrol, "scontrol")
	return k
}

// Name returns "slurm".
func (k *launcher) Name() string { return launcherName }

// Capabilities reports that workers are remote, may compute one block each, and need no shared
// directory.
func (k *launcher) Capabilities() worker.Capabilities {
	return worker.Capabilities{OneBlockPerJob: true}
}

// Check returns an error if options are invalid (naming all of them), programs are missing, or the
// controller does not answer.
func (k *launcher) Check(ctx context.Context) error {
	if err := k.validate(); err != nil {
		return err
	}
	for _, p := range []string{k.o.Sbatch, k.o.Squeue, k.o.Scancel, k.o.Scontrol} {
		if _, err := exec.LookPath(p); err != nil {
			if errors.Is(err, exec.ErrNotFound) && !strings.Contains(p, "/") {
				return failed("program", "%s: not found in PATH", p)
			}
			return failed("program", "%w", err)
		}
	}
	_, err := k.arrayLimit(ctx)
	return err
}

// arrayLimit returns the largest array size. It queries the controller once, even if
// Options.MaxArray is set.
func (k *launcher) arrayLimit(ctx context.Context) (int, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.maxArray == 0 {
		a := k.run(ctx, k.times.check, k.o.Scontrol, "show", "config")
		if a.Err != nil {
			return 0, failed("server", "the controller does not answer: %w", a.Err)
		}
		limit, err := maxArraySize(string(a.Stdout))
		if err != nil {
			return 0, err
		}
		k.maxArray = limit
	}
	if k.o.MaxArray > 0 {
		return min(k.o.MaxArray, k.maxArray), nil
	}
	return k.maxArray, nil
}

// maxArraySize returns MaxArraySize from the configuration, or Slurm's default if it is missing.
func maxArraySize(config string) (int, error) {
	for line := range strings.Lines(config) {
		name, value, ok := strings.Cut(line, "=")
		if !ok || strings.TrimSpace(name) != "MaxArraySize" {
			continue
		}
		n, err := strconv.Atoi(strings.TrimSpace(value))
		if err == nil && n > 0 {
			return n, nil
		}
		if err == nil && n == 0 {
			return 0, errors.New("job arrays are disabled (MaxArraySize is 0 in slurm.conf)")
		}
		break
	}
	return 1001, nil
}

func (k *launcher) script() *batch.Script {
	return &batch.Script{Directives: k.o.Directives, Init: k.o.Init, Prefix: k.o.Prefix, Suffix: k.o.Suffix}
}

// validate returns an error that names all invalid options.
func (k *launcher) validate() error {
	var errs []error
	for _, n := range []struct {
		name  string
		value int
		zero  string
	}{
		{"CPUs", k.o.CPUs, "the system's default"},
		{"MaxArray", k.o.MaxArray, "the system's limit"},
		{"Throttle", k.o.Throttle, "all workers at once"},
	} {
		if n.value < 0 {
			errs = append(errs, fmt.Errorf("%s is %d, expected 0 (%s) or more", n.name, n.value, n.zero))
		}
	}
	errs = append(errs, k.script().Validate(refused))
	if k.o.Dir != "" {
		if info, err := os.Stat(k.o.Dir); err != nil {
			errs = append(errs, fmt.Errorf("option Dir: %w", err))
		} else if !info.IsDir() {
			errs = append(errs, fmt.Errorf("option Dir: %s is not a directory", k.o.Dir))
		}
	}
	return errors.Join(errs...)
}
