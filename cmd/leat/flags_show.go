package main

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/spf13/pflag"
)

// showFlags are the options of what a run shows.
type showFlags struct {
	plan                            bool
	preview, report, trace, serveAt string
	json, quiet, verbose            bool
}

// AddFlags adds the options of leat apply.
func (f *showFlags) AddFlags(fl *pflag.FlagSet) {
	f.addPlan(fl)
	fl.StringVar(&f.preview, "preview", "", "`FILE.png`: write a quicklook of the output that is first by name")
	fl.StringVar(&f.report, "report", "", "`FILE.html`: write a page about the run")
	f.addShowing(fl)
}

func (f *showFlags) addPlan(fl *pflag.FlagSet) {
	fl.BoolVar(&f.plan, "plan", false, "show what would be done, and do nothing (also --dry-run)")
	group(fl, "plan", "Seeing it")
}

// addShowing adds the options of all commands that run a job.
func (f *showFlags) addShowing(fl *pflag.FlagSet) {
	fl.StringVar(&f.trace, "trace", "", "`FILE.json`: write a timeline for Perfetto or chrome://tracing")
	fl.StringVar(&f.serveAt, "serve", "",
		"`PORT`: show the run while it goes, as a page for a browser and as metrics for Prometheus, on this machine alone (127.0.0.1), or at HOST:PORT; 0: a free port")
	fl.BoolVar(&f.json, "json", false, "events and results as JSON lines on standard output")
	addQuiet(fl, &f.quiet)
	fl.BoolVar(&f.verbose, "verbose", false, "say more at the end: statistics of the outputs, and how long reading, computing and writing took")
}

// addQuiet adds -q, which means the same for all commands that have it.
func addQuiet(fl *pflag.FlagSet, quiet *bool) {
	fl.BoolVarP(quiet, "quiet", "q", false, "say nothing but warnings and errors")
}

// Finalize checks the values of the options.
func (f *showFlags) Finalize() error {
	if f.preview != "" && !strings.EqualFold(filepath.Ext(f.preview), ".png") {
		return fmt.Errorf("--preview %s: the preview is a PNG: give a name that ends in .png", f.preview)
	}
	return nil
}
