package main

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"leat/apply"
	"leat/worker"
	"leat/worker/awsbatch"
	"leat/worker/pbs"
	"leat/worker/slurm"
	"leat/worker/subprocess"
)

// workerFlags are the options for workers in other processes.
type workerFlags struct {
	on                  string
	workers, replace    int
	read, single, mixed bool
	noCopies            bool
	sharedTemp, listen  string
	barrier             time.Duration
	options             string
	init                []string
	cpus                int
	prefix, suffix      string
	insecure            bool
	aws                 awsbatch.Options
	awsVCPUs            float64

	set   *pflag.FlagSet // of the command, for which options are given
	valid bool           // Finalize has found nothing wrong
}

// kinds are what --on takes.
var kinds = []string{"subprocess", "slurm", "pbs", "awsbatch"}

// defaultBarrier is how long --barrier waits where it is not said.
const defaultBarrier = 10 * time.Minute

// AddFlags adds the options.
func (f *workerFlags) AddFlags(fl *pflag.FlagSet) {
	f.set = fl
	fl.StringVar(&f.on, "on", "", "`KIND`: compute in other processes: subprocess (of this machine), slurm, pbs or awsbatch")
	group(fl, "on", "Workers in other processes")
	fl.IntVar(&f.workers, "workers", 0, "`N`: how many of them to start")
	fl.IntVar(&f.replace, "replace-workers", 0,
		"`N`: how many an hour to start in place of workers that are lost (default: as many as --workers; 0: none)")
	fl.BoolVar(&f.read, "workers-read", false,
		"subprocesses read the inputs too, each its own blocks; on other machines they always do")
	fl.BoolVar(&f.single, "single-block-jobs", false, "a job for each block, on slurm and pbs: it takes one and ends")
	fl.StringVar(&f.sharedTemp, "shared-temp", "",
		"`DIR`: one that all workers can reach at this path, for the run's secret and their logs (default: that of the first output)")
	fl.StringVar(&f.listen, "listen", "",
		"`HOST[:PORT]`: where workers of other machines find this run (default: the addresses of this machine's name)")
	fl.BoolVar(&f.noCopies, "no-copies", false,
		"lease each block to one worker at a time: idle workers get no copies of the last blocks")
	fl.DurationVar(&f.barrier, "barrier", 0,
		"`TIME`: begin when all workers have joined, and fail if they have not after this time; alone: 10m")
	fl.Lookup("barrier").NoOptDefVal = defaultBarrier.String()
	fl.BoolVar(&f.mixed, "allow-mixed-builds", false,
		"take workers of other versions and architectures too: the outputs may differ in their last bits")
	fl.IntVar(&f.cpus, "cpus", 0, "`N`: cores that each job asks for; it computes as many blocks at once (default: what --batch-options or the system says)")
	fl.StringVar(&f.options, "batch-options", "", "`TEXT`: options for sbatch or qsub, written as in a job script, such as '-p short -t 1:00:00'")
	addList(fl, &f.init, "batch-init", "",
		"`COMMAND`: a line of shell to run before each worker, such as 'module load gdal'")
	fl.StringVar(&f.prefix, "batch-prefix", "",
		"`TEXT`: what precedes the worker's command, such as 'apptainer exec image.sif'")
	fl.StringVar(&f.suffix, "batch-suffix", "", "`TEXT`: what follows it")
	fl.BoolVar(&f.insecure, "pbs-secret-in-env", false,
		"pbs without a shared directory: pass the run's secret in a variable that everybody sees in qstat -f")
	a := &f.aws
	fl.StringVar(&a.Queue, "aws-queue", "", "`NAME`: job queue of AWS Batch, or its ARN")
	fl.StringVar(&a.Definition, "aws-definition", "", "`NAME`: job definition with leat in its image")
	fl.StringVar(&a.Image, "aws-image", "",
		"`IMAGE`: container image with leat in it; leat makes a job definition from it")
	fl.StringVar(&a.Program, "aws-program", "", "`PATH`: of leat in the image (default: the same as here)")
	fl.StringVar(&a.Secret, "aws-secret", "",
		"`NAME`: secretsmanager:NAME or ssm:NAME, where workers find the run's secret; it is written there")
	fl.Float64Var(&f.awsVCPUs, "aws-vcpus", 0, "`N`: of each worker (default: what the definition says, or 1)")
	fl.IntVar(&a.MemoryMiB, "aws-memory", 0, "`MIB`: of each worker (default: what the definition says, or 2048)")
	fl.StringVar(&a.JobRole, "aws-job-role", "", "`ARN`: role of the workers, with --aws-image")
	fl.StringVar(&a.ExecutionRole, "aws-execution-role", "", "`ARN`: role that starts them, with --aws-image")
	fl.BoolVar(&a.PublicIP, "aws-public-ip", false, "give workers on Fargate a public address, with --aws-image")
	fl.StringVar(&a.Endpoint, "aws-endpoint", "",
		"`URL`: a server that stands in for AWS Batch and its stores of secrets")
}

// only names, by kind, the options that are for some kinds alone.
var only = map[string][]string{
	"workers-read": {"subprocess"}, "single-block-jobs": {"slurm", "pbs"}, "shared-temp": {"slurm", "pbs"},
	"listen": {"slurm", "pbs", "awsbatch"},
	"cpus":   {"slurm", "pbs"}, "batch-options": {"slurm", "pbs"}, "batch-init": {"slurm", "pbs"},
	"batch-prefix": {"slurm", "pbs"}, "batch-suffix": {"slurm", "pbs"},
	"pbs-secret-in-env": {"pbs"}, "allow-mixed-builds": {"slurm", "pbs", "awsbatch"},
}

// Finalize checks the options, which need --on.
func (f *workerFlags) Finalize() error {
	err := f.finalize()
	f.valid = err == nil
	return err
}

func (f *workerFlags) finalize() error {
	if f.on == "" {
		return f.checkNoneGiven()
	}
	if !slices.Contains(kinds, f.on) {
		return fmt.Errorf("--on %s: %w", f.on, unknownWord(f.on, kinds))
	}
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	for n, of := range only {
		if f.set.Changed(n) && !slices.Contains(of, f.on) {
			bad("--%s is for %s, not for %s", n, strings.Join(of, " and "), f.on)
		}
	}
	f.set.VisitAll(func(g *pflag.Flag) {
		if strings.HasPrefix(g.Name, "aws-") && g.Changed && f.on != "awsbatch" {
			bad("--%s is for awsbatch, not for %s", g.Name, f.on)
		}
	})
	if g := f.set.Lookup("jobs"); g != nil && g.Changed {
		bad("-j %s is for workers of this process: with --on %s say --workers", g.Value, f.on)
	}
	if f.set.Changed("workers") && f.workers < 1 {
		bad("--workers %d: use 1 or more", f.workers)
	}
	if f.replace < 0 {
		bad("--replace-workers %d: use 0 or more", f.replace)
	}
	if f.set.Changed("cpus") && f.cpus < 1 {
		bad("--cpus %d: use 1 or more", f.cpus)
	}
	if f.on == "awsbatch" {
		for _, need := range []struct{ value, text string }{
			{f.aws.Queue, "--aws-queue NAME: the job queue"},
			{f.aws.Definition + f.aws.Image, "--aws-definition NAME or --aws-image IMAGE: what workers run"},
			{f.aws.Secret, "--aws-secret secretsmanager:NAME or ssm:NAME: where workers find the run's secret"},
		} {
			if need.value == "" {
				bad("--on awsbatch needs %s", need.text)
			}
		}
	}
	slices.SortFunc(errs, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return errors.Join(errs...)
}

// checkNoneGiven returns an error if options of workers in other processes are given, which there
// are none of.
func (f *workerFlags) checkNoneGiven() error {
	var given []string
	f.set.VisitAll(func(g *pflag.Flag) {
		_, of := only[g.Name]
		if g.Changed && (of || strings.HasPrefix(g.Name, "aws-") ||
			slices.Contains([]string{"workers", "replace-workers", "no-copies", "barrier"}, g.Name)) {
			given = append(given, "--"+g.Name)
		}
	})
	if len(given) == 0 {
		return nil
	}
	slices.Sort(given)
	return fmt.Errorf("%s: that is for workers in other processes, whose kind --on names (%s); those of this process are counted by -j",
		strings.Join(given, ", "), strings.Join(kinds, ", "))
}

// concurrency turns the options into the job's. Finalize has found nothing wrong with them.
func (f *applyFlags) concurrency() (apply.Concurrency, error) {
	c := apply.Concurrency{Workers: max(0, f.workers), Readers: max(0, f.readers)}
	w := &f.remote
	if w.on == "" {
		return c, nil
	}
	program, err := os.Executable()
	if err != nil {
		return c, fmt.Errorf("leat's own file, which workers are to run, can't be found: %w", err)
	}
	c.Workers, c.OneBlockPerJob, c.SharedTemp, c.Listen, c.Barrier, c.AllowMixedBuilds = w.workers, w.single,
		w.sharedTemp, w.listen, w.barrier, w.mixed
	c.ReplaceWorkers, c.NoCopies = w.replace, w.noCopies
	if w.set.Changed("replace-workers") && w.replace == 0 {
		c.ReplaceWorkers = -1
	}
	c.Command, c.WorkerConfig = []string{program, "worker"}, f.stores.site()
	if w.read {
		c.Reading = apply.ReadByWorkers
	}
	c.On = w.kind(f.stores.region)
	return c, nil
}

// kind returns the launcher that --on names.
func (w *workerFlags) kind(region string) worker.Launcher {
	var directives, prefix, suffix []string
	if w.options != "" {
		directives = []string{w.options}
	}
	if w.prefix != "" {
		prefix = []string{w.prefix}
	}
	if w.suffix != "" {
		suffix = []string{w.suffix}
	}
	switch w.on {
	case "slurm":
		return slurm.New(&slurm.Options{Directives: directives, Init: w.init, Prefix: prefix, Suffix: suffix,
			CPUs: w.cpus})
	case "pbs":
		return pbs.New(&pbs.Options{Directives: directives, Init: w.init, Prefix: prefix, Suffix: suffix, CPUs: w.cpus,
			InsecureSecret: w.insecure})
	case "awsbatch":
		o := w.aws
		o.VCPUs, o.Region = w.awsVCPUs, region
		return awsbatch.New(&o)
	}
	return subprocess.New(&subprocess.Options{Output: os.Stderr})
}
