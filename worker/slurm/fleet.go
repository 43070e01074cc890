package slurm

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"leat/worker"
	"leat/worker/internal/batchsys"
)

// fleet is the job arrays of one start.
type fleet struct {
	k *Launcher
	o worker.StartOptions

	word      string // random, unique to this start
	folder    string // for logs and the secret; "": none
	ownFolder string // equal to folder if Stop removes it
	secret    string // path of the secret file
	env       []string
	arrays    []array
	cluster   string
	unsure    bool // there may be a job of which only the name is known

	cancel context.CancelFunc // ends the watching; nil: not watching
	ended  chan struct{}      // closed when the watching has ended

	stopping sync.Mutex // serializes Stop
	// The fields below belong to the watching goroutine, and to Stop after it has ended.
	live   map[task]int // numbers of the workers that have not ended
	missed map[task]bool
	logged map[string]bool // reasons already logged
}

func newFleet(k *Launcher, o worker.StartOptions) *fleet {
	return &fleet{k: k, o: o, word: strings.ToLower(rand.Text()[:8]), live: map[task]int{}, missed: map[task]bool{},
		logged: map[string]bool{}}
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

// begin starts watching the queue.
func (f *fleet) begin() {
	ctx, cancel := context.WithCancel(context.Background())
	f.cancel, f.ended = cancel, make(chan struct{})
	go func() {
		defer close(f.ended)
		f.watch(ctx)
	}()
}

// watch queries the queue until all workers have ended or ctx ends.
func (f *fleet) watch(ctx context.Context) {
	begun, failures := time.Now(), 0
	for wait := f.k.times.first; len(f.live) > 0; wait = min(wait*3/2, f.k.times.longest) {
		if !batchsys.Sleep(ctx, wait) {
			return
		}
		rows, err := f.queue(ctx, f.left()...)
		if ctx.Err() != nil {
			return
		}
		if f.o.OnQuery != nil {
			f.o.OnQuery(err)
		}
		if err != nil {
			// The controller may be busy or restarting. Workers that end are noticed by the
			// coordinator too.
			if failures++; failures == 2 {
				f.o.Logger.Warn("slurm: queue query failed", "jobs", f.Jobs(),
					"error", err)
			}
			continue
		}
		failures = 0
		for _, e := range f.collectExited(ctx, rows) {
			f.o.OnExit(e)
		}
		if time.Since(begun) >= f.k.times.pending {
			f.logPending(rows)
		}
	}
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
		e := worker.Exit{Name: worker.WorkerName(Name, f.live[t]), Job: "job " + t.String(),
			Err: f.ending(rows[t], codes[t.job][t])}
		if f.folder != "" {
			e.Log = batchsys.End(logFile(f.folder, t.job, strconv.Itoa(t.index)))
		}
		exits = append(exits, e)
		delete(f.live, t)
		delete(f.missed, t)
	}
	return exits
}

// logPending logs each reason for which workers can't start, once.
func (f *fleet) logPending(rows map[task]row) {
	reasons := map[string]int{}
	for t := range f.live {
		if r, ok := rows[t]; ok && r.state == "PENDING" {
			reasons[r.reason]++
		}
	}
	for reason, n := range reasons {
		if why, never := waiting(reason); never && !f.logged[reason] {
			f.logged[reason] = true
			f.o.Logger.Warn("slurm: workers not started: "+why, "jobs", f.Jobs(), "workers", n, "reason", reason)
		}
	}
}

// Stop cancels the jobs and queries the queue until none is left or ctx ends. If ctx has ended
// already, it tries everything once, for a few seconds at most.
func (f *fleet) Stop(ctx context.Context) error {
	f.stopping.Lock()
	defer f.stopping.Unlock()
	if f.cancel != nil {
		f.cancel()
		<-f.ended
	}
	// Remove the secret last: a job that is just starting would report that it is missing.
	return errors.Join(f.end(ctx), f.removeFiles())
}

// end cancels the jobs and waits until they have ended.
func (f *fleet) end(ctx context.Context) error {
	calm := ctx
	if ctx.Err() != nil {
		var stop context.CancelFunc
		calm, stop = context.WithTimeout(context.WithoutCancel(ctx), f.k.times.grace)
		defer stop()
	}
	var last error
	cancel := true
	none := 0 // queries without a job of the fleet's name
	for wait := f.k.times.first / 2; len(f.live) > 0 || f.unsure; wait = min(wait*3/2, f.k.times.longest) {
		if cancel {
			last = f.scancel(calm)
		}
		var err error
		cancel, err = f.remaining(calm)
		if err != nil {
			if calm.Err() == nil {
				last = err
			}
		} else if f.unsure && len(f.live) == 0 && !cancel {
			// A slow controller may accept a job after sbatch was killed.
			if none++; none > 3 {
				f.unsure = false
			}
		}
		if len(f.live) == 0 && !f.unsure {
			break
		}
		if ctx.Err() != nil || !batchsys.Sleep(ctx, wait) {
			return errors.Join(fmt.Errorf("%s may be left (%w): `%s` ends them", f.Jobs(),
				context.Cause(ctx), f.byHand()), last)
		}
	}
	return nil
}

// remaining updates the workers that are left. again: there may be a job that is not cancelled.
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

// byHand returns the command that ends what is left.
func (f *fleet) byHand() string {
	if f.unsure || len(f.arrays) == 0 {
		return strings.Join(append([]string{"scancel"}, f.inCluster("--name="+f.jobName(), "--user="+userID())...), " ")
	}
	return strings.Join(append([]string{"scancel"}, f.inCluster(f.left()...)...), " ")
}

func userID() string { return strconv.Itoa(os.Getuid()) }
