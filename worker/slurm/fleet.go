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

// fleet are the job arrays of one start.
type fleet struct {
	k *Kind
	o worker.StartOptions

	word      string // random: this start's own
	folder    string // of logs and of the secret; "": there is none
	ownFolder string // as folder, when Stop removes it
	secret    string // file
	env       []string
	arrays    []array
	cluster   string
	unsure    bool // there may be a job of which only the name is known

	cancel context.CancelFunc // ends the watching; nil: nothing watches
	ended  chan struct{}      // closed when nothing watches any more

	stopping sync.Mutex // one Stop at a time
	// What follows is of the goroutine that watches, and of Stop after that has ended.
	live   map[task]int // numbers of the workers that have not ended
	missed map[task]bool
	told   map[string]bool // reasons for which workers don't start
}

func newFleet(k *Kind, o worker.StartOptions) *fleet {
	return &fleet{k: k, o: o, word: strings.ToLower(rand.Text()[:8]), live: map[task]int{}, missed: map[task]bool{}, told: map[string]bool{}}
}

// Jobs names the arrays: "job 17", "jobs 17, 18".
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

// left are the ids of arrays with workers that have not ended.
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

// begin starts the watching.
func (f *fleet) begin() {
	ctx, cancel := context.WithCancel(context.Background())
	f.cancel, f.ended = cancel, make(chan struct{})
	go func() {
		defer close(f.ended)
		f.watch(ctx)
	}()
}

// watch looks at the queue until all workers have ended or ctx has.
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
		if err != nil {
			// A controller that is busy or restarted is no reason to give up workers: they are heard of through the channel.
			if failures++; failures == 2 {
				f.o.Logger.Warn("slurm: the queue does not tell of the workers' jobs; it is asked on", "jobs", f.Jobs(), "error", err)
			}
			continue
		}
		failures = 0
		for _, e := range f.settle(ctx, rows) {
			f.o.Gone(e)
		}
		if time.Since(begun) >= f.k.times.pending {
			f.tellPending(rows)
		}
	}
}

// settle takes the workers out that have ended, and returns them in the order of their numbers. One that is not in the queue has ended when
// the next look does not find it either.
func (f *fleet) settle(ctx context.Context, rows map[task]row) []worker.Exit {
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
		e := worker.Exit{Name: worker.WorkerName(Name, f.live[t]), Job: "job " + t.String(), Err: f.ending(rows[t], codes[t.job][t])}
		if f.folder != "" {
			e.Log = batchsys.End(logFile(f.folder, t.job, strconv.Itoa(t.index)))
		}
		exits = append(exits, e)
		delete(f.live, t)
		delete(f.missed, t)
	}
	return exits
}

// tellPending says once of each reason for which workers can't start that they can't.
func (f *fleet) tellPending(rows map[task]row) {
	reasons := map[string]int{}
	for t := range f.live {
		if r, ok := rows[t]; ok && r.state == "PENDING" {
			reasons[r.reason]++
		}
	}
	for reason, n := range reasons {
		if why, never := waiting(reason); never && !f.told[reason] {
			f.told[reason] = true
			f.o.Logger.Warn("slurm: workers don't start: "+why, "jobs", f.Jobs(), "workers", n, "reason", reason)
		}
	}
}

// Stop cancels the jobs, and looks at the queue until none is left or ctx ends. When ctx is over already, all is tried once, for some seconds at most.
func (f *fleet) Stop(ctx context.Context) error {
	f.stopping.Lock()
	defer f.stopping.Unlock()
	if f.cancel != nil {
		f.cancel()
		<-f.ended
	}
	// The secret goes last: a job that starts just now would report its want of it, which is nothing anybody has to know.
	return errors.Join(f.end(ctx), f.removeFiles())
}

// end cancels the jobs and waits until they are no more.
func (f *fleet) end(ctx context.Context) error {
	calm := ctx
	if ctx.Err() != nil {
		var stop context.CancelFunc
		calm, stop = context.WithTimeout(context.WithoutCancel(ctx), f.k.times.grace)
		defer stop()
	}
	var last error
	cancel := true
	none := 0 // looks that found no job of the fleet's name
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
			// A controller that is slow may take a job after its sbatch has been ended.
			if none++; none > 3 {
				f.unsure = false
			}
		}
		if len(f.live) == 0 && !f.unsure {
			break
		}
		if ctx.Err() != nil || !batchsys.Sleep(ctx, wait) {
			return errors.Join(fmt.Errorf("slurm: %s may be left (%w): end what is left by `%s`", f.Jobs(), context.Cause(ctx), f.byHand()), last)
		}
	}
	return nil
}

// remaining looks which workers are left, and tells whether a job is there that has not been cancelled, as far as is known.
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

// scancel cancels all that is left. What it says is of interest only when jobs stay: a job that has just ended is an error to it.
func (f *fleet) scancel(ctx context.Context) error {
	var errs []error
	if jobs := f.left(); len(jobs) > 0 {
		errs = append(errs, f.k.run(ctx, f.k.times.command, f.k.o.Scancel, f.inCluster(jobs...)...).Err)
	}
	if f.unsure {
		errs = append(errs, f.k.run(ctx, f.k.times.command, f.k.o.Scancel, f.inCluster("--name="+f.jobName(), "--user="+userID())...).Err)
	}
	return errors.Join(errs...)
}

// byHand is the command that ends what is left.
func (f *fleet) byHand() string {
	if f.unsure || len(f.arrays) == 0 {
		return strings.Join(append([]string{"scancel"}, f.inCluster("--name="+f.jobName(), "--user="+userID())...), " ")
	}
	return strings.Join(append([]string{"scancel"}, f.inCluster(f.left()...)...), " ")
}

func userID() string { return strconv.Itoa(os.Getuid()) }
