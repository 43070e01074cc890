package pbs

import (
	"context"
	"errors"
	"fmt"
	"os/user"
	"strings"
	"time"

	"leat/worker/internal/batchsys"
)

// looksByName is how many queries must find no job of the fleet's name: a slow server may accept a
// job after qsub was killed.
const looksByName = 4

// Stop deletes the jobs and waits until the server has none. Epilogues and the copying of output
// may take longer than ctx; then it suffices that all workers have ended. If ctx has ended already,
// it tries everything once.
func (f *fleet) Stop(ctx context.Context) error {
	f.stopping.Lock()
	defer f.stopping.Unlock()
	f.cancel()
	<-f.ended
	// A running qdel may finish after ctx is canceled, but not after ctx's deadline.
	calm, stop := batchsys.Patient(ctx, f.k.times.grace)
	defer stop()
	if d, ok := ctx.Deadline(); ok && ctx.Err() == nil {
		calm, stop = context.WithDeadline(calm, d)
		defer stop()
	}
	if err := f.end(ctx, calm); err != nil {
		return err
	}
	return f.removeSecret()
}

// end deletes the jobs until none is left or ctx ends; programs run with calm.
func (f *fleet) end(ctx, calm context.Context) error {
	if f.unsure && f.o.RunID == "" {
		// Other jobs of the user may have the same name.
		f.unsure = false
		return errors.Join(f.end(ctx, calm),
			fmt.Errorf("a job without known identifier may be left: `%s` lists jobs of its name, qdel ends them",
				strings.Join(f.byName(), " ")))
	}
	none := 0 // queries that found no job by its name
	for wait := f.k.times.first / 2; ; wait = f.k.times.pace().Next(wait) {
		var last error
		if f.unsure {
			found, err := f.find(calm)
			switch {
			case err != nil:
				last = err
			case found:
				none = 0
			default:
				none++
				f.unsure = none < looksByName
			}
		}
		// Repeat qdel, since a busy server refuses it; the first time for all jobs, since ended
		// ones may not have ended.
		jobs := f.left()
		if !f.deleted {
			jobs = f.names()
		}
		var deleted batchsys.Answer
		if len(jobs) > 0 {
			deleted = f.k.run(calm, "qdel", jobs...)
			f.deleted = true
		}
		exiting := false // all that is left
		if len(f.left()) > 0 {
			_, n, err := f.look(calm)
			f.mu.Lock()
			exiting = err == nil && n > 0 && f.exiting == n && !f.unsure
			f.mu.Unlock()
			last = errors.Join(last, err)
		}
		if len(f.left()) == 0 && !f.unsure {
			return nil
		}
		t := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			t.Stop()
			if exiting {
				f.o.Logger.Info("pbs: jobs still exiting", "jobs", f.Jobs())
				return nil
			}
			err := fmt.Errorf("%s may be left (%w): `%s` ends them, or `qdel -W force` if a node is lost",
				f.Jobs(), context.Cause(ctx), f.byHand())
			return errors.Join(err, deleted.Err, last)
		case <-t.C:
		}
	}
}

// byHand returns the command that ends what is left.
func (f *fleet) byHand() string {
	if f.unsure {
		return "qdel $(" + strings.Join(f.byName(), " ") + ")"
	}
	return "qdel '" + strings.Join(f.left(), "' '") + "'"
}

// byName returns the command that lists the fleet's jobs.
func (f *fleet) byName() []string {
	args := []string{"qselect", "-N", jobName(&f.o)}
	if u, err := user.Current(); err == nil {
		args = append(args, "-u", u.Username)
	}
	return args
}

// find looks for jobs whose identifier qsub did not print and adds them to the fleet.
func (f *fleet) find(ctx context.Context) (found bool, err error) {
	by := f.byName()
	r := f.k.run(ctx, by[0], by[1:]...)
	if r.Err != nil {
		return false, r.Err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	have := map[id]bool{}
	for _, s := range f.jobs {
		have[s.id] = true
	}
	ids := 0
	for s := range strings.FieldsSeq(string(r.Stdout)) {
		i, ok := parseID(s)
		if !ok {
			continue
		}
		ids++
		if !have[i] {
			f.add(s, 0, f.lost)
			found = true
		}
	}
	if text := strings.TrimSpace(string(r.Stdout)); ids == 0 && text != "" {
		return false, unreadable("qselect", []byte(text))
	}
	return found, nil
}

func (f *fleet) removeSecret() error {
	if f.o.Folder == "" {
		return nil
	}
	if err := remove(secretFile(&f.o)); err != nil {
		return fmt.Errorf("remove secret: %w", err)
	}
	return nil
}

// left returns the names of the jobs that have not ended as of the last query.
func (f *fleet) left() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var names []string
	for _, s := range f.jobs {
		if s.left > 0 {
			names = append(names, s.name)
		}
	}
	return names
}
