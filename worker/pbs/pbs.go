// Package pbs starts workers as job arrays of OpenPBS or PBS Professional, by qsub, qstat and qdel (and qselect, when the answer of qsub was lost).
//
// n workers are a job array of n subjobs (one worker is a plain job; more
// than the server allows in one array are several arrays), named leat-RUN. Each subjob runs a small shell script, which goes to qsub's standard input: it writes what the worker
// says to NAME.log in the run's folder, runs the user's initial commands and then the worker. The channel's secret goes by a file of mode 0600 in
// that folder, which all nodes must see; see [Options].InsecureSecret for sites that have no such folder.
//
// The states of the jobs are asked of qstat, at first every 0.2 s, then ever more seldom up to every 5 s. A job's end is known by its state where the server keeps a history of
// jobs, and by its absence from two complete listings elsewhere; then its exit status is the one that the script has left in the folder.
//
// What it does not promise: a subjob that the server runs again after a node was lost may join once more under the same name. A job that cannot be deleted
// because its node is lost stays until an operator uses qdel -W force; the error says so. Torque and Grid Engine have programs of the same names and are refused.
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
	"leat/worker/internal/batchsys"
)

// Name is the kind's name.
const Name = "pbs"

// Options say how jobs are submitted. The zero value is of use.
type Options struct {
	// Qsub, Qstat and Qdel are the programs, by name or path; "": those of these names in PATH.
	Qsub, Qstat, Qdel string
	// Extra are more options of qsub: "-q", "short", "-l", "walltime=1:00:00". Those that the kind
	// sets itself (-J, -N, -o, -e, -j, -k, -R, -S, -r) and those that it can't work with (-I, -z, -C, ...) are refused.
	Extra []string
	// Init are lines of shell that each job runs before its worker: "module load gdal". The worker is started even when one fails, unless
	// that line says otherwise: "module load gdal || exit 1".
	Init []string
	// Prefix and Suffix stand before and after the worker's command, as text of the shell: quotes and variables mean what they mean
	// there. "apptainer", "exec", "$HOME/image.sif".
	Prefix, Suffix []string
	// CPUs are asked for by each worker (-l select=1:ncpus=CPUs), which computes as many blocks at once; 0: what Extra or the system says.
	CPUs int
	// MaxArray is how many subjobs a job array has at most; 0: what the server allows (max_array_size).
	MaxArray int
	// Throttle is how many workers of one start may run at once; 0: all. It is shared out among the arrays where there are several, and needs OpenPBS 20 or PBS
	// Professional 2020.
	Throttle int
	// InsecureSecret lets the secret travel in a variable of the job (qsub -v) when there is no folder that all nodes see. Whoever may look at
	// the user's jobs by qstat -f can read it there, and can take the place of a worker.
	InsecureSecret bool
}

// Kind starts workers by PBS.
type Kind struct {
	o     Options
	times times
}

// times are shorter in tests.
type times struct {
	first, longest time.Duration // between looks
	command        time.Duration // one run of a program
	grace          time.Duration // from the end of a context: for what is under way, and for the deleting of what was submitted
}

func (t times) pace() batchsys.Pace { return batchsys.Pace{First: t.first, Longest: t.longest} }

var usual = times{
	first: 200 * time.Millisecond, longest: 5 * time.Second,
	// A busy server takes half a minute to answer; its programs try again by themselves.
	command: time.Minute,
	grace:   4 * time.Second,
}

var _ worker.Kind = (*Kind)(nil)

// New makes the kind; nil stands for the defaults. Options that can't be are reported by Check and Start.
func New(o *Options) *Kind {
	k := &Kind{times: usual}
	if o != nil {
		k.o = *o
	}
	return k
}

// Name returns "pbs".
func (k *Kind) Name() string { return Name }

// Facts tells that jobs need the shared folder, unless the secret may travel without.
func (k *Kind) Facts() worker.Facts {
	return worker.Facts{Single: true, SharedFolder: !k.o.InsecureSecret}
}

// Check looks for the programs, checks the options, and asks the server for a sign of life.
func (k *Kind) Check(ctx context.Context) error {
	if err := k.o.validate(); err != nil {
		return err
	}
	for _, p := range []string{"qsub", "qstat", "qdel"} {
		if _, err := exec.LookPath(k.o.program(p)); err != nil {
			return fmt.Errorf("pbs: %s: not found in PATH: load the site's PBS commands, or choose another kind of workers", k.o.program(p))
		}
	}
	ctx, stop := context.WithTimeout(ctx, 10*time.Second)
	defer stop()
	_, err := k.server(ctx)
	return err
}

// program is what a program of PBS is called here. Where qsub was named by its path, qselect is looked for beside it first.
func (o *Options) program(p string) string {
	if named := map[string]string{"qsub": o.Qsub, "qstat": o.Qstat, "qdel": o.Qdel}[p]; named != "" {
		return named
	}
	if p == "qselect" && strings.ContainsRune(o.Qsub, filepath.Separator) {
		if beside := filepath.Join(filepath.Dir(o.Qsub), p); isFile(beside) {
			return beside
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
			errs = append(errs, fmt.Errorf("pbs: %s is %d: it must be 0 (what the system says) or more", name, n))
		}
	}
	errs = append(errs, checkExtra(o.Extra, o.InsecureSecret, o.CPUs > 0))
	all := strings.Join(append(append(append([]string(nil), o.Prefix...), o.Suffix...), o.Init...), "")
	if strings.ContainsRune(all, 0) {
		errs = append(errs, errors.New("pbs: Init, Prefix and Suffix can't hold a zero byte"))
	}
	if strings.ContainsRune(strings.Join(append(append([]string(nil), o.Prefix...), o.Suffix...), ""), '\n') {
		errs = append(errs, errors.New("pbs: Prefix and Suffix stand on the line of the worker's command and can't hold a line break: put lines into Init"))
	}
	return errors.Join(errs...)
}

// server asks for the server's attributes.
func (k *Kind) server(ctx context.Context) (*listing, error) {
	r := k.run(ctx, "qstat", "-B", "-f", "-F", "json")
	if l := parse(r.Stdout); l.isServer {
		return l, nil
	}
	if r.Err != nil && ctx.Err() == nil && (strings.Contains(r.Stderr, "usage") || strings.Contains(r.Stderr, "invalid option")) {
		return nil, fmt.Errorf("pbs: this qstat does not know -F json: OpenPBS or PBS Professional 14 or newer is needed, Torque and Grid Engine are others (%w)", r.Err)
	}
	if r.Err != nil {
		return nil, fmt.Errorf("pbs: the server does not answer: %w", r.Err)
	}
	return nil, errors.New("pbs: qstat -B -f -F json told nothing of a server: OpenPBS or PBS Professional 14 or newer is needed")
}
