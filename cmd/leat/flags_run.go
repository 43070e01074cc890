package main

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"leat/apply"
	"leat/internal/units"
)

// runFlags are the options of how a job is run.
type runFlags struct {
	workers, readers            int
	memory, window              string
	resume, unfinished, discard bool

	set *pflag.FlagSet // of the command, for which options are given

	// What Finalize reads.
	memoryBytes             int64
	blockWidth, blockHeight int
}

// AddFlags adds the options of leat apply.
func (f *runFlags) AddFlags(fl *pflag.FlagSet) {
	f.addRunning(fl)
	fl.BoolVar(&f.unfinished, "unfinished", false,
		"list the unfinished outputs in directories, leat apply --unfinished [DIR...] (default: the current one), and do nothing else")
	fl.BoolVar(&f.discard, "discard", false,
		"remove what failed runs left of the outputs (-o), or in whole directories, leat apply --discard DIR..., and do nothing else")
	if err := fl.MarkHidden("discard"); err != nil { // the earlier form of leat apply discard
		panic(err)
	}
}

// addRunning adds the options of all commands that run a job.
func (f *runFlags) addRunning(fl *pflag.FlagSet) {
	f.set = fl
	fl.IntVarP(&f.workers, "jobs", "j", 0, "`N`: workers that compute and encode (default: one per core)")
	group(fl, "jobs", "Running")
	fl.IntVar(&f.readers, "readers", 0, "`N`: readers that read ahead (default: as many as workers)")
	fl.StringVar(&f.memory, "memory", "",
		"`SIZE`: ceiling for the memory, such as 500M or 2G (default: a quarter of the machine's)")
	fl.StringVar(&f.window, "window", "",
		"`N`: size of blocks in pixels, or WIDTHxHEIGHT, rounded up to whole output tiles (default: planned from the memory)")
	fl.BoolVar(&f.resume, "resume", false,
		"go on from what the same command left when it failed, was interrupted or killed: blocks that it has done are not done again")
}

// Finalize reads the values of the options, as far as they are right.
func (f *runFlags) Finalize() error {
	var errs []error
	if f.window != "" {
		w, h, both := strings.Cut(f.window, "x")
		if !both {
			h = w
		}
		x, err1 := strconv.Atoi(w)
		y, err2 := strconv.Atoi(h)
		if err1 != nil || err2 != nil || x <= 0 || y <= 0 || x > 1<<24 || y > 1<<24 {
			errs = append(errs, fmt.Errorf("--window %s: write the size of blocks as 1024 or 2048x512 (a part of the raster is --srcwin or --bbox)", f.window))
		} else {
			f.blockWidth, f.blockHeight = x, y
		}
	}
	if f.memory != "" {
		var err error
		if f.memoryBytes, err = units.ParseSize(f.memory); err != nil {
			errs = append(errs, fmt.Errorf("--memory %s: %w", f.memory, err))
		}
	}
	if f.workers < 0 || f.readers < 0 {
		errs = append(errs, errors.New("-j and --readers: use 1 or more, or leave them out for one per core"))
	}
	if f.set.Changed("jobs") && f.workers == 0 {
		errs = append(errs, errors.New("-j 0: use 1 or more, or leave it out for one per core"))
	}
	if f.set.Changed("readers") && f.readers == 0 {
		errs = append(errs, errors.New("--readers 0: use 1 or more, or leave it out for as many as workers"))
	}
	return errors.Join(errs...)
}

// setOptions sets how a job is run.
func (f *runFlags) setOptions(job *apply.Job) {
	c := &job.Controls
	c.WindowWidth, c.WindowHeight, c.MemoryBytes = f.blockWidth, f.blockHeight, f.memoryBytes
	job.Version, job.Resume = version, f.resume
}
