package main

import (
	"context"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"time"

	"leat/apply"
	"leat/apply/outcome"
	"leat/internal/preview"
	"leat/internal/report"
	"leat/internal/storeurl"
	"leat/internal/units"
	"leat/stores"
	"leat/timing"
)

// writeReport writes the page about a finished run.
func writeReport(ctx context.Context, in *stores.Stores, path string, job *apply.Job, res *apply.Result,
	rec *timing.Recorder) error {
	r := &report.Report{Command: reportedCommand(os.Args), Version: version, Started: time.Now().Add(-res.Wall),
		Pixels: res.Pixels, Remedies: remedies, Plan: reportFacts(planFacts(res.Plan)),
		Notes: noteTexts(res.Plan.Notes, res.Plan.Warnings)}
	if res.Plan.Kind != "" {
		r.Outside, r.Limit = true, advice(res.Timings, res.Plan)
	}
	for _, name := range sortedNames(job.Inputs) {
		files := job.Inputs[name].Files
		for i, path := range files {
			if i == maxReportFiles {
				r.Notes = append(r.Notes,
					fmt.Sprintf("input %s has %d files; the first %d are shown", name, len(files), i))
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
			d := newInfoDoc(src)
			r.Inputs = append(r.Inputs, report.Raster{Name: label, Path: d.Path, Facts: reportFacts(d.facts())})
			if err := src.Close(); err != nil {
				return err
			}
		}
	}
	for _, o := range res.Outputs {
		if o.Polygons != nil {
			r.Outputs = append(r.Outputs, report.Raster{Name: o.Name, Path: o.Path, Expression: job.Expressions[o.Name],
				Facts: []report.Fact{{Label: "format", Value: o.Format}, {Label: "polygons", Value: fmt.Sprint(*o.Polygons)},
					{Label: "size", Value: units.FormatSize(o.Bytes)}}})
			for _, w := range o.Warnings {
				r.Notes = append(r.Notes, o.Name+": "+w.Text)
			}
			continue
		}
		addReportOutput(ctx, r, in, o.Name, job.Expressions[o.Name], job.Outputs[o.Name].Path)
		for _, w := range o.Warnings {
			r.Notes = append(r.Notes, o.Name+": "+w.Text)
		}
	}
	r.AddTimings(rec)
	r.Summary = res.Timings // without the time that preview and report take
	return r.Write(path)
}

// addReportOutput adds a finished output with its quicklook, statistics and histograms. What can't
// be read of it becomes a note: a report never makes a good run fail.
func addReportOutput(ctx context.Context, r *report.Report, in *stores.Stores, name, expression, path string) {
	out := report.Raster{Name: name, Path: storeurl.Redact(path), Expression: expression}
	defer func() { r.Outputs = append(r.Outputs, out) }()
	src, err := openOutput(ctx, in, path)
	if err != nil {
		r.Notes = append(r.Notes, fmt.Sprintf("output %s can't be shown: %v", name, err))
		return
	}
	defer src.Close()
	d := newInfoDoc(src)
	out.Facts = reportFacts(d.facts())
	for _, b := range d.Bands {
		rb := report.Band{Band: b.Band, Name: b.Name, Histogram: report.StoredHistogram(b.Metadata)}
		if s := b.Statistics; s != nil {
			rb.Statistics = &report.Statistics{
				Min: finite(s.Min), Max: finite(s.Max), Mean: finite(s.Mean), StdDev: finite(s.StdDev),
				ValidPercent: finite(s.ValidPercent),
			}
		}
		if rb.Histogram == nil {
			rb.Histogram = report.HistogramOf(src, b.Band)
		}
		if rb.Statistics != nil || rb.Histogram != nil {
			out.Bands = append(out.Bands, rb)
		}
	}
	if out.Preview, err = preview.New(ctx, src, report.PreviewSide); err != nil {
		r.Notes = append(r.Notes, fmt.Sprintf("output %s has no quicklook: %v", name, err))
	}
}

// finite returns a number that the page can show, or nil.
func finite(v *jsonFloat) *float64 {
	if v == nil || math.IsNaN(float64(*v)) || math.IsInf(float64(*v), 0) {
		return nil
	}
	return (*float64)(v)
}

func reportFacts(facts []fact) []report.Fact {
	list := make([]report.Fact, len(facts))
	for i, f := range facts {
		list[i] = report.Fact(f)
	}
	return list
}

// maxReportFiles bounds the files of one input that the page lists.
const maxReportFiles = 24

func workersText(p *outcome.Plan) string {
	copies := ""
	if p.NoCopies {
		copies = ", without copies of the last blocks"
	}
	switch {
	case p.WorkersRead:
		return fmt.Sprintf("%d of %s, which read their inputs%s", p.Workers, p.Kind, copies)
	case p.Kind != "":
		return fmt.Sprintf("%d of %s, and %d reading ahead%s", p.Workers, p.Kind, p.Readers, copies)
	}
	return fmt.Sprintf("%d, and %d reading ahead", p.Workers, p.Readers)
}

func planFacts(p *outcome.Plan) []fact {
	b := p.Blocks
	facts := []fact{
		{"grid", fmt.Sprintf("%d x %d pixels", p.Grid.Width, p.Grid.Height)},
		{"CRS", p.Grid.CRS.String()},
		{"blocks", fmt.Sprintf("%d of %d x %d pixels", b.Count(), b.WindowWidth, b.WindowHeight)},
		{"workers", workersText(p)},
		{"memory", fmt.Sprintf("about %s of %s allowed", units.FormatSize(p.MemoryBytes), units.FormatSize(p.BudgetBytes))},
	}
	if p.SkippedBlocks > 0 {
		facts[2].Value += fmt.Sprintf(", %d of them skipped", p.SkippedBlocks)
	}
	if b.Overlap > 0 {
		facts = append(facts, fact{"overlap", fmt.Sprintf("%d pixels", b.Overlap)})
	}
	return facts
}

// reportedCommand is the command line, or "" if standard input has the job, as from leat.apply: the
// arguments then say nothing about it.
func reportedCommand(args []string) string {
	if i := slices.Index(args, "--job"); i >= 0 && i+1 < len(args) && args[i+1] == "-" {
		return ""
	}
	return commandLine(args)
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
