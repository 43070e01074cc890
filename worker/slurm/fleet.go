package slurm

import (
	"context"
	"crypto/rand"
	"errors"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"leat/worker"
	"leat/worker/internal/batch"
)

// fleet is the job arrays of one start.
type fleet struct {
	*batch.Fleet
	k *launcher
	o worker.StartOptions

	word    string // random, unique to this start
	dir     string // for logs and the secret; "": none
	ownDir  string // equal to dir if Cleanup removes it
	secret  string // path of the secret file
	env     []string
	arrays  []array
	cluster string
	unsure  bool // a job may exist of which only the name is known

	submitted time.Time
	// The fields below belong to Query, and then to Cancel.
	live   map[task]int // numbers of the workers that have not ended
	missed map[task]bool
	logged map[string]bool // reasons already logged
	// cancelAgain is true while a job may not be canceled yet. unfound counts queries without a job
	// of the fleet's name.
	cancelAgain bool
	unfound     int
}

func newFleet(k *launcher, o worker.StartOptions) *fleet {
	f := &fleet{k: k, o: o, word: strings.ToLower(rand.Text()[:8]), submitted: time.Now(), live: map[task]int{},
		missed: map[task]bool{}, logged: map[string]bool{}, cancelAgain: true}
	f.Fleet = batch.NewFleet(f, &f.o, k.times.pace(), k.times.grace)
	return f
}

// Jobs returns "job 17" or "jobs 17, 18".
func (f *fleet) Jobs() string {
	switch len(f.arrays) {
	case 0:
		return "jobs named " + f.jobName()
	case 1:
		return "job " + f.arrays[0].id
	}
	return "jobs " + strings.Join(f.ids(), ", ")
}

func (f *fleet) ids() []string {
	var ids []string
	for _, a := range f.arrays {
		ids = append(ids, a.id)
	}
	return ids
}

// left returns the IDs of arrays with workers that have not ended.
func (f *fleet) left() []string {
	var ids []string
	for _, a := range f.arrays {
		for t := range f.live {
			if t.job == a.id {
				ids = append(ids, a.id)
				break
			}
		}
	}
	return ids
}

// Query returns the workers that have ended since the last query and how many are left.
func (f *fleet) Query(ctx context.Context) (ended []worker.Exit, left int, err error) {
	rows, err := f.queue(ctx, f.left()...)
	if err != nil {
		return nil, len(f.live), err
	}
	ended = f.collectExited(ctx, rows)
	if time.Since(f.submitted) >= f.k.times.pending {
		f.logPending(rows)
	}
	return ended, len(f.live), nil
}

// collectExited removes the workers that have ended and returns them in the order of their numbers.
// A worker missing from the queue counts as ended after the second query in a row.
func (f *fleet) collectExited(ctx context.Context, rows map[task]row) []worker.Exit {
	var over []task
	ask := map[string]bool{}
	for t := range f.live {
		r, ok := rows[t]
		if ok && !r.final() || !ok && !f.missed[t] {
			f.missed[t] = !ok
			continue
		}
		over = append(over, t)
		ask[t.job] = ask[t.job] || r.state == "FAILED"
	}
	slices.SortFunc(over, func(a, b task) int { return f.live[a] - f.live[b] })
	codes := map[string]map[task]string{}
	for job, is := range ask {
		if is {
			codes[job] = f.exitCodes(ctx, job)
		}
	}
	var exits []worker.Exit
	for _, t := range over {
		e := worker.Exit{Name: worker.WorkerName(launcherName, f.live[t]), Job: "job " + t.String(),
			Err: f.ending(rows[t], codes[t.job][t])}
		if f.dir != "" {
			e.Log = batch.End(logFile(f.dir, t.job, strconv.Itoa(t.index)))
		}
		exits = append(exits, e)
		delete(f.live, t)
		delete(f.missed, t)
	}
	return exits
}

// logPending logs once each reason why workers can't start.
func (f *fleet) logPending(rows map[task]row) {
	reasons := map[string]int{}
	for t := range f.live {
		if r, ok := rows[t]; ok && r.state == "PENDING" {
			reasons[r.reason]++
		}
	}
	for reason, n := range reasons {
		if err := pendingError(reason); err != nil && !f.logged[reason] {
			f.logged[reason] = true
			f.o.Logger.Warn("workers not started", "jobs", f.Jobs(), "workers", n, "reason", reason,
				"error", err)
		}
	}
}

// unfoundQueries is how many queries must find no job of the fleet's name: a slow controller may
// accept a job after sbatch was killed.
const unfoundQueries = 4

// Cancel cancels the jobs that may not be canceled yet and queries what is left.
func (f *fleet) Cancel(ctx context.Context) (batch.Left, error) {
	if len(f.live) == 0 && !f.unsure {
		return batch.Nothing, nil
	}
	var canceled error
	if f.cancelAgain {
		canceled = f.scancel(ctx)
	}
	var err error
	f.cancelAgain, err = f.remaining(ctx)
	if err == nil && f.unsure && len(f.live) == 0 && !f.cancelAgain {
		f.unfound++
		f.unsure = f.unfound < unfoundQueries
	}
	if len(f.live) == 0 && !f.unsure {
		return batch.Nothing, nil
	}
	return batch.Running, errors.Join(canceled, err)
}

// remaining updates the workers that are left. again: a job may not be canceled yet.
func (f *fleet) remaining(ctx context.Context) (again bool, err error) {
	if jobs := f.left(); len(jobs) > 0 {
		rows, err := f.queue(ctx, jobs...)
		if err != nil {
			return true, err
		}
		for t := range f.live {
			r, ok := rows[t]
			switch {
			case !ok || r.final():
				delete(f.live, t)
			case r.state != "COMPLETING":
				again = true
			}
		}
	}
	if f.unsure {
		rows, err := f.named(ctx)
		if err != nil {
			return true, err
		}
		for _, r := range rows {
			again = again || !r.final()
		}
	}
	return again, nil
}

// scancel cancels all that is left. Its errors matter only if jobs remain, since it also fails for
// jobs that have just ended.
func (f *fleet) scancel(ctx context.Context) error {
	var errs []error
	if jobs := f.left(); len(jobs) > 0 {
		errs = append(errs, f.k.run(ctx, f.k.times.command, f.k.o.Scancel, f.inCluster(jobs...)...).Err)
	}
	if f.unsure {
		errs = append(errs, f.k.run(ctx, f.k.times.command, f.k.o.Scancel,
			f.inCluster("--name="+f.jobName(), "--user="+userID())...).Err)
	}
	return errors.Join(errs...)
}

// Commands returns the command that cancels what is left.
func (f *fleet) Commands() []string {
	which := f.left()
	if f.unsure || len(f.arrays) == 0 {
		which = []string{"--name=" + f.jobName(), "--user=" + userID()}
	}
	return []string{strings.Join(append([]string{"scancel"}, f.inCluster(which...)...), " ")}
}

func userID() string { return strconv.Itoa(os.Getuid()) }
