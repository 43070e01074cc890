package main

import "github.com/spf13/pflag"

// runFlags are the options of how a job is run.
type runFlags struct {
	workers, readers            int
	memory, window              string
	overlap                     int
	margin                      string
	resume, unfinished, discard bool
}

// AddFlags adds the options.
func (f *runFlags) AddFlags(fl *pflag.FlagSet) {
	fl.IntVarP(&f.workers, "jobs", "j", 0, "`N`: workers that compute and encode (default: one per core)")
	group(fl, "jobs", "Running")
	fl.IntVar(&f.readers, "readers", 0, "`N`: readers that read ahead (default: as many as workers)")
	fl.StringVar(&f.memory, "memory", "",
		"`SIZE`: ceiling for the memory, such as 500M or 2G (default: a quarter of the machine's)")
	fl.StringVar(&f.window, "window", "",
		"`N`: size of blocks in pixels, or WIDTHxHEIGHT, rounded up to whole output tiles (default: planned from the memory)")
	fl.IntVar(&f.overlap, "overlap", 0, "`N`: margin in pixels around blocks; expressions do not look at neighbours, so it changes nothing for them")
	fl.StringVar(&f.margin, "margin", "nodata",
		"`WHAT`: what stands in a margin beyond the data: nodata (default), reflect or nearest")
	fl.BoolVar(&f.resume, "resume", false,
		"go on from what the same command left when it failed, was interrupted or killed: blocks that it has done are not done again")
	fl.BoolVar(&f.unfinished, "unfinished", false,
		"list the unfinished outputs in directories, leat apply --unfinished [DIR...] (default: the current one), and do nothing else")
	fl.BoolVar(&f.discard, "discard", false,
		"remove what failed runs left of the outputs (-o), or in whole directories, leat apply --discard DIR..., and do nothing else")
	if err := fl.MarkHidden("discard"); err != nil { // the earlier form of leat apply discard
		panic(err)
	}
}
