package pbs

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"leat/worker"
	"leat/worker/internal/batchsys"
)

// defaultMaxArray is what a server allows that does not say.
const defaultMaxArray = 10000

// Start submits the workers. On an error it deletes what was submitted.
func (k *Kind) Start(ctx context.Context, o worker.StartOptions) (worker.Fleet, error) {
	if err := errors.Join(k.o.validate(), k.validateStart(&o)); err != nil {
		return nil, err
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Gone == nil {
		o.Gone = func(worker.Exit) {}
	}
	env := environment()
	text, err := o.Invitation.MarshalText()
	if err != nil {
		return nil, fmt.Errorf("pbs: the invitation: %w", err)
	}
	if o.Folder == "" {
		env = append(env, secretVariable+"="+base64.StdEncoding.EncodeToString(text))
	} else if err := writeSecret(&o, text); err != nil {
		return nil, err
	}
	f := newFleet(k, o)
	// The run may be ending: what has been submitted must go all the same.
	calm, stop := batchsys.Patient(ctx, k.times.grace)
	defer stop()
	if err := f.submitAll(ctx, env); err != nil {
		end, stop := context.WithTimeout(calm, k.times.command)
		defer stop()
		return nil, errors.Join(err, f.end(end, end), f.removeSecret())
	}
	f.watch()
	return f, nil
}

func (k *Kind) validateStart(o *worker.StartOptions) error {
	var errs []error
	if o.Workers < 1 {
		errs = append(errs, fmt.Errorf("pbs: Workers is %d: it must be 1 or more", o.Workers))
	}
	if len(o.Command) == 0 || !filepath.IsAbs(o.Command[0]) {
		errs = append(errs, fmt.Errorf("pbs: Command is %q: it must begin with the absolute path of a program", o.Command))
	}
	if o.Invitation.IsZero() {
		errs = append(errs, errors.New("pbs: Invitation is empty: workers would not find the run"))
	}
	switch {
	case o.Folder == "" && !k.o.InsecureSecret:
		errs = append(errs, errors.New("pbs: workers need a folder that this machine and all nodes see, for the secret that leads them to the run: "+
			"without it the secret would stand in the job's variables, where others may read it by qstat -f. Name a shared folder, or allow this (InsecureSecret)"))
	case o.Folder != "":
		errs = append(errs, checkFolder(o.Folder))
	}
	return errors.Join(errs...)
}

func checkFolder(folder string) error {
	i, err := os.Stat(folder)
	if err != nil {
		return fmt.Errorf("pbs: the shared folder: %w", err)
	}
	switch {
	case !i.IsDir() || !filepath.IsAbs(folder):
		return fmt.Errorf("pbs: the shared folder %s must be a folder, named by its absolute path", folder)
	case strings.ContainsAny(folder, ":\n"):
		return fmt.Errorf("pbs: the shared folder %q has a colon or a line break in its name, which qsub -o does not take: choose another", folder)
	case i.Mode().Perm()&0o077 != 0:
		return fmt.Errorf("pbs: the shared folder %s has mode %04o: others must have no right to it (chmod 700)", folder, i.Mode().Perm())
	}
	if s, ok := i.Sys().(*syscall.Stat_t); ok && int(s.Uid) != os.Geteuid() {
		return fmt.Errorf("pbs: the shared folder %s belongs to user %d, not to this one (%d)", folder, s.Uid, os.Geteuid())
	}
	return nil
}

// writeSecret puts the invitation where workers find it.
func writeSecret(o *worker.StartOptions, text []byte) error {
	fail := func(err error) error { return fmt.Errorf("pbs: the secret of the run: %w", err) }
	f, err := os.CreateTemp(o.Folder, ".invitation-*") // of mode 0600
	if err != nil {
		return fail(err)
	}
	_, err = f.Write(text)
	err = errors.Join(err, f.Close())
	if err == nil {
		err = os.Rename(f.Name(), secretFile(o))
	}
	if err != nil {
		return fail(errors.Join(err, remove(f.Name())))
	}
	return nil
}

func remove(name string) error {
	if err := os.Remove(name); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// submitAll submits the workers in as few arrays as the server takes.
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
			return fmt.Errorf("pbs: not all workers were submitted: %w", context.Cause(ctx))
		}
		take := min(size, f.o.Workers-n)
		name, err := f.k.submit(ctx, &f.o, f.o.First+n, take, env)
		if errors.Is(err, errTooLarge) && take > 1 {
			size = (take + 1) / 2 // a limit of the queue, which the server's attributes don't tell
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
	errTooLarge = errors.New("pbs: the array is larger than the queue allows")
	errLost     = errors.New("pbs: qsub has not told the job's identifier")
)

// submit submits one array of n workers, the first of which has number first, and returns the job's identifier as qsub printed it, which may be there
// beside an error. A qsub under way when ctx ends is given some time to tell the identifier; the other half of that time is for deleting.
func (k *Kind) submit(ctx context.Context, o *worker.StartOptions, first, n int, env []string) (string, error) {
	calm, stop := batchsys.Patient(ctx, k.times.grace/2)
	defer stop()
	r := batchsys.Program{Path: k.o.program("qsub"), Args: k.qsub(o, n), Stdin: k.script(o, first), Env: env}.Run(calm, k.times.command)
	name := lastID(r.Stdout)
	switch {
	case r.Err == nil && name == "":
		return "", fmt.Errorf("%w, but printed %q", errLost, string(r.Stdout))
	case r.Err == nil:
		return name, nil
	case strings.Contains(r.Stderr, "size limit"):
		return name, fmt.Errorf("%w: %w", errTooLarge, r.Err)
	case r.Lost:
		return name, fmt.Errorf("%w before it was ended: %w", errLost, r.Err)
	}
	return name, fmt.Errorf("pbs: a job of %d workers was not taken: %w", n, r.Err)
}

// lastID returns the last line that is a job's identifier, since sites make qsub print more; "": there is none.
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

// qsub is the command that submits n workers. -f has qsub leave no process behind, which would keep the environment;
// -k n says that a default of the site does not keep what jobs write on their nodes.
func (k *Kind) qsub(o *worker.StartOptions, n int) []string {
	args := append([]string{"-f", "-N", jobName(o), "-S", "/bin/sh", "-j", "oe", "-k", "n"}, k.o.Extra...)
	if k.o.CPUs > 0 {
		args = append(args, "-l", fmt.Sprintf("select=1:ncpus=%d", k.o.CPUs))
	}
	if n > 1 {
		indices := fmt.Sprintf("0-%d", n-1)
		if share := k.o.Throttle * n / o.Workers; k.o.Throttle > 0 && share < n {
			indices += fmt.Sprintf("%%%d", max(1, share))
		}
		args = append(args, "-J", indices)
	} else {
		// An array is always rerunnable, a plain job need not be: its blocks have been given to others when a node comes back.
		args = append(args, "-r", "n")
	}
	if o.Folder != "" {
		// What PBS itself says of a job, that it was killed for its time, say: ID.OU.
		return append(args, "-o", o.Folder+"/")
	}
	return append(args, "-o", os.DevNull, "-v", secretVariable)
}

// jobName tells the jobs of this start from others.
func jobName(o *worker.StartOptions) string {
	name := "leat"
	if o.Run != "" {
		name += "-" + o.Run
	}
	if o.First > 0 {
		name += "-" + strconv.Itoa(o.First)
	}
	return name
}
