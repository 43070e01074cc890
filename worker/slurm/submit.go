package slurm

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"leat/worker"
	"leat/worker/internal/batch"
)

// array is one job array of a fleet.
type array struct {
	id    string // as printed by sbatch: a number
	first int    // number of the worker that is its task 0
	tasks int
}

// Start submits the workers. On an error it cancels what was submitted. When ctx is done, it
// returns within 4 s and gives a running sbatch 2 s to finish; the error names what could not
// be canceled in that time.
func (k *launcher) Start(ctx context.Context, o worker.StartOptions) (worker.Fleet, error) {
	if err := errors.Join(k.validate(), validateStart(&o)); err != nil {
		return nil, err
	}
	limit, err := k.arrayLimit(ctx)
	if err != nil {
		return nil, err
	}
	arrays := (o.Workers + limit - 1) / limit
	if k.o.Throttle > 0 && k.o.Throttle < arrays {
		return nil, fmt.Errorf("option Throttle is %d, but %d workers need %d job arrays, each of which runs at least one worker: expected %d or more",
			k.o.Throttle, o.Workers, arrays, arrays)
	}
	f := newFleet(k, o)
	if err := f.prepare(); err != nil {
		return nil, errors.Join(err, f.Cleanup())
	}
	for i, first := 0, 0; i < arrays; i++ {
		n := min(limit, o.Workers-first)
		throttle := k.o.Throttle / arrays
		if i < k.o.Throttle%arrays {
			throttle++
		}
		if err := f.submit(ctx, o.First+first, n, throttle); err != nil {
			// Cancel what was submitted even if ctx is done.
			extended, done := batch.Extend(ctx, k.times.grace)
			defer done()
			end, stop := context.WithTimeout(extended, k.times.command)
			defer stop()
			return nil, errors.Join(err, f.Stop(end))
		}
		first += n
	}
	f.Watch()
	return f, nil
}

func validateStart(o *worker.StartOptions) error {
	var dir error
	if o.Dir != "" && !filepath.IsAbs(o.Dir) {
		dir = fmt.Errorf("option Dir is %q, expected an absolute path", o.Dir)
	}
	return errors.Join(batch.ValidateStart(o), dir)
}

// prepare stores the secret where workers find it.
func (f *fleet) prepare() error {
	text, err := f.o.Endpoint.MarshalText()
	if err != nil {
		return fmt.Errorf("encoding endpoint: %w", err)
	}
	f.dir = f.o.Dir
	if f.dir == "" && f.k.o.Dir != "" {
		parent, err := filepath.Abs(f.k.o.Dir)
		if err != nil {
			return fmt.Errorf("option Dir: %w", err)
		}
		if f.dir, err = os.MkdirTemp(parent, "leat-"+f.o.RunID+"-"); err != nil { // mode 0700
			return fmt.Errorf("creating directory: %w", err)
		}
		f.ownDir = f.dir
	}
	f.env = environment()
	if strings.ContainsAny(f.dir, "\\\r\n") {
		return fmt.Errorf("option Dir is %q: Slurm can't write logs to a path with a backslash or a line break",
			f.dir)
	}
	if f.dir == "" {
		f.env = append(f.env, worker.EnvEndpoint+"="+string(text))
		return nil
	}
	f.secret, err = batch.WriteSecret(f.dir, launcherName, text)
	return err
}

// Cleanup removes what prepare created.
func (f *fleet) Cleanup() error {
	err := batch.RemoveSecret(f.secret)
	if f.ownDir != "" {
		if e := os.RemoveAll(f.ownDir); e != nil {
			err = errors.Join(err, fmt.Errorf("removing directory: %w", e))
		}
	}
	return err
}

// submit submits one array of n workers, the first of which has number first.
func (f *fleet) submit(ctx context.Context, first, n, throttle int) error {
	if ctx.Err() != nil {
		return fmt.Errorf("not all workers submitted: %w", context.Cause(ctx))
	}
	// Without its number the job can't be canceled.
	extended, stop := batch.Extend(ctx, f.k.times.answer)
	defer stop()
	a := batch.Program{Path: f.k.o.Sbatch, Args: f.arguments(n, throttle), Stdin: f.script(first),
		Env: f.env}.Run(extended, f.k.times.command)
	id, cluster, ok := jobNumber(string(a.Stdout))
	if ok {
		f.arrays = append(f.arrays, array{id, first, n})
		for i := range n {
			f.live[task{id, i}] = first + i
		}
		if len(f.arrays) > 1 && cluster != f.cluster {
			return fmt.Errorf("job arrays of one run went to two clusters, %q and %q", f.cluster,
				cluster)
		}
		f.cluster = cluster
	} else {
		f.unsure = true
	}
	switch {
	case a.Err != nil:
		return fmt.Errorf("submitting a job of %d workers: %w", n, a.Err)
	case !ok:
		return fmt.Errorf("sbatch printed %q, expected the job's number%s",
			batch.Tail(string(a.Stdout), 200),
			when(a.Stderr != "", ", and "+batch.Tail(a.Stderr, batch.EndOfLog)))
	case a.Stderr != "":
		f.o.Logger.Info("sbatch printed a message", "job", id, "text", a.Stderr)
	}
	return nil
}

func when(c bool, s string) string {
	if c {
		return s
	}
	return ""
}

// jobNumber parses the output of sbatch --parsable: the number, and the cluster's name if one was
// requested. Some sites make sbatch print more lines before it.
func jobNumber(out string) (id, cluster string, ok bool) {
	lines := strings.Split(strings.TrimSpace(out), "\n")
	id, cluster, _ = strings.Cut(strings.TrimSpace(lines[len(lines)-1]), ";")
	_, err := strconv.ParseUint(id, 10, 32)
	return id, cluster, err == nil
}

// jobName returns a name unique to this start: jobs whose number is unknown are canceled by it.
func (f *fleet) jobName() string { return "leat-" + f.o.RunID + "-" + f.word }

// arguments returns sbatch's arguments, which override the user's directives in the script.
func (f *fleet) arguments(n, throttle int) []string {
	tasks := fmt.Sprintf("0-%d", n-1)
	if throttle > 0 {
		tasks += fmt.Sprintf("%%%d", throttle)
	}
	a := []string{"--parsable", "--job-name=" + f.jobName(), "--array=" + tasks, "--export=ALL", "--no-requeue"}
	if f.k.o.CPUs > 0 {
		a = append(a, "--cpus-per-task="+strconv.Itoa(f.k.o.CPUs))
	}
	log := os.DevNull
	if f.dir != "" {
		log = strings.ReplaceAll(logFile(f.dir, "\x00A", "\x00a"), "%", "%%")
		log = strings.ReplaceAll(log, "\x00", "%")
	}
	return append(a, "--output="+log, "--error="+log, "--input="+os.DevNull)
}

// logFile returns the path of a task's log.
func logFile(dir, job, task string) string {
	return filepath.Join(dir, "slurm-"+job+"_"+task+".log")
}

// script returns the script of each task. It is bash, because module and conda are bash functions.
func (f *fleet) script(first int) string {
	setup := []string{
		fmt.Sprintf("export %s=%s-$((%d + SLURM_ARRAY_TASK_ID))", worker.EnvName, launcherName, first),
		// Without control groups, a node shows a worker all its cores.
		"export " + worker.EnvSlots + "=${SLURM_CPUS_PER_TASK:-${SLURM_CPUS_ON_NODE:-1}}",
		"export GOMAXPROCS=${GOMAXPROCS:-$" + worker.EnvSlots + "}",
	}
	if f.secret != "" {
		setup = append(setup, "export "+worker.EnvFile+"="+batch.Quote(f.secret))
	}
	return strings.Join(f.k.script().Lines("/bin/bash", "#SBATCH", setup, f.o.Command), "\n") + "\n"
}
