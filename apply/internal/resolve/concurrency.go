package resolve

import (
	"context"
	"fmt"
	"maps"
	"net"
	"os"
	"slices"
	"strconv"

	"leat/apply/internal/jobspec"
)

// validateConcurrency returns the errors in the job's Concurrency and in what its workers need.
func validateConcurrency(job *jobspec.Job) []error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	field := func(name, format string, args ...any) {
		errs = append(errs, jobspec.Errorf("Concurrency."+name, format, args...))
	}
	c := &job.Concurrency
	if c.Workers < 0 || c.Readers < 0 {
		bad("%d workers and %d readers: expected 1 or more, or 0 for one per core", c.Workers, c.Readers)
	}
	if c.Workers > jobspec.MaxWorkers || c.Readers > jobspec.MaxWorkers {
		bad("%d workers and %d readers: expected at most %d of each", c.Workers, c.Readers, jobspec.MaxWorkers)
	}
	if c.Barrier < 0 {
		field("Barrier", "a barrier of %v, expected a time above 0", c.Barrier)
	}
	if c.On == nil {
		switch {
		case c.OneBlockPerJob:
			field("On", "jobs of a single block need workers in other processes")
		case c.Reading == jobspec.ReadByWorkers:
			field("On", "workers that read their inputs must be in other processes")
		}
		if c.SharedTemp != "" || c.Listen != "" || c.Barrier > 0 || c.AllowMixedBuilds || c.ReplaceWorkers != 0 || c.NoCopies {
			field("On", "a shared directory, an address to listen at, a barrier, replaced workers, mixed builds "+
				"and a ban on copies need workers in other processes")
		}
		return errs
	}
	facts, name := c.On.Capabilities(), c.On.Name()
	reads := c.WorkersRead()
	if c.OneBlockPerJob {
		if !facts.OneBlockPerJob {
			field("OneBlockPerJob", "jobs of a single block are not supported by %s", name)
		}
		if c.Workers > 0 {
			field("OneBlockPerJob", "%d workers with jobs of a single block, of which there is one for each block", c.Workers)
		}
		if c.Readers > 0 {
			field("Readers", "%d readers with jobs of a single block, each of which reads its block", c.Readers)
		}
		if c.ReplaceWorkers != 0 {
			field("ReplaceWorkers", "a number of replacements with jobs of a single block, where each lost block gets "+
				"another worker")
		}
		if c.Barrier > 0 {
			field("OneBlockPerJob", "a barrier with jobs of a single block, which do not wait for each other")
		}
	} else if c.Workers == 0 {
		field("Workers", "the number of workers of %s is missing", name)
	}
	if !reads && !facts.Local {
		bad("workers of %s are on other machines and read their inputs themselves", name)
	}
	if reads && c.Readers > 0 && !c.OneBlockPerJob {
		field("Readers", "%d readers, but the workers read their inputs themselves", c.Readers)
	}
	if facts.Local && (c.SharedTemp != "" || c.Listen != "") {
		name := "SharedTemp"
		if c.SharedTemp == "" {
			name = "Listen"
		}
		field(name, "workers of %s are children of this process: they need no shared directory and no address to listen at",
			c.On.Name())
	}
	if _, port, err := net.SplitHostPort(c.Listen); err == nil {
		if _, err := strconv.ParseUint(port, 10, 16); err != nil {
			field("Listen", "the port of %s is not a number from 0 to 65535", c.Listen)
		}
	}
	if c.SharedTemp != "" {
		if st, err := os.Stat(c.SharedTemp); err != nil || !st.IsDir() {
			field("SharedTemp", "the directory %s for what workers share does not exist", c.SharedTemp)
		}
	}
	if job.Function.Defined && job.Function.Name == "" {
		bad("the function stays in this process: workers in others find functions by name (Job.Function, apply.Main)")
	}
	if job.Function.Merges && job.Function.Emits == nil && job.Expressions == nil {
		bad("the function's values can't come from other processes: there is no codec for them (Function.Emits)")
	}
	if job.Function.MergesWorkers && job.Function.WorkerValues == nil && job.Function.Closes {
		bad("the values of workers can't come from other processes: there is no codec for them (Function.WorkerValues)")
	}
	if job.Function.Params != nil && job.Function.Name != "" && job.Function.ParamsCodec == nil {
		bad("the function's parameters can't go to other processes: there is no codec for them (Function.Params)")
	}
	if reads {
		for _, in := range slices.Sorted(maps.Keys(job.Inputs)) {
			if job.Inputs[in].Source != nil {
				bad("input %s is an open raster of this process, which workers that read can't open", in)
			}
		}
	}
	return errs
}

// checkLauncher returns why the launcher can't start workers, before anything is read.
func checkLauncher(ctx context.Context, c *jobspec.Concurrency) error {
	if c.On == nil {
		return nil
	}
	if err := c.On.Check(ctx); err != nil {
		return fmt.Errorf("workers of %s can't be started: %w", c.On.Name(), err)
	}
	return nil
}
