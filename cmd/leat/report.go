package main

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"io"
	"runtime"
	"time"

	"leat/apply/remote"
	"leat/internal/publish"
	"leat/objstore"
	"leat/raster"
	"leat/timing"
)

// runReport is what the page of --report shows. Empty fields are left out of it.
type runReport struct {
	Command string // as typed
	Version string // of leat
	Started time.Time
	Cores   int    // of the machine; 0: asked of the runtime
	Err     string // why the run failed; empty when it did not
	Pixels  int64  // of the grid
	// Outside tells what limited a run of workers in other processes, whose processors' time is not known; "": there were none.
	Outside string
	Plan    []fact // grid, blocks, workers, memory
	Notes   []string
	Inputs  []reportRaster
	Outputs []reportRaster

	Summary timing.Summary
	Spans   []timing.Span
	Every   int // Spans are of every so many blocks
	Series  []timing.Series
}

// reportRaster is an input or output.
type reportRaster struct {
	Name, Path string
	Expression string
	Facts      []fact
	Preview    *preview // nil: none
	Bands      []reportBand
}

type reportBand struct {
	Band       int
	Name       string
	Statistics *infoStats
	Histogram  *histogram
}

// pixelsDone is the gauge from which throughput is drawn.
const pixelsDone = "pixels done"

// addTimings copies what rec knows now; a Summary that is set already, from the end of the run, is kept.
func (r *runReport) addTimings(rec *timing.Recorder) {
	if r.Summary.Wall == 0 {
		r.Summary = rec.Summary()
	}
	r.Spans, r.Every = rec.Spans()
	r.Series = rec.Series()
}

// addInput adds an open input.
func (r *runReport) addInput(name string, src raster.Source) {
	d := newInfoDoc(src)
	r.Inputs = append(r.Inputs, reportRaster{Name: name, Path: d.Path, Facts: d.facts()})
}

// addOutput adds a finished output with its quicklook, statistics and histograms. What can't be had of it is
// left out and noted: a report never makes a good run fail.
func (r *runReport) addOutput(ctx context.Context, in *remote.Stores, name, expression, path string) {
	out := reportRaster{Name: name, Path: objstore.Redact(path), Expression: expression}
	defer func() { r.Outputs = append(r.Outputs, out) }()
	src, err := openOutput(ctx, in, path)
	if err != nil {
		r.Notes = append(r.Notes, fmt.Sprintf("output %s can't be shown: %v", name, err))
		return
	}
	defer src.Close()
	d := newInfoDoc(src)
	out.Facts = d.facts()
	for _, b := range d.Bands {
		rb := reportBand{b.Band, b.Name, b.Statistics, storedHistogram(b.Metadata)}
		if rb.Histogram == nil {
			rb.Histogram = histogramOf(src, b.Band)
		}
		if rb.Statistics != nil || rb.Histogram != nil {
			out.Bands = append(out.Bands, rb)
		}
	}
	if out.Preview, err = newPreview(ctx, src, reportSide); err != nil {
		r.Notes = append(r.Notes, fmt.Sprintf("output %s has no quicklook: %v", name, err))
	}
}

// reportSide is the longest side of a quicklook on the page.
const reportSide = 760

// write writes the page to path; it appears whole or not at all.
func (r *runReport) write(path string) error {
	f, err := publish.Create(path, 0o666)
	if err != nil {
		return fmt.Errorf("report: %w", err)
	}
	defer f.Abort()
	if err := r.render(f); err != nil {
		return fmt.Errorf("report %s: %w", path, err)
	}
	return f.Commit()
}

//go:embed report.html
var reportPage string

// render writes the page: one file that needs nothing from elsewhere.
func (r *runReport) render(w io.Writer) error {
	t, err := template.New("report").Funcs(template.FuncMap{
		"duration":  timing.FormatDuration,
		"number":    numberText,
		"quicklook": quicklookURL,
		"legend":    drawLegend,
		"histogram": drawHistogram,
	}).Parse(reportPage)
	if err != nil {
		return err
	}
	var b bytes.Buffer
	if err := t.Execute(&b, r.view()); err != nil {
		return err
	}
	_, err = w.Write(b.Bytes())
	return err
}

// reportView is what the template sees.
type reportView struct {
	*runReport
	Machine    string
	When       string
	Tiles      []fact
	Advice     string
	Stages     []stageView
	Timeline   template.HTML
	Throughput template.HTML
	Gauges     []gaugeView
}

type stageView struct {
	timing.StageSummary
	Color string // CSS class
	Share float64
	Wait  bool
}

type gaugeView struct {
	Name  string
	Chart template.HTML
	Mean  string
	Max   int64
}

// view works out what the template shows.
func (r *runReport) view() *reportView {
	cores := r.Cores
	if cores == 0 {
		cores = runtime.NumCPU()
	}
	v := &reportView{runReport: r, Machine: fmt.Sprintf("%d cores, %s/%s", cores, runtime.GOOS, runtime.GOARCH)}
	if !r.Started.IsZero() {
		v.When = r.Started.Format("2006-01-02 15:04:05 -0700")
	}
	s := r.Summary
	v.Tiles = append(v.Tiles, fact{"wall clock", timing.FormatDuration(s.Wall)})
	if sec := s.Wall.Seconds(); sec > 0 {
		if r.Pixels > 0 {
			v.Tiles = append(v.Tiles, fact{"throughput", fmt.Sprintf("%.3g Mpixel/s", float64(r.Pixels)/1e6/sec)})
		}
		if s.CPU > 0 && r.Outside == "" {
			v.Tiles = append(v.Tiles, fact{"cores busy", fmt.Sprintf("%.1f of %d", s.CPU.Seconds()/sec, cores)})
		}
	}
	if r.Pixels > 0 {
		v.Tiles = append(v.Tiles, fact{"pixels", fmt.Sprintf("%.4g million", float64(r.Pixels)/1e6)})
	}
	if len(s.Stages) > 0 {
		if v.Advice = r.Outside; v.Advice == "" {
			v.Advice = s.Advice(cores)
		}
	}
	colors := stageColors(s)
	busy := 0.0
	for _, st := range s.Stages {
		if colors[st.Stage] != "wait" {
			busy += st.Total.Seconds()
		}
	}
	for _, st := range s.Stages {
		sv := stageView{StageSummary: st, Color: colors[st.Stage], Wait: colors[st.Stage] == "wait"}
		if !sv.Wait && busy > 0 {
			sv.Share = 100 * st.Total.Seconds() / busy
		}
		v.Stages = append(v.Stages, sv)
	}
	v.Timeline = drawTimeline(r.Spans, s.Wall, colors)
	for _, g := range r.Series {
		if g.Gauge == pixelsDone {
			v.Throughput = drawRate(rateOf(g.Points, s.Wall), "Mpixel/s", s.Wall)
			continue
		}
		gv := gaugeView{Name: g.Gauge, Chart: drawSteps(g.Points, s.Wall)}
		for _, gs := range s.Gauges {
			if gs.Gauge == g.Gauge {
				gv.Mean, gv.Max = numberText(gs.Mean), gs.Max
			}
		}
		v.Gauges = append(v.Gauges, gv)
	}
	if v.Throughput == "" {
		v.Throughput = drawRate(blockRate(r.Spans, r.Every, s.Wall), "blocks/s", s.Wall)
	}
	return v
}

// stageColors gives each stage a CSS class; all kinds of waiting look alike.
func stageColors(s timing.Summary) map[string]string {
	wait := map[string]bool{}
	for _, r := range timing.Remedies() {
		wait[r.Stage] = r.Role == timing.Wait
	}
	const classes = 9
	colors := map[string]string{}
	n := 0
	for _, st := range s.Stages {
		if wait[st.Stage] {
			colors[st.Stage] = "wait"
			continue
		}
		colors[st.Stage] = fmt.Sprintf("s%d", n%classes)
		n++
	}
	return colors
}

// quicklookURL gives the picture as part of the page.
func quicklookURL(p *preview) (template.URL, error) {
	var b bytes.Buffer
	b.WriteString("data:image/png;base64,")
	e := base64.NewEncoder(base64.StdEncoding, &b)
	if err := p.encode(e); err != nil {
		return "", err
	}
	if err := e.Close(); err != nil {
		return "", err
	}
	return template.URL(b.String()), nil
}

// numberText shows a measured number to five digits; pointers may be nil.
func numberText(v any) string {
	switch v := v.(type) {
	case *float64:
		if v == nil {
			return "–"
		}
		return fmt.Sprintf("%.5g", *v)
	case float64:
		return fmt.Sprintf("%.5g", v)
	}
	return fmt.Sprint(v)
}
