package pbs

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"leat/worker"
	"leat/worker/internal/batch"
)

// defaultMaxArray is the limit assumed for servers that print none.
const defaultMaxArray = 10000

// Start submits the workers. On an error it deletes what was submitted.
func (k *launcher) Start(ctx context.Context, o worker.StartOptions) (worker.Fleet, error) {
	if err := errors.Join(k.o.validate(), k.validateStart(&o)); err != nil {
		return nil, err
	}
	env := environment()
	text, err := o.Endpoint.MarshalText()
	if err != nil {
		return nil, fmt.Errorf("encoding endpoint: %w", err)
	}
	f := newFleet(k, o)
	if o.Dir == "" {
		env = append(env, secretVariable+"="+base64.StdEncoding.EncodeToString(text))
	} else if f.secret, err = batch.WriteSecret(o.Dir, launcherName, text); err != nil {
		return nil, err
	}
	// Delete what was submitted even if ctx is done.
	extended, stop := batch.Extend(ctx, k.times.grace)
	defer stop()
	if err := f.submitAll(ctx, env); err != nil {
		end, stop := context.WithTimeout(extended, k.times.command)
		defer stop()
		return nil, errors.Join(err, f.Stop(end))
	}
	f.Watch()
	return f, nil
}

func (k *launcher) validateStart(o *worker.StartOptions) error {
	err := batch.ValidateStart(o)
	switch {
	case o.Dir == "" && !k.o.InsecureSecret:
		err = errors.Join(err, errors.New("option Dir is empty, expected a directory that all nodes share: "+
			"without InsecureSecret the secret is only passed in a file"))
	case o.Dir != "":
		err = errors.Join(err, checkDir(o.Dir))
	}
	return err
}

func checkDir(dir string) error {
	i, err := os.Stat(dir)
	if err != nil {
		return fmt.Errorf("shared directory: %w", err)
	}
	switch {
	case !i.IsDir() || !filepath.IsAbs(dir):
		return fmt.Errorf("shared directory %s: expected the absolute path of a directory", dir)
	case strings.ContainsAny(dir, ":\n"):
		return fmt.Errorf("shared directory %q: qsub -o allows no colon or line break in the path", dir)
	case i.Mode().Perm()&0o077 != 0:
		return fmt.Errorf("shared directory %s has mode %04o, expected 0700",
			dir, i.Mode().Perm())
	}
	if s, ok := i.Sys().(*syscall.Stat_t); ok && int(s.Uid) != os.Geteuid() {
		return fmt.Errorf("shared directory %s belongs to user %d, expected %d", dir, s.Uid,
			os.Geteuid())
	}
	return nil
}

// submitAll submits the workers in as few arrays as the server allows.
func (f *fleet) submitAll(ctx context.Context, env []string) error {
	size := f.k.o.MaxArray
	if size == 0 {
		l, err := f.k.server(ctx)
		if err != nil {
			return err
		}
		if size = l.maxArray; size <= 0 {
			size = defaultMaxArray
		}
	}
	for n := 0; n < f.o.Workers; {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("not all workers submitted: %w", context.Cause(ctx))
		}
		take := min(size, f.o.Workers-n)
		name, err := f.submit(ctx, f.o.First+n, take, env)
		if errors.Is(err, errTooLarge) && take > 1 {
			size = (take + 1) / 2 // a limit of the queue, which the server's attributes don't show
			continue
		}
		if name != "" {
			f.add(name, n, take)
		} else if errors.Is(err, errLost) {
			f.unsure, f.lost = true, take
		}
		if err != nil {
			return err
		}
		n += take
	}
	return nil
}

var (
	errTooLarge = errors.New("array size exceeds the queue's limit")
	errLost     = errors.New("qsub printed no job identifier")
)

// submit submits one array of n workers, the first of which has number first. It returns the job's
// identifier as printed by qsub, possibly together with an error. Once ctx is done, a running qsub
// gets half of the grace period to print it; the other half is for deleting.
func (f *fleet) submit(ctx context.Context, first, n int, env []string) (string, error) {
	extended, stop := batch.Extend(ctx, f.k.times.grace/2)
	defer stop()
	r := batch.Program{Path: f.k.o.program("qsub"), Args: f.arguments(n), Stdin: f.script(first), Env: env}.Run(
		extended, f.k.times.command)
	name := lastID(r.Stdout)
	switch {
	case r.Err == nil && name == "":
		return "", fmt.Errorf("%w: %q", errLost, string(r.Stdout))
	case r.Err == nil:
		return name, nil
	case strings.Contains(r.Stderr, "size limit"):
		return name, fmt.Errorf("%w: %w", errTooLarge, r.Err)
	case r.Lost:
		return name, fmt.Errorf("%w before it was killed: %w", errLost, r.Err)
	}
	return name, fmt.Errorf("submitting a job of %d workers: %w", n, r.Err)
}

// lastID returns the last line that is a job's identifier, or "": sites make qsub print more.
func lastID(out []byte) string {
	lines := strings.Split(string(out), "\n")
	for i := len(lines) - 1; i >= 0; i-- {
		s := strings.TrimSpace(lines[i])
		if _, ok := parseID(s); ok {
			return s
		}
	}
	return ""
}

// arguments returns qsub's arguments for n workers, which override the user's directives. -C
// overrides PBS_DPREFIX. -f keeps qsub from leaving a process behind, which would hold the
// environment. -k n overrides a site default that keeps output on the nodes.
func (f *fleet) arguments(n int) []string {
	k, o := f.k, &f.o
	args := []string{"-f", "-C", directivePrefix, "-N", jobName(o), "-S", "/bin/sh", "-j", "oe", "-k", "n"}
	if k.o.CPUs > 0 {
		args = append(args, "-l", fmt.Sprintf("select=1:ncpus=%d", k.o.CPUs))
	}
	if n > 1 {
		indices := fmt.Sprintf("0-%d", n-1)
		if share := k.o.Throttle * n / o.Workers; k.o.Throttle > 0 && share < n {
			indices += fmt.Sprintf("%%%d", max(1, share))
		}
		args = append(args, "-r", "y", "-J", indices)
	} else {
		// An array is always rerunnable, a plain job need not be: its blocks go to other workers.
		args = append(args, "-r", "n")
	}
	if o.Dir != "" {
		// What PBS itself prints about a job, for example that it was killed after its time, goes
		// to ID.OU.
		return append(args, "-o", o.Dir+"/")
	}
	return append(args, "-o", os.DevNull, "-v", secretVariable)
}

// jobName returns a name that distinguishes the jobs of this start.
func jobName(o *worker.StartOptions) string {
	name := "leat-" + o.RunID
	if o.First > 0 {
		name += "-" + strconv.Itoa(o.First)
	}
	return name
}
