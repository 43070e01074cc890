package slurm

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"unicode"

	"leat/worker"
	"leat/worker/internal/batchsys"
)

// array is one job array of a fleet.
type array struct {
	id    string // as sbatch printed it: a number
	first int    // number of the worker that is its task 0
	tasks int
}

// Start submits the workers. On an error it cancels what was submitted. When ctx ends it returns within 4 s, of which an sbatch under way may take
// half to answer; what could not be cancelled in that time is named by the error.
func (k *Kind) Start(ctx context.Context, o worker.StartOptions) (worker.Fleet, error) {
	if err := errors.Join(k.validate(), validateStart(&o)); err != nil {
		return nil, err
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Gone == nil {
		o.Gone = func(worker.Exit) {}
	}
	limit, err := k.arrayLimit(ctx)
	if err != nil {
		return nil, err
	}
	arrays := (o.Workers + limit - 1) / limit
	if k.o.Throttle > 0 && k.o.Throttle < arrays {
		return nil, fmt.Errorf("slurm: Throttle is %d, but %d workers are %d job arrays here, of which each runs one worker at least: allow %d or more, or start fewer workers",
			k.o.Throttle, o.Workers, arrays, arrays)
	}
	f := newFleet(k, o)
	if err := f.prepare(); err != nil {
		return nil, errors.Join(err, f.removeFiles())
	}
	for i, first := 0, 0; i < arrays; i++ {
		n := min(limit, o.Workers-first)
		throttle := k.o.Throttle / arrays
		if i < k.o.Throttle%arrays {
			throttle++
		}
		if err := f.submit(ctx, o.First+first, n, throttle); err != nil {
			// The run may be ending: what has been submitted must go all the same.
			calm, done := batchsys.Patient(ctx, k.times.grace)
			defer done()
			end, stop := context.WithTimeout(calm, k.times.command)
			defer stop()
			return nil, errors.Join(err, f.Stop(end))
		}
		first += n
	}
	f.begin()
	return f, nil
}

func validateStart(o *worker.StartOptions) error {
	var errs []error
	if o.Workers < 1 {
		errs = append(errs, fmt.Errorf("slurm: Workers is %d: it must be 1 or more", o.Workers))
	}
	if o.First < 0 {
		errs = append(errs, fmt.Errorf("slurm: First is %d: it must be 0 or more", o.First))
	}
	if o.Run == "" || strings.ContainsFunc(o.Run, func(r rune) bool { return r > 'z' || r != '-' && !unicode.IsLetter(r) && !unicode.IsDigit(r) }) {
		errs = append(errs, fmt.Errorf("slurm: Run is %q: it must be a word of letters, digits and dashes that tells the run's jobs from others", o.Run))
	}
	if len(o.Command) == 0 || !filepath.IsAbs(o.Command[0]) {
		errs = append(errs, fmt.Errorf("slurm: Command is %q: it must begin with the absolute path of a program", o.Command))
	}
	for _, w := range o.Command {
		if strings.ContainsRune(w, 0) {
			errs = append(errs, fmt.Errorf("slurm: Command has %q: a zero byte can't be in a script", w))
		}
	}
	if o.Invitation.IsZero() {
		errs = append(errs, errors.New("slurm: Invitation is empty: workers would not find the run"))
	}
	if o.Folder != "" && !filepath.IsAbs(o.Folder) {
		errs = append(errs, fmt.Errorf("slurm: Folder is %q: it must be an absolute path, the same on all nodes", o.Folder))
	}
	return errors.Join(errs...)
}

// prepare puts the secret where workers find it.
func (f *fleet) prepare() error {
	text, err := f.o.Invitation.MarshalText()
	if err != nil {
		return fmt.Errorf("slurm: the invitation: %w", err)
	}
	f.folder = f.o.Folder
	if f.folder == "" && f.k.o.Folder != "" {
		parent, err := filepath.Abs(f.k.o.Folder)
		if err != nil {
			return fmt.Errorf("slurm: Folder: %w", err)
		}
		if f.folder, err = os.MkdirTemp(parent, "leat-"+f.o.Run+"-"); err != nil { // of mode 0700
			return fmt.Errorf("slurm: a folder for the workers: %w", err)
		}
		f.ownFolder = f.folder
	}
	f.env = environment()
	if strings.ContainsAny(f.folder, "\\\r\n") {
		return fmt.Errorf("slurm: Folder is %q: Slurm can't write logs to a path with a backslash or a line break", f.folder)
	}
	if f.folder == "" {
		f.env = append(f.env, worker.EnvInvitation+"="+string(text))
		return nil
	}
	s, err := os.CreateTemp(f.folder, "slurm-*.invitation") // of mode 0600
	if err != nil {
		return fmt.Errorf("slurm: the secret of the run: %w", err)
	}
	f.secret = s.Name()
	_, err = s.Write(text)
	if err = errors.Join(err, s.Close()); err != nil {
		return fmt.Errorf("slurm: the secret of the run: %w", err)
	}
	return nil
}

// removeFiles removes what prepare made.
func (f *fleet) removeFiles() error {
	var err error
	if f.secret != "" {
		if e := os.Remove(f.secret); e != nil && !errors.Is(e, fs.ErrNotExist) {
			err = fmt.Errorf("slurm: the secret of the run: %w", e)
		}
	}
	if f.ownFolder != "" {
		if e := os.RemoveAll(f.ownFolder); e != nil {
			err = errors.Join(err, fmt.Errorf("slurm: the folder of the workers: %w", e))
		}
	}
	return err
}

// submit submits one array of n workers, the first of which has number first.
func (f *fleet) submit(ctx context.Context, first, n, throttle int) error {
	if ctx.Err() != nil {
		return fmt.Errorf("slurm: not all workers were submitted: %w", context.Cause(ctx))
	}
	// Without the job's number nobody could cancel the job.
	calm, stop := batchsys.Patient(ctx, f.k.times.answer)
	defer stop()
	a := batchsys.Program{Path: f.k.o.Sbatch, Args: f.arguments(n, throttle), Stdin: f.script(first), Env: f.env}.Run(calm, f.k.times.command)
	id, cluster, ok := jobNumber(string(a.Stdout))
	if ok {
		f.arrays = append(f.arrays, array{id, first, n})
		for i := range n {
			f.live[task{id, i}] = first + i
		}
		if len(f.arrays) > 1 && cluster != f.cluster {
			return fmt.Errorf("slurm: job arrays of one run went to two clusters, %q and %q: name one (-M)", f.cluster, cluster)
		}
		f.cluster = cluster
	} else {
		f.unsure = true
	}
	switch {
	case a.Err != nil:
		return fmt.Errorf("slurm: a job of %d workers was not taken: %w", n, a.Err)
	case !ok:
		return fmt.Errorf("slurm: sbatch answered %q where the job's number was expected%s", batchsys.Tail(string(a.Stdout), 200), when(a.Stderr != "", ", and said: "+batchsys.Tail(a.Stderr, batchsys.EndOfLog)))
	case a.Stderr != "":
		f.o.Logger.Info("slurm: sbatch says", "job", id, "text", a.Stderr)
	}
	return nil
}

func when(c bool, s string) string {
	if c {
		return s
	}
	return ""
}

// jobNumber reads what sbatch --parsable prints: the number, and the cluster's name where one was asked for. Sites make sbatch print more lines.
func jobNumber(out string) (id, cluster string, ok bool) {
	lines := strings.Split(strings.TrimSpace(out), "\n")
	id, cluster, _ = strings.Cut(strings.TrimSpace(lines[len(lines)-1]), ";")
	_, err := strconv.ParseUint(id, 10, 32)
	return id, cluster, err == nil
}

// jobName tells the jobs of this start from all others, also of the same run: jobs whose number is not known are cancelled by it.
func (f *fleet) jobName() string { return "leat-" + f.o.Run + "-" + f.word }

// arguments are those of sbatch; the user's come first, since the last ones count.
func (f *fleet) arguments(n, throttle int) []string {
	tasks := fmt.Sprintf("0-%d", n-1)
	if throttle > 0 {
		tasks += fmt.Sprintf("%%%d", throttle)
	}
	a := append([]string(nil), f.k.o.Extra...)
	a = append(a, "--parsable", "--job-name="+f.jobName(), "--array="+tasks, "--export=ALL", "--no-requeue")
	if f.k.o.CPUs > 0 {
		a = append(a, "--cpus-per-task="+strconv.Itoa(f.k.o.CPUs))
	}
	log := os.DevNull
	if f.folder != "" {
		log = strings.ReplaceAll(logFile(f.folder, "\x00A", "\x00a"), "%", "%%")
		log = strings.ReplaceAll(log, "\x00", "%")
	}
	return append(a, "--output="+log)
}

// logFile is where a task writes.
func logFile(folder, job, task string) string {
	return filepath.Join(folder, "slurm-"+job+"_"+task+".log")
}

// script is what each task runs. It is bash, since module and conda are functions of that. The variables stand before the user's commands,
// whose first lines sbatch would take for options otherwise when they begin with #SBATCH.
func (f *fleet) script(first int) string {
	var b strings.Builder
	line := func(format string, a ...any) { fmt.Fprintf(&b, format+"\n", a...) }
	line("#!/bin/bash")
	line(`export %s=%s-$((%d + SLURM_ARRAY_TASK_ID))`, worker.EnvName, Name, first)
	// A node without control groups shows a worker all its cores; these are what the job was given.
	line(`export %s=${SLURM_CPUS_PER_TASK:-${SLURM_CPUS_ON_NODE:-1}}`, worker.EnvSlots)
	line(`export GOMAXPROCS=${GOMAXPROCS:-$%s}`, worker.EnvSlots)
	if f.secret != "" {
		line("export %s=%s", worker.EnvFile, quote(f.secret))
	}
	for _, l := range f.k.o.Init {
		line("%s", l)
	}
	words := append([]string(nil), f.k.o.Prefix...)
	for _, w := range f.o.Command {
		words = append(words, quote(w))
	}
	line("%s", strings.Join(append(words, f.k.o.Suffix...), " "))
	return b.String()
}

// quote makes one word of the shell.
func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }
