// Package report writes the page about a run: outputs with quicklook and histogram, a timeline,
// throughput and queues, as one HTML file that needs nothing from elsewhere.
package report

import (
	"bytes"
	_ "embed"
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

// Gauges with charts of their own: the pixels done, the process's resident memory in bytes, and the
// processor time that it has used, in milliseconds.
const (
	PixelsDone = "pixels done"
	Memory     = "memory"
	Processor  = "processor time"
)

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
		"duration": units.FormatDuration,
		"number":   numberText,
		"small":    func(p *preview.Preview) bool { return max(p.Image.Rect.Dx(), p.Image.Rect.Dy()) < smallPicture },
		"quicklook": func(p *preview.Preview) (template.URL, error) {
			return quicklookURL(p, pictureBytes/max(1, len(r.Outputs)))
		},
		"describe":  quicklookText,
		"short":     shorten,
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
	Lanes      []laneView
	Timeline   template.HTML
	Wall       float64 // seconds
	Throughput template.HTML
	Processor  template.HTML
	Memory     template.HTML
	MemoryMax  string
	Gauges     []gaugeView
}

// laneView is a row of the table of workers and readers.
type laneView struct {
	*lane
	Share   float64 // percent of the run in which it worked
	Waiting time.Duration
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
	Max   string
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
			v.Tiles = append(v.Tiles, Fact{"throughput", rateText(float64(r.Pixels) / sec)})
		}
		if s.CPU > 0 && !r.Outside {
			v.Tiles = append(v.Tiles, Fact{"cores busy", fmt.Sprintf("%.1f of %d", s.CPU.Seconds()/sec, cores)})
		}
	}
	if r.Pixels > 0 {
		v.Tiles = append(v.Tiles, Fact{"pixels", pixelText(r.Pixels)})
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
	r.viewLanes(v, colors)
	for _, g := range r.Series {
		switch g.Gauge {
		case PixelsDone:
			v.Throughput = drawRate(rateOf(g.Points, s.Wall, 1e6), "Mpixel/s", "throughput", 0, s.Wall)
		case Processor:
			v.Processor = drawRate(rateOf(g.Points, s.Wall, 1e3), "cores", "processor", float64(cores), s.Wall)
		default:
			v.viewGauge(g, s)
		}
	}
	if v.Throughput == "" {
		v.Throughput = drawRate(blockRate(r.Spans, r.Every, s.Wall), "blocks/s", "throughput", 0, s.Wall)
	}
	return v
}

// viewLanes adds the timeline and the table of workers and readers.
func (r *Report) viewLanes(v *reportView, colors map[string]string) {
	wall := r.Summary.Wall
	for _, s := range r.Spans { // clocks of other processes may be a little ahead
		wall = max(wall, s.Start+s.Length)
	}
	lanes := lanesOf(r.Spans)
	v.Timeline, v.Wall = drawTimeline(lanes, wall, colors), wall.Seconds()
	for _, l := range lanes {
		lv := laneView{lane: l}
		for stage, d := range l.Stages {
			if isWait(stage) {
				lv.Waiting += d
			}
		}
		if wall > 0 {
			lv.Share = 100 * l.Busy.Seconds() / wall.Seconds()
		}
		v.Lanes = append(v.Lanes, lv)
	}
}

// viewGauge adds the chart of a gauge.
func (v *reportView) viewGauge(g timing.Series, s timing.Summary) {
	gv := gaugeView{Name: g.Gauge}
	for _, gs := range s.Gauges {
		if gs.Gauge != g.Gauge {
			continue
		}
		gv.Mean, gv.Max = fmt.Sprintf("%.3g", gs.Mean), fmt.Sprint(gs.Max)
		if g.Gauge == Memory {
			gv.Mean, gv.Max = units.FormatSize(int64(gs.Mean)), units.FormatSize(gs.Max)
		}
	}
	gv.Chart = drawSteps(g.Points, s.Wall, fmt.Sprintf("%s over time: mean %s, at most %s", gv.Name, gv.Mean, gv.Max))
	if g.Gauge == Memory {
		v.Memory, v.MemoryMax = gv.Chart, gv.Max
		v.Tiles = append(v.Tiles, Fact{"memory at most", gv.Max})
		return
	}
	v.Gauges = append(v.Gauges, gv)
}

// shorten returns the beginning of a long text, and "" for one that needs no shortening.
func shorten(text string) string {
	const most = 160
	if len(text) <= most {
		return ""
	}
	return strings.ToValidUTF8(text[:most-1], "") + "…"
}

// stageColors returns a CSS class for each stage; all kinds of waiting share one.
func stageColors(s timing.Summary) map[string]string {
	const classes = 9
	colors := map[string]string{}
	n := 0
	for _, st := range s.Stages {
		if isWait(st.Stage) {
			colors[st.Stage] = "wait"
			continue
		}
		colors[st.Stage] = fmt.Sprintf("s%d", n%classes)
		n++
	}
	return colors
}

// rateText returns a number of pixels a second, as progress bars show it.
func rateText(pixels float64) string {
	v := pixels / 1e6
	switch {
	case v < 0.005:
		return "< 0.01 Mpixel/s"
	case v < 1:
		return fmt.Sprintf("%.2f Mpixel/s", v)
	case v < 10:
		return fmt.Sprintf("%.1f Mpixel/s", v)
	}
	return fmt.Sprintf("%.0f Mpixel/s", v)
}

// pixelText returns a number of pixels: to the last one below a million.
func pixelText(n int64) string {
	switch {
	case n < 1e6:
		return fmt.Sprint(n)
	case n < 999_500_000:
		return fmt.Sprintf("%.3g million", float64(n)/1e6)
	case n < 999_500_000_000:
		return fmt.Sprintf("%.3g billion", float64(n)/1e9)
	}
	return fmt.Sprintf("%.0f billion", float64(n)/1e9)
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
