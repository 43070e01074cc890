package namespace

import (
	"context"
	"fmt"
	"time"

	"leat/bench/measured"
)

// soon is when ranks are released that get the order now: late enough for all to have it, and to
// sleep.
const soon = 20 * time.Millisecond

// joined is what the joins of a job measured.
type joined struct {
	last, slowest, alone measured.Times
	descriptors          int
}

// joins measures jobs of eight ranks, and of one.
func (o *options) joins(ctx context.Context) (j joined, err error) {
	p := &pool{ctx: ctx}
	defer p.end()
	if err := p.start(ranks); err != nil {
		return j, err
	}
	for round := range o.runs + 1 {
		got, from, err := o.release(p.list, "job", ranks)
		if err != nil {
			return j, err
		}
		open, err := p.each(order{Op: "descriptors"})
		if err != nil {
			return j, err
		}
		if _, err := p.each(order{Op: "close"}); err != nil {
			return j, err
		}
		alone, _, err := o.release(p.list[:1], "alone", 1)
		if err != nil {
			return j, err
		}
		if _, err := p.list[0].do(order{Op: "close"}); err != nil {
			return j, err
		}
		if round == 0 {
			continue
		}
		var last, slowest time.Duration
		for i, a := range got {
			last, slowest = max(last, time.Duration(a.Done-from)), max(slowest, a.Took)
			j.descriptors = max(j.descriptors, open[i].Descriptors)
		}
		j.last, j.slowest, j.alone = append(j.last, last), append(j.slowest, slowest), append(j.alone, alone[0].Took)
	}
	return j, nil
}

// release has ranks of one job join at one moment, which it returns, and fails if one of them does.
func (o *options) release(list []*rank, name string, n int) (got []answer, from int64, err error) {
	from = time.Now().Add(soon).UnixNano()
	for i, r := range list {
		if err := r.send(order{Op: "join", At: from, Job: o.job(name, i, n)}); err != nil {
			return nil, 0, err
		}
	}
	for i, r := range list {
		a, err := r.receive()
		if err == nil && a.Err != "" {
			err = fmt.Errorf("%s, rank %d: %s", name, i, a.Err)
		}
		if err != nil {
			return nil, 0, err
		}
		got = append(got, a)
	}
	return got, from, nil
}

// together has four jobs of one process start at one moment, again and again.
func (o *options) together(ctx context.Context) (failed int, took measured.Times, err error) {
	const jobs = 4
	p := &pool{ctx: ctx}
	defer p.end()
	if err := p.start(jobs); err != nil {
		return 0, nil, err
	}
	for round := range o.starts {
		from := time.Now().Add(2 * time.Millisecond).UnixNano()
		for i, r := range p.list {
			j := o.job(fmt.Sprint("together", i), 0, 1)
			j.Key = fmt.Sprintf("%s of round %d", j.Key, round)
			if err := r.send(order{Op: "join", At: from, Job: j}); err != nil {
				return 0, nil, err
			}
		}
		bad := false
		numbers := map[int]bool{}
		var slowest time.Duration
		for _, r := range p.list {
			a, err := r.receive()
			if err != nil {
				return 0, nil, err
			}
			bad = bad || a.Err != "" || numbers[a.Number]
			numbers[a.Number] = true
			slowest = max(slowest, a.Took)
		}
		if bad {
			failed++
		}
		took = append(took, slowest)
		if _, err := p.each(order{Op: "close"}); err != nil && !bad {
			return 0, nil, err
		}
	}
	return failed, took, nil
}

// restarts kills all ranks of a job and measures the next run's way to the last rank's being a
// member, from before the kill.
func (o *options) restarts(ctx context.Context) (took measured.Times, err error) {
	for round := range o.runs + 1 {
		one := func() (time.Duration, error) {
			run, next := &pool{ctx: ctx}, &pool{ctx: ctx}
			defer run.end()
			defer next.end()
			if err := run.start(ranks); err != nil {
				return 0, err
			}
			if err := next.start(ranks); err != nil {
				return 0, err
			}
			for _, p := range []*pool{next, run} { // the next run's processes have warmed up too, with another job
				if _, _, err := o.release(p.list, "job", ranks); err != nil {
					return 0, err
				}
				if p == next {
					if _, err := p.each(order{Op: "close"}); err != nil {
						return 0, err
					}
				}
			}
			from := time.Now()
			for _, r := range run.list {
				if err := r.cmd.Process.Kill(); err != nil {
					return 0, err
				}
			}
			for i, r := range next.list {
				if err := r.send(order{Op: "join", Job: o.job("job", i, ranks)}); err != nil {
					return 0, err
				}
			}
			var last time.Duration
			for i, r := range next.list {
				a, err := r.receive()
				if err == nil && a.Err != "" {
					err = fmt.Errorf("after the kill, rank %d: %s", i, a.Err)
				}
				if err != nil {
					return 0, err
				}
				last = max(last, time.Duration(a.Done-from.UnixNano()))
			}
			return last, nil
		}
		d, err := one()
		if err != nil {
			return nil, err
		}
		if round > 0 {
			took = append(took, d)
		}
	}
	return took, nil
}
