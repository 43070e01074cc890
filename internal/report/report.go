// Package report writes the page about a run: outputs with quicklook and histogram, a timeline,
// throughput and queues, as one HTML file that needs nothing from elsewhere.
package report

import (
	"bytes"
	_ "embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"io"
	"runtime"
	"strings"
	"time"

	"leat/internal/preview"
	"leat/internal/tempfile"
	"leat/internal/units"
	"leat/timing"
)

// Report is what the page shows. Empty fields are left out of it.
type Report struct {
	Command string // as typed
	Version string // of leat
	Started time.Time
	Cores   int    // of the machine; 0: asked of the runtime
	Err     string // why the run failed; empty when it did not
	Pixels  int64  // of the grid
	// Outside says that workers were in other processes, whose processor time is not known. Limit
	// then says what limited the run, if that is known.
	Outside bool
	Limit   string
	Plan    []Fact // grid, blocks, workers, memory
	Notes   []string
	Inputs  []Raster
	Outputs []Raster

	Summary  timing.Summary
	Remedies []Remedy // for the advice about Summary
	Spans    []timing.Span
	Every    int // Spans are of every so many blocks
	Series   []timing.Series
}

// Fact is a line of a list: a label and a value.
type Fact struct{ Label, Value string }

// Raster is an input or output.
type Raster struct {
	Name, Path string
	Expression string
	Facts      []Fact
	Preview    *preview.Preview // nil: none
	Bands      []Band
}

// Band is a band of an output.
type Band struct {
	Band       int // counted from 1
	Name       string
	Statistics *Statistics // nil: none
	Histogram  *Histogram  // nil: none
}

// Statistics are those of a band; nil where a value is not known or not finite.
type Statistics struct{ Min, Max, Mean, StdDev, ValidPercent *float64 }

// PixelsDone is the name of the gauge that the chart of throughput shows.
const PixelsDone = "pixels done"

// AddTimings copies what rec has recorded so far. A Summary that is already set, from the end of
// the run, stays.
func (r *Report) AddTimings(rec *timing.Recorder) {
	if r.Summary.Wall == 0 {
		r.Summary = rec.Summary()
	}
	r.Spans, r.Every = rec.Spans()
	r.Series = rec.Series()
}

// PreviewSide is the longest side of a quicklook on the page.
const PreviewSide = 760

// Write writes the page to path; it appears whole or not at all.
func (r *Report) Write(path string) error {
	f, err := tempfile.Create(path, 0o666)
	if err != nil {
		return fmt.Errorf("report: %w", err)
	}
	defer f.Abort()
	if err := r.render(f); err != nil {
		return fmt.Errorf("report %s: %w", path, err)
	}
	return f.Commit()
}

//go:embed page.html
var reportPage string

// render writes the page.
func (r *Report) render(w io.Writer) error {
	t, err := template.New("report").Funcs(template.FuncMap{
		"duration":  units.FormatDuration,
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
	*Report
	Machine    string
	When       string
	Tiles      []Fact
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

// view computes what the template shows.
func (r *Report) view() *reportView {
	cores := r.Cores
	if cores == 0 {
		cores = runtime.NumCPU()
	}
	v := &reportView{Report: r, Machine: fmt.Sprintf("%d cores, %s/%s", cores, runtime.GOOS, runtime.GOARCH)}
	if !r.Started.IsZero() {
		v.When = r.Started.Format("2006-01-02 15:04:05 -0700")
	}
	s := r.Summary
	v.Tiles = append(v.Tiles, Fact{"wall clock", units.FormatDuration(s.Wall)})
	if sec := s.Wall.Seconds(); sec > 0 {
		if r.Pixels > 0 {
			v.Tiles = append(v.Tiles, Fact{"throughput", fmt.Sprintf("%.3g Mpixel/s", float64(r.Pixels)/1e6/sec)})
		}
		if s.CPU > 0 && !r.Outside {
			v.Tiles = append(v.Tiles, Fact{"cores busy", fmt.Sprintf("%.1f of %d", s.CPU.Seconds()/sec, cores)})
		}
	}
	if r.Pixels > 0 {
		v.Tiles = append(v.Tiles, Fact{"pixels", fmt.Sprintf("%.4g million", float64(r.Pixels)/1e6)})
	}
	if len(s.Stages) > 0 {
		if v.Advice = r.Limit; !r.Outside {
			v.Advice = Advice(s, r.Remedies, cores)
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
		if g.Gauge == PixelsDone {
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

// stageColors returns a CSS class for each stage; all kinds of waiting share one.
func stageColors(s timing.Summary) map[string]string {
	const classes = 9
	colors := map[string]string{}
	n := 0
	for _, st := range s.Stages {
		if strings.HasPrefix(st.Stage, "waiting") {
			colors[st.Stage] = "wait"
			continue
		}
		colors[st.Stage] = fmt.Sprintf("s%d", n%classes)
		n++
	}
	return colors
}

// quicklookURL returns the picture as a data URL.
func quicklookURL(p *preview.Preview) (template.URL, error) {
	var b bytes.Buffer
	b.WriteString("data:image/png;base64,")
	e := base64.NewEncoder(base64.StdEncoding, &b)
	if err := p.Encode(e); err != nil {
		return "", err
	}
	if err := e.Close(); err != nil {
		return "", err
	}
	return template.URL(b.String()), nil
}

// numberText returns a measured number to five digits; pointers may be nil.
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
