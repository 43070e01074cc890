// Package pbs starts workers as job arrays of OpenPBS or PBS Professional with qsub, qstat and qdel
// (and qselect, if qsub's output was lost). It provides a [worker.Launcher].
//
// n workers are a job array of n subjobs named leat-RUN (one worker is a plain job; several arrays
// if the server's limit is lower). Each subjob runs a small shell script from qsub's standard
// input: it redirects output to NAME.log in the run's directory, runs the user's initial commands,
// and then the worker. The endpoint's secret is in a file of mode 0600 in that directory, which all
// nodes must be able to read; see [Options].InsecureSecret for sites without such a directory.
//
// qstat is queried for the states of the jobs, at first every 0.2 s, then less often, down to every
// 5 s. If the server keeps a history of jobs, a job's state shows its end. Otherwise a job has
// ended when two queries in a row call it unknown, and its exit status is the one that the script
// wrote to the directory.
//
// Limits: a subjob that the server restarts after a node failure may join again under the same
// name. A job that can't be deleted because its node is lost remains until an operator uses
// qdel -W force. Torque and Grid Engine have programs of the same names and are refused.
package pbs

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"leat/worker"
	"leat/worker/internal/batch"
)

// launcherName is the launcher's name.
const launcherName = "pbs"

// Options configures a launcher. The zero value works.
type Options struct {
	// Qsub, Qstat and Qdel are the programs, by name or path; "": these names in PATH.
	Qsub, Qstat, Qdel string
	// Directives are more options of qsub, written as on the #PBS lines of a job script: "-q short
	// -l walltime=1:00:00". The options that the launcher sets itself (-J, -N, -o, -j, -k, -S, -r)
	// override them. Options with which qsub prints no identifier or waits (-z, -I, -W block) are
	// refused, and -v with InsecureSecret.
	Directives []string
	// Init are shell lines that each job runs before its worker: "module load gdal". The worker is
	// started even if one fails, unless the line prevents that: "module load gdal || exit 1".
	Init []string
	// Prefix and Suffix are shell words before and after the worker's command; quotes and variables
	// are interpreted by the shell: "apptainer", "exec", "$HOME/image.sif".
	Prefix, Suffix []string
	// CPUs is the number of CPUs per worker (-l select=1:ncpus=CPUs), which is also its number of
	// slots; 0: that of Directives, or the system's default.
	CPUs int
	// MaxArray bounds the subjobs of a job array; 0: the server's limit (max_array_size).
	MaxArray int
	// Throttle bounds how many workers of one start run at once; 0: all. It is divided among the
	// arrays if there are several, and needs OpenPBS 20 or PBS Professional 2020.
	Throttle int
	// InsecureSecret passes the secret in a variable of the job (qsub -v) if no directory is shared
	// with the nodes. Users who may see the job with qstat -f can read it there and pose as a
	// worker.
	InsecureSecret bool
}

// launcher starts workers with PBS.
type launcher struct {
	o     Options
	times times
}

// times holds timeouts, which are shorter in tests.
type times struct {
	first, longest time.Duration // between queries
	command        time.Duration // one run of a program
	// from the end of a context: to finish running programs and delete what was submitted
	grace time.Duration
}

func (t times) pace() batch.Pace { return batch.Pace{First: t.first, Longest: t.longest} }

var usual = times{
	first: 200 * time.Millisecond, longest: 5 * time.Second,
	// A busy server takes half a minute to answer; its programs retry.
	command: time.Minute,
	grace:   4 * time.Second,
}

// New returns a launcher; nil means defaults. Check and Start report invalid options.
func New(o *Options) worker.Launcher { return newLauncher(o) }

func newLauncher(o *Options) *launcher {
	k := &launcher{times: usual}
	if o != nil {
		k.o = *o
	}
	return k
}

// Name returns "pbs".
func (k *launcher) Name() string { return launcherName }

// Capabilities reports that jobs may compute one block each, and need the shared directory unless
// InsecureSecret is set.
func (k *launcher) Capabilities() worker.Capabilities {
	return worker.Capabilities{OneBlockPerJob: true, SharedDir: !k.o.InsecureSecret}
}

// Check returns an error if options are invalid, programs are missing, or the server does not
// answer.
func (k *launcher) Check(ctx context.Context) error {
	if err := k.o.validate(); err != nil {
		return err
	}
	for _, p := range []string{"qsub", "qstat", "qdel"} {
		if _, err := exec.LookPath(k.o.program(p)); err != nil {
			return failed("program", "%s: not found in PATH", k.o.program(p))
		}
	}
	ctx, stop := context.WithTimeout(ctx, 10*time.Second)
	defer stop()
	_, err := k.server(ctx)
	return err
}

// failed returns an error about the system.
func failed(code, format string, a ...any) error {
	return &worker.BatchError{Kind: launcherName, Code: code, Err: fmt.Errorf(format, a...)}
}

// program returns the name or path of a program of PBS. If Qsub is a path, qselect is first looked
// up in the same directory.
func (o *Options) program(p string) string {
	if named := map[string]string{"qsub": o.Qsub, "qstat": o.Qstat, "qdel": o.Qdel}[p]; named != "" {
		return named
	}
	if p == "qselect" && strings.ContainsRune(o.Qsub, filepath.Separator) {
		if sibling := filepath.Join(filepath.Dir(o.Qsub), p); isFile(sibling) {
			return sibling
		}
	}
	return p
}

func isFile(path string) bool {
	i, err := os.Stat(path)
	return err == nil && i.Mode().IsRegular()
}

func (o *Options) validate() error {
	var errs []error
	for name, n := range map[string]int{"CPUs": o.CPUs, "MaxArray": o.MaxArray, "Throttle": o.Throttle} {
		if n < 0 {
			errs = append(errs, fmt.Errorf("%s is %d, expected 0 (the system's default) or more", name, n))
		}
	}
	return errors.Join(append(errs, o.script().Validate(o.refused))...)
}

func (o *Options) script() *batch.Script {
	return &batch.Script{Directives: o.Directives, Init: o.Init, Prefix: o.Prefix, Suffix: o.Suffix}
}

// refused returns why a word of the user's directives is refused; "": it is not.
func (o *Options) refused(word string) string {
	switch {
	case word == "-I":
		return "workers are not interactive"
	case word == "-z":
		return "qsub must print the job's identifier"
	case strings.HasPrefix(strings.TrimPrefix(word, "-W"), "block=") || strings.Contains(word, ",block="):
		return "qsub would not return before the workers end"
	case o.InsecureSecret && strings.HasPrefix(word, "-v"):
		return "InsecureSecret needs it; lines of Init can set variables"
	}
	return ""
}

// server queries the server's attributes.
func (k *launcher) server(ctx context.Context) (*listing, error) {
	r := k.run(ctx, "qstat", "-B", "-f", "-F", "json")
	if l := parse(r.Stdout); l.isServer {
		return l, nil
	}
	if r.Err != nil && ctx.Err() == nil && (strings.Contains(r.Stderr, "usage") || strings.Contains(r.Stderr,
		"invalid option")) {
		return nil, failed("server", "this qstat has no -F json, expected that of OpenPBS or PBS Professional 14 or newer: %w", r.Err)
	}
	if r.Err != nil {
		return nil, failed("server", "the server does not answer: %w", r.Err)
	}
	return nil, failed("server", "qstat -B -f -F json printed no server, expected OpenPBS or PBS Professional 14 or newer")
}
