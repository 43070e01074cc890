package apply

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"leat/apply/internal/exec"
	"leat/apply/outcome"
	"leat/internal/units"
	"leat/timing"
	"leat/worker"
)

// Result describes a finished run.
type Result struct {
	Plan    *outcome.Plan
	Outputs []outcome.OutputResult // sorted by name
	Timings timing.Summary
	Wall    time.Duration
	Blocks  int
	Resumed int // blocks of an earlier run
	Pixels  int64
	// Workers is the status of worker processes: which there were, how many were lost, how many
	// blocks were retried; nil if there were none.
	Workers *worker.Status
}

// String returns one line: the number of outputs and blocks, and the time.
func (r *Result) String() string {
	s := fmt.Sprintf("%s, %s, %.1f Mpixel in %.2f s", units.Count(len(r.Outputs), "output"), units.Count(r.Blocks, "block"),
		float64(r.Pixels)/1e6, r.Wall.Seconds())
	if r.Resumed > 0 {
		s += fmt.Sprintf(" (%d from an earlier run)", r.Resumed)
	}
	return s
}

// newResult returns the public form of a result.
func newResult(r *exec.Result, p *outcome.Plan, timings timing.Summary, wall time.Duration) *Result {
	planned := *p
	planned.Notes = slices.Concat(p.Notes, r.Notes)
	res := &Result{Plan: &planned, Blocks: r.Blocks, Resumed: r.Resumed, Pixels: r.Pixels, Workers: r.Workers,
		Timings: timings, Wall: wall}
	for i, o := range r.Outputs {
		out := *o
		if r.Counts != nil {
			addCounts(&out, &r.Counts[i])
		}
		warnOfPixels(&out)
		res.Outputs = append(res.Outputs, out)
	}
	return res
}

// addCounts adds the counts of an expression, and warnings about them.
func addCounts(res *outcome.OutputResult, c *exec.Counts) {
	res.Counts = outcome.Counts{Pixels: c.Pixels, Invalid: c.Invalid, NaN: c.NaN, Inf: c.Inf, Saturated: c.Saturated,
		NodataCollision: c.NodataCollision}
	if c.Saturated > 0 {
		res.Warnings = append(res.Warnings,
			outcome.Note{Field: "Output.Type", Text: fmt.Sprintf("%s beyond the range of %v and became its nearest value",
				units.Plural(c.Saturated, "pixel was", "pixels were"), res.Type)})
	}
	if c.NodataCollision > 0 {
		note := outcome.Note{Field: "Output.Nodata", Text: fmt.Sprintf(
			"%s computed as the nodata value %v, the first at column %d, row %d: readers will take that for nodata",
			units.Plural(c.NodataCollision, "valid pixel was", "valid pixels were"), res.Nodata, c.First.Col, c.First.Row)}
		if res.Type.IsFloat() {
			note.Value = "nan"
		}
		res.Warnings = append(res.Warnings, note)
	}
}

// warnOfPixels adds warnings about an output whose pixels are probably a mistake.
func warnOfPixels(res *outcome.OutputResult) {
	var infinite int64
	var empty []string
	for i, b := range res.Bands {
		infinite += b.Infinite
		if b.Pixels > 0 && b.Valid+b.Infinite == 0 {
			empty = append(empty, fmt.Sprint(i+1))
		}
	}
	c := &res.Counts
	if n := max(c.Inf, infinite); n > 0 {
		res.Warnings = append(res.Warnings,
			outcome.Note{Text: fmt.Sprintf("%s infinite", units.Plural(n, "pixel is", "pixels are"))})
	}
	switch {
	case len(empty) > 0 && len(empty) == len(res.Bands), c.Pixels > 0 && c.Invalid == c.Pixels:
		res.Warnings = append(res.Warnings, outcome.Note{Text: "it has no valid pixel"})
	case res.Polygons != nil && *res.Polygons == 0:
		res.Warnings = append(res.Warnings, outcome.Note{Text: "it has no polygon"})
	case len(empty) > 0:
		res.Warnings = append(res.Warnings,
			outcome.Note{Text: fmt.Sprintf("%s no valid pixel: %s", units.Plural(int64(len(empty)), "band has", "bands have"),
				strings.Join(empty, ", "))})
	}
}
