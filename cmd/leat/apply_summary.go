package main

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"text/tabwriter"
	"time"

	"leat/apply"
	"leat/apply/outcome"
	"leat/internal/storeurl"
	"leat/internal/terminal"
	"leat/internal/units"
	"leat/timing"
)

// summarize writes what was done: a line for each output, and one for the run. What can't be
// written is lost without an error: the work is done.
func (f *applyFlags) summarize(w io.Writer, res *apply.Result, items []*itemFile) {
	printMessages(w, notePrefix, noteMessages("", res.Plan.Notes))
	for _, o := range res.Outputs {
		fmt.Fprintln(w, outputText(res.Plan, &o))
		if f.verbose && !o.Table && o.Polygons == nil {
			fmt.Fprintln(w, "  stored as", o.Coding)
			printBands(w, o.Bands)
		}
	}
	for _, it := range items {
		fmt.Fprintf(w, "%s: STAC item of %s\n", terminal.Name(storeurl.Redact(it.path)), andList(it.outputs))
	}
	fmt.Fprintln(w, doneText(res))
	if f.verbose {
		printStages(w, res)
	}
}

// outputText describes a finished output in one line.
func outputText(p *outcome.Plan, o *outcome.OutputResult) string {
	if o.Table {
		return fmt.Sprintf("%s: %s, %s", terminal.Name(o.Path), o.Format, units.FormatSize(o.Bytes))
	}
	if o.Polygons != nil {
		return fmt.Sprintf("%s: %s, %s, %s", terminal.Name(o.Path), units.Plural(*o.Polygons, "polygon", "polygons"), o.Format,
			units.FormatSize(o.Bytes))
	}
	text := fmt.Sprintf("%s: %d x %d pixels", terminal.Name(o.Path), p.Grid.Width, p.Grid.Height)
	if n := len(o.Bands); n > 1 {
		text += ", " + units.Count(n, "band")
	}
	text += fmt.Sprintf(" of %v, ", o.Type)
	if o.Format != "GTiff" {
		text += o.Format + ", "
	}
	text += units.FormatSize(o.Bytes)
	if o.Nodata != nil {
		text += fmt.Sprintf(", nodata %v", o.Nodata)
	}
	return text
}

// printBands writes the statistics of bands.
func printBands(w io.Writer, bands []outcome.BandResult) {
	for i, b := range bands {
		if b.Valid > 0 {
			fmt.Fprintf(w, "  band %d: %.6g to %.6g, mean %.6g, standard deviation %.4g, %s valid\n", i+1, b.Min, b.Max,
				b.Mean, b.StdDev, percentText(b.ValidPercent))
		} else if b.Pixels > 0 {
			fmt.Fprintf(w, "  band %d: no valid pixel\n", i+1)
		}
	}
}

// percentText gives a share of pixels; only all of them are 100 %, and only none are 0 %.
func percentText(v float64) string {
	switch {
	case v > 0 && v < 0.01:
		return "below 0.01 %"
	case v < 100 && v > 99.99:
		return "above 99.99 %"
	}
	return strconv.FormatFloat(v, 'g', 4, 64) + " %"
}

// doneText is the line of a finished run.
func doneText(res *apply.Result) string {
	text := fmt.Sprintf("done in %s (%s", secondsText(res.Wall), units.Count(res.Blocks, "block"))
	if res.Resumed > 0 { // when the others were computed is not known, so there is no rate
		return text + fmt.Sprintf(", %d from an earlier run)", res.Resumed)
	}
	return text + ", " + rateText(float64(res.Pixels)/max(1e-9, res.Wall.Seconds())) + ")"
}

// secondsText gives a duration in seconds, from 100 of them on in minutes.
func secondsText(d time.Duration) string {
	switch {
	case d < 100*time.Millisecond:
		return fmt.Sprintf("%.3f s", d.Seconds())
	case d < 10*time.Second:
		return fmt.Sprintf("%.2f s", d.Seconds())
	case d < 100*time.Second:
		return fmt.Sprintf("%.1f s", d.Seconds())
	}
	return units.FormatDuration(d)
}

// rateText gives pixels per second with two or three digits.
func rateText(pixels float64) string {
	v := pixels / 1e6
	digits := 0
	switch {
	case v < 1:
		digits = 2
	case v < 10:
		digits = 1
	}
	return strconv.FormatFloat(v, 'f', digits, 64) + " Mpixel/s"
}

// stageNames maps stages of a run to words that users know; other stages keep their names.
var stageNames = map[string]string{
	"encoding": "compressing", "spooling": "writing blocks", "laying out": "writing outputs",
	"writing by GDAL": "writing outputs by GDAL", "waiting to read": "waiting for memory",
	"waiting for input": "waiting for inputs", "staging": "copying inputs", "waiting for staging": "waiting for copies",
	"rasterizing": "rasterizing vectors", "resuming": "reading earlier blocks",
}

// stageName returns the words for a stage.
func stageName(stage string) string {
	if name, ok := stageNames[stage]; ok {
		return name
	}
	return stage
}

// inUserWords returns a summary whose stages have the names of stageName.
func inUserWords(s timing.Summary) timing.Summary {
	s.Stages = slices.Clone(s.Stages)
	for i := range s.Stages {
		s.Stages[i].Stage = stageName(s.Stages[i].Stage)
	}
	return s
}

// printStages writes where the time went, and what would shorten the run.
func printStages(w io.Writer, res *apply.Result) {
	s := inUserWords(res.Timings)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "\nstage\tcount\ttotal\tmedian\tlongest")
	for _, st := range s.Stages {
		fmt.Fprintf(t, "%s\t%d\t%s\t%s\t%s\n", st.Stage, st.N, units.FormatDuration(st.Total),
			units.FormatDuration(st.Median), units.FormatDuration(st.Max))
	}
	t.Flush()
	if s.CPU > 0 && s.Wall > 0 {
		fmt.Fprintf(w, "processor time %s: %.1f cores were busy\n", units.FormatDuration(s.CPU),
			s.CPU.Seconds()/s.Wall.Seconds())
	}
	if o := res.Workers; o != nil && o.LostWorkers > 0 {
		fmt.Fprintf(w, "%s, %d replaced; %s\n", units.Plural(o.LostWorkers, "worker was lost", "workers were lost"),
			o.ReplacedWorkers, units.Plural(o.Reissued, "block was retried", "blocks were retried"))
	}
	if text := advice(res.Timings, res.Plan); text != "" {
		printLine(w, hintPrefix, text)
	}
}
