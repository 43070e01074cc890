package pbs

import (
	"context"
	"errors"
	"os/user"
	"strings"

	"leat/worker/internal/batch"
)

// unfoundQueries is how many queries must find no job of the fleet's name: a slow server may accept
// a job after qsub was killed.
const unfoundQueries = 4

// Cancel deletes the jobs and queries what is left. Epilogues and the copying of output may take
// longer than a run waits; a job whose workers have all ended counts as ending.
func (f *fleet) Cancel(ctx context.Context) (batch.Left, error) {
	var last error
	if f.unsure {
		found, err := f.find(ctx)
		switch {
		case err != nil:
			last = err
		case found:
			f.unfound = 0
		default:
			f.unfound++
			f.unsure = f.unfound < unfoundQueries
		}
	}
	// The first qdel gets all jobs, since one that seems to have ended may still exist. qdel is
	// repeated for the others, since a busy server may refuse it.
	jobs := f.left()
	if !f.deleted {
		jobs = f.names()
	}
	var deleted batch.Answer
	if len(jobs) > 0 {
		deleted = f.k.run(ctx, "qdel", jobs...)
		f.deleted = true
	}
	left := batch.Running
	if len(f.left()) > 0 {
		_, n, err := f.Query(ctx)
		if err == nil && n > 0 && f.exiting == n && !f.unsure {
			left = batch.Ending
		}
		last = errors.Join(last, err)
	}
	switch {
	case len(f.left()) == 0 && !f.unsure:
		return batch.Nothing, nil
	case left == batch.Ending:
		return left, nil
	}
	return left, errors.Join(deleted.Err, last)
}

// Commands returns the command that deletes what is left.
func (f *fleet) Commands() []string {
	which := "'" + strings.Join(f.left(), "' '") + "'"
	if f.unsure {
		which = "$(" + strings.Join(f.byName(), " ") + ")"
	}
	return []string{"qdel " + which}
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

// Cleanup removes the secret.
func (f *fleet) Cleanup() error { return batch.RemoveSecret(f.secret) }

// left returns the names of the jobs that have not ended as of the last query.
func (f *fleet) left() []string {
	var names []string
	for _, s := range f.jobs {
		if s.left > 0 {
			names = append(names, s.name)
		}
	}
	return names
}
