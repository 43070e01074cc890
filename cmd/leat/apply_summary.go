package main

import (
	"fmt"
	"io"

	"leat/apply"
	"leat/internal/terminal"
	"leat/internal/units"
)

// summarise writes what was done for the user. What can't be written is lost without an error: the
// work is done.
func (f *applyFlags) summarise(w io.Writer, res *apply.Result) {
	for _, note := range res.Plan.Notes {
		fmt.Fprintln(w, note)
	}
	for _, o := range res.Outputs {
		fmt.Fprintf(w, "%s: %d x %d, %d x %v, %s (%v)", terminal.Name(o.Path), res.Plan.Grid.Width,
			res.Plan.Grid.Height, len(o.Bands), o.Type, units.FormatSize(o.Bytes), o.Coding)
		if o.Nodata != nil {
			fmt.Fprintf(w, ", nodata %v", o.Nodata)
		}
		fmt.Fprintln(w)
		for i, b := range o.Bands {
			if m := b.Moments; m.Valid > 0 {
				fmt.Fprintf(w, "  band %d: %.6g to %.6g, mean %.6g, stddev %.6g, %.4g %% valid\n", i+1, m.Min, m.Max,
					m.Mean, m.StdDev(), m.ValidPercent())
			} else if m.Total > 0 {
				fmt.Fprintf(w, "  band %d: no valid pixel\n", i+1)
			}
		}
	}
	if o := res.Workers; o != nil && o.LostWorkers > 0 {
		fmt.Fprintf(w, "workers that were lost: %d, and replaced: %d; blocks that were given out again: %d\n",
			o.LostWorkers, o.ReplacedWorkers, o.Reissued)
	}
	fmt.Fprintln(w)
	res.Timings.Text(w, f.verbose)
	if text := advice(res.Timings, res.Plan); text != "" {
		fmt.Fprintln(w, text)
	}
}
