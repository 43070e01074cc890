// Package slurm starts workers as job arrays of Slurm, by sbatch, squeue, scancel and scontrol: a [worker.Kind] for clusters.
//
// n workers are the tasks 0 to n-1 of a job array named leat-RUN-WORD, the word being that start's own (more than the system allows in one array are several arrays). Each runs a small
// script, which goes to sbatch's standard input: it works out the worker's name from SLURM_ARRAY_TASK_ID, runs the user's initial commands, and then
// the worker with as many slots as the job was given CPUs. What a worker writes is kept in the run's folder, and its end goes into the error.
//
// The secret that leads workers to the channel goes by a file of mode 0600 in the run's folder where there is one: it is then nowhere in Slurm. Without
// a folder it travels in the environment of sbatch, which Slurm hands on to the job. That environment is kept from other users: it is no part of
// scontrol show job nor of any command line, and Slurm stores it in files that only its own user and the job's user can read. But Slurm sends it over the
// network as it sends all else, and sites may keep it in their accounting (AccountingStoreFlags=job_env). Workers always get the whole environment of
// the submitter (--export=ALL): with any smaller set Slurm runs a login shell on the node first, which takes a second at best and puts the job on hold at worst.
//
// The states of the jobs are asked of squeue, at first every 0.2 s, then ever more seldom up to every 5 s.
//
// What it does not promise: to be quicker than the cluster's scheduler, which by default looks at new batch jobs every 3 s
// (SchedulerParameters=batch_sched_delay); and to end at once what does not heed SIGTERM: Slurm kills that KillWait (30 s by default) later.
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
)

// Name is the kind's name.
const Name = "slurm"

// Options say how jobs are submitted. The zero value is of use.
type Options struct {
	// Sbatch, Squeue, Scancel and Scontrol are the programs, by name or path; "": those of these names in PATH.
	Sbatch, Squeue, Scancel, Scontrol string
	// Extra are more options of sbatch: "-p", "short", "--time=1:00:00". Those that the kind sets itself (--array, --output, --export, ...) and
	// those that it can't work with (--wait, --test-only, ...) are refused.
	Extra []string
	// Init are lines of bash that each job runs before its worker: "module load gdal". The worker is started even when one fails, unless
	// that line says otherwise: "module load gdal || exit 1".
	Init []string
	// Prefix and Suffix stand before and after the worker's command, as text of the shell: quotes and variables mean what they mean
	// there. "apptainer", "exec", "$HOME/image.sif".
	Prefix, Suffix []string
	// CPUs are asked for by each worker (--cpus-per-task), which computes as many blocks at once; 0: what Extra or the system says.
	CPUs int
	// MaxArray is how many tasks a job array has at most; 0: what the system allows (MaxArraySize).
	MaxArray int
	// Throttle is how many workers of one start may run at once; 0: all. It is shared out among the arrays where there are several.
	Throttle int
	// Folder is an existing folder that the nodes can reach at the same path, for runs without one of their own (worker.StartOptions.Folder). A folder
	// within it holds the secret and the logs while the workers live. "": without a run's folder, workers leave no logs.
	Folder string
}

// Kind starts workers by Slurm.
type Kind struct {
	o     Options
	times times

	mu       sync.Mutex
	maxArray int // as scontrol tells; 0: not asked yet
}

// times are shorter in tests.
type times struct {
	first, longest time.Duration // between looks at the queue
	command        time.Duration // one run of a program
	check          time.Duration // the controller's answer
	answer         time.Duration // that an sbatch under way is given to answer when the start is called off
	grace          time.Duration // in which a start that is called off returns; for a Stop whose time is over before it begins
	pending        time.Duration // after which it is told why workers don't start
}

var usual = times{
	first: 200 * time.Millisecond, longest: 5 * time.Second,
	// Slurm's programs try again by themselves when the controller is busy, for tens of seconds.
	command: time.Minute,
	check:   15 * time.Second,
	answer:  2 * time.Second,
	grace:   4 * time.Second,
	pending: 10 * time.Second,
}

var _ worker.Kind = (*Kind)(nil)

// New makes the kind; nil stands for the defaults. Options that can't be are reported by Check and Start.
func New(o *Options) *Kind {
	k := &Kind{times: usual}
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
func (k *Kind) Name() string { return Name }

// Facts tells that workers are elsewhere, may have one block each, and need no shared folder.
func (k *Kind) Facts() worker.Facts { return worker.Facts{Single: true} }

// Check reports all options that can't be, programs that are missing, and a controller that does not answer.
func (k *Kind) Check(ctx context.Context) error {
	if err := k.validate(); err != nil {
		return err
	}
	for _, p := range []string{k.o.Sbatch, k.o.Squeue, k.o.Scancel, k.o.Scontrol} {
		if _, err := exec.LookPath(p); err != nil {
			if errors.Is(err, exec.ErrNotFound) && !strings.Contains(p, "/") {
				return fmt.Errorf("%s: not found in PATH: Slurm's client programs are needed (Debian: slurm-client)", p)
			}
			return fmt.Errorf("slurm: %w: Slurm's client programs are needed (Debian: slurm-client)", err)
		}
	}
	_, err := k.arrayLimit(ctx)
	return err
}

// arrayLimit is how many tasks an array may have. To know it takes an answer of the controller, whatever the options say.
func (k *Kind) arrayLimit(ctx context.Context) (int, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.maxArray == 0 {
		a := k.run(ctx, k.times.check, k.o.Scontrol, "show", "config")
		if a.Err != nil {
			return 0, fmt.Errorf("slurm: the controller does not answer: %w: is slurmctld running, and does SLURM_CONF name its configuration?", a.Err)
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

// maxArraySize finds MaxArraySize in the configuration; Slurm's default stands in where it is missing.
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
			return 0, errors.New("slurm: job arrays are switched off here (MaxArraySize is 0 in slurm.conf): workers can't be started")
		}
		break
	}
	return 1001, nil
}

// validate reports all wrong options.
func (k *Kind) validate() error {
	var errs []error
	for _, n := range []struct {
		name  string
		value int
		zero  string
	}{
		{"CPUs", k.o.CPUs, "what the system gives"},
		{"MaxArray", k.o.MaxArray, "what the system allows"},
		{"Throttle", k.o.Throttle, "all workers at once"},
	} {
		if n.value < 0 {
			errs = append(errs, fmt.Errorf("slurm: %s is %d: it must be 0 (%s) or more", n.name, n.value, n.zero))
		}
	}
	errs = append(errs, checkExtra(k.o.Extra, k.o.CPUs > 0))
	for _, l := range []struct {
		name  string
		words []string
	}{{"Init", k.o.Init}, {"Prefix", k.o.Prefix}, {"Suffix", k.o.Suffix}} {
		for _, w := range l.words {
			if strings.ContainsRune(w, 0) || l.name != "Init" && strings.ContainsAny(w, "\r\n") {
				errs = append(errs, fmt.Errorf("slurm: %s has %q: zero bytes, and line breaks elsewhere than in Init, can't be in a script", l.name, w))
			}
		}
	}
	if k.o.Folder != "" {
		if info, err := os.Stat(k.o.Folder); err != nil {
			errs = append(errs, fmt.Errorf("slurm: Folder: %w", err))
		} else if !info.IsDir() {
			errs = append(errs, fmt.Errorf("slurm: Folder: %s is not a folder", k.o.Folder))
		}
	}
	return errors.Join(errs...)
}
