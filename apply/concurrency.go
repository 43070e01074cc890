package apply

import (
	"context"
	"fmt"
	"net"
	"os"
	"runtime"
	"strconv"

	"leat/apply/internal/jobspec"
	"leat/internal/units"
)

// validateConcurrency returns the errors in the job's Concurrency and in what its workers need.
func validateConcurrency(job *Job) []error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	c := &job.Concurrency
	if c.Workers < 0 || c.Readers < 0 {
		bad("%d workers and %d readers: use 1 or more, or 0 for one per core", c.Workers, c.Readers)
	}
	if c.Workers > jobspec.MaxWorkers || c.Readers > jobspec.MaxWorkers {
		bad("%d workers and %d readers: use at most %d of each", c.Workers, c.Readers, jobspec.MaxWorkers)
	}
	if c.Barrier < 0 {
		bad("a barrier of %v (--barrier): use a time above 0", c.Barrier)
	}
	if c.On == nil {
		switch {
		case c.OneBlockPerJob:
			bad("jobs of a single block (--single-block-jobs) are for workers in other processes: say of which kind (--on)")
		case c.Reading == ReadByWorkers:
			bad("workers that read (--workers-read) are workers in other processes: those in this one share its readers; say of which kind they are to be (--on)")
		}
		if c.SharedTemp != "" || c.Listen != "" || c.Barrier > 0 || c.AllowMixedBuilds || c.ReplaceWorkers != 0 {
			bad("a shared folder, an address to listen at, a barrier, replaced workers and mixed builds are for workers in other processes: say of which kind (--on)")
		}
		return errs
	}
	facts, name := c.On.Capabilities(), c.On.Name()
	reads := (*jobspec.Concurrency)(c).WorkersRead()
	if c.OneBlockPerJob {
		if !facts.OneBlockPerJob {
			bad("jobs of a single block (--single-block-jobs) are not supported by %s", name)
		}
		if c.Workers > 0 {
			bad("with jobs of a single block (--single-block-jobs) there is one for each block: leave the number of workers out (--workers %d)", c.Workers)
		}
		if c.Readers > 0 {
			bad("with jobs of a single block (--single-block-jobs) each reads its block: leave readers out (--readers %d)", c.Readers)
		}
		if c.ReplaceWorkers != 0 {
			bad("with jobs of a single block (--single-block-jobs) each lost block gets another worker: leave the number of replacements out (--replace-workers)")
		}
		if c.Barrier > 0 {
			bad("jobs of a single block (--single-block-jobs) do not wait for each other: leave the barrier out")
		}
	} else if c.Workers == 0 {
		bad("say how many workers of %s are to be started (--workers)", name)
	}
	if !reads && !facts.Local {
		bad("workers of %s are on other machines and read their inputs themselves", name)
	}
	if reads && c.Readers > 0 && !c.OneBlockPerJob {
		bad("the workers read their inputs themselves: leave readers out (--readers %d)", c.Readers)
	}
	if facts.Local && (c.SharedTemp != "" || c.Listen != "") {
		bad("workers of %s are children of this process: they need no shared folder and no address to listen at", name)
	}
	if _, port, err := net.SplitHostPort(c.Listen); err == nil {
		if _, err := strconv.ParseUint(port, 10, 16); err != nil {
			bad("the port of %s (--listen): use a number from 0 to 65535; 0, or none, is one that is free", c.Listen)
		}
	}
	if c.SharedTemp != "" {
		if st, err := os.Stat(c.SharedTemp); err != nil || !st.IsDir() {
			bad("the folder %s for what workers share (--shared-temp) does not exist: make it first, where all of them can reach it", c.SharedTemp)
		}
	}
	if job.Func != nil && job.Function == "" {
		bad("the function stays in this process: workers in others find functions by name (Job.Function, and apply.Main at the top of main)")
	}
	if job.Merge != nil && job.Emits == nil && job.Expressions == nil {
		bad("the function's values can't come from other processes: say how they are encoded (Function.Emits, such as apply.Gob)")
	}
	if job.Params != nil && job.Function != "" && job.Functions[job.Function].Params == nil {
		bad("the function's parameters can't go to other processes: say how they are encoded (Function.Params, such as apply.Gob)")
	}
	if reads {
		for _, in := range sortedKeys(job.Inputs) {
			if job.Inputs[in].Source != nil {
				bad("input %s is an open raster of this process, which workers that read can't open", in)
			}
		}
	}
	return errs
}

// checkKind reports whether the launcher can start workers, before anything is read.
func checkKind(ctx context.Context, c *Concurrency) error {
	if c.On == nil {
		return nil
	}
	if err := c.On.Check(ctx); err != nil {
		return fmt.Errorf("workers of %s can't be started: %w", c.On.Name(), err)
	}
	return nil
}

// setWorkers sets the numbers of workers and readers, before the number of blocks is known.
func (p *Plan) setWorkers(c *jobspec.Concurrency) {
	p.Workers, p.Readers = c.Counts()
	if c.On == nil {
		if cores := runtime.GOMAXPROCS(0); p.Workers > cores {
			p.Notes = append(p.Notes, fmt.Sprintf("%d workers for %s: more of them than cores take memory and save no time", p.Workers, units.Count(cores, "core")))
		}
		return
	}
	p.Kind = c.On.Name()
	p.WorkersRead = c.WorkersRead()
}

// buffersEach returns how many blocks a worker that reads holds in memory: those it computes, as
// many read ahead, and one in between.
func buffersEach(slots int) int { return 2*slots + 1 }

// slotsEach returns how many blocks a worker process on this machine computes at once.
func slotsEach(workers int) int { return max(1, runtime.GOMAXPROCS(0)/max(1, workers)) }
