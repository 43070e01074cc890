package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"leat/apply"
	"leat/apply/remote"
	"leat/timing"
)

// writeReport writes the page about a finished run.
func writeReport(ctx context.Context, in *remote.Stores, path string, job *apply.Job, res *apply.Result, rec *timing.Recorder) error {
	r := &runReport{Command: commandLine(os.Args), Version: version, Started: time.Now().Add(-res.Wall),
		Pixels: res.Pixels, Plan: planFacts(res.Plan), Notes: res.Plan.Notes}
	if res.Plan.Kind != "" {
		r.Outside = advice(res.Timings, res.Plan)
	}
	for _, name := range sortedNames(job.Inputs) {
		files := job.Inputs[name].Files
		for i, path := range files {
			if i == maxReportFiles {
				r.Notes = append(r.Notes, fmt.Sprintf("input %s has %d files; the first %d are shown", name, len(files), i))
				break
			}
			src, err := in.Open(ctx, path)
			if err != nil {
				return err
			}
			label := name
			if job.Inputs[name].List {
				label = fmt.Sprintf("%s[%d]", name, i+1)
			}
			r.addInput(label, src)
			if err := src.Close(); err != nil {
				return err
			}
		}
	}
	for _, o := range res.Outputs {
		r.addOutput(ctx, in, o.Name, job.Expressions[o.Name], job.Outputs[o.Name].Path)
		for _, w := range o.Warnings {
			r.Notes = append(r.Notes, o.Name+": "+w)
		}
	}
	r.addTimings(rec)
	r.Summary = res.Timings // without the time that preview and report take
	return r.write(path)
}

// maxReportFiles bounds the files of one input that the page lists.
const maxReportFiles = 24

func workersText(p *apply.Plan) string {
	switch {
	case p.WorkersRead:
		return fmt.Sprintf("%d of %s, which read their inputs", p.Workers, p.Kind)
	case p.Kind != "":
		return fmt.Sprintf("%d of %s, and %d reading ahead", p.Workers, p.Kind, p.Readers)
	}
	return fmt.Sprintf("%d, and %d reading ahead", p.Workers, p.Readers)
}

func planFacts(p *apply.Plan) []fact {
	b := p.Blocks
	facts := []fact{
		{"grid", fmt.Sprintf("%d x %d pixels", p.Grid.Width, p.Grid.Height)},
		{"CRS", p.Grid.CRS.String()},
		{"blocks", fmt.Sprintf("%d of %d x %d pixels", b.Count(), b.WindowWidth, b.WindowHeight)},
		{"workers", workersText(p)},
		{"memory", fmt.Sprintf("about %s of %s allowed", byteText(p.MemoryBytes), byteText(p.BudgetBytes))},
	}
	if b.Overlap > 0 {
		facts = append(facts, fact{"overlap", fmt.Sprintf("%d pixels", b.Overlap)})
	}
	return facts
}

// commandLine shows arguments as a shell takes them.
func commandLine(args []string) string {
	quoted := make([]string, len(args))
	for i, a := range args {
		a = redact(a)
		if a == "" || strings.ContainsAny(a, " \t\n'\"\\$&|;<>()*?[]{}#~!`") {
			a = "'" + strings.ReplaceAll(a, "'", `'\''`) + "'"
		}
		quoted[i] = a
	}
	return strings.Join(quoted, " ")
}
