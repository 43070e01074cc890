package report

import (
	"fmt"
	"html"
	"html/template"
	"math"
	"slices"
	"strings"
	"time"

	"leat/internal/preview"
	"leat/internal/units"
	"leat/timing"
)

// The charts are SVG drawn into the page, coloured by its style sheet. All text that comes from
// outside goes through html.EscapeString; everything else is numbers.

const chartWidth = 1000

func svg(b *strings.Builder, height int, label string) {
	fmt.Fprintf(b, `<svg viewBox="0 0 %d %d" role="img" aria-label="%s" preserveAspectRatio="none">`, chartWidth,
		height, html.EscapeString(label))
}

// timelineBytes bounds the shapes of a timeline, and maxColumns the columns that it is cut into; in
// each column of a lane the stage that took most of it is shown.
const (
	timelineBytes = 100 << 10
	maxColumns    = 4000
	shapeBytes    = 14 // of one rectangle of a path
	laneHeight    = 20
)

// drawTimeline shows what each lane did when. The script of the page zooms into it by changing the
// view boxes.
func drawTimeline(lanes []*lane, wall time.Duration, colors map[string]string) template.HTML {
	if len(lanes) == 0 || wall <= 0 {
		return ""
	}
	columns := min(maxColumns, max(200, timelineBytes/shapeBytes/len(lanes)))
	var b strings.Builder
	b.WriteString(`<div class="lanes">`)
	for _, l := range lanes {
		fmt.Fprintf(&b, `<div class="lane"><span title="%s">%s</span>`, html.EscapeString(l.Name), html.EscapeString(l.Name))
		svg(&b, laneHeight, "timeline of "+l.Name+": "+l.shares(wall))
		for stage, path := range l.paths(wall, columns) {
			fmt.Fprintf(&b, `<path class="%s" d="%s"><title>%s</title></path>`, colors[stage], path, html.EscapeString(stage))
		}
		b.WriteString(`</svg></div>`)
	}
	b.WriteString(`<div class="lane axis"><span></span>` + timeAxis(wall) + `</div></div>`)
	return template.HTML(b.String())
}

// timeAxis is the row of times below a chart.
func timeAxis(wall time.Duration) string {
	var b strings.Builder
	b.WriteString(`<div class="times" data-axis>`)
	for i := range 5 {
		fmt.Fprintf(&b, `<span>%s</span>`, units.FormatDuration(wall*time.Duration(i)/4))
	}
	b.WriteString(`</div>`)
	return b.String()
}

// naturally sorts "worker 2" before "worker 10".
func naturally(a, b string) int {
	for a != "" && b != "" {
		da, db := digits(a), digits(b)
		if da > 0 && db > 0 {
			x, y := strings.TrimLeft(a[:da], "0"), strings.TrimLeft(b[:db], "0")
			if len(x) != len(y) {
				return len(x) - len(y)
			}
			if x != y {
				return strings.Compare(x, y)
			}
			a, b = a[da:], b[db:]
			continue
		}
		if a[0] != b[0] {
			return int(a[0]) - int(b[0])
		}
		a, b = a[1:], b[1:]
	}
	return len(a) - len(b)
}

func digits(s string) int {
	n := 0
	for n < len(s) && s[n] >= '0' && s[n] <= '9' {
		n++
	}
	return n
}

// drawSteps shows a gauge over time, each column by the largest value in it.
func drawSteps(points []timing.Point, wall time.Duration, label string) template.HTML {
	if len(points) == 0 || wall <= 0 {
		return ""
	}
	const columns, height = 400, 80
	values := make([]int64, columns)
	next, now := 0, points[0].Value
	top := int64(1)
	for c := range columns {
		end := wall * time.Duration(c+1) / columns
		values[c] = now
		first := true
		for next < len(points) && points[next].At < end {
			now = points[next].Value
			if first || now > values[c] {
				values[c] = now
			}
			first = false
			next++
		}
		top = max(top, values[c])
	}
	rates := make([]float64, columns)
	for c, v := range values {
		rates[c] = float64(v)
	}
	return template.HTML(drawArea(rates, float64(top), height, label))
}

// drawArea fills the area below values, which are evenly spaced over the width.
func drawArea(values []float64, top float64, height int, label string) string {
	var b strings.Builder
	svg(&b, height, label)
	fmt.Fprintf(&b, `<path class="area" d="M0 %d`, height)
	y := -1
	for c, v := range values {
		if level := height - int(math.Round(v*float64(height-4)/top)); level != y {
			fmt.Fprintf(&b, "H%dV%d", c*chartWidth/len(values), level)
			y = level
		}
	}
	fmt.Fprintf(&b, `H%dV%dZ"/></svg>`, chartWidth, height)
	return b.String()
}

// rateColumns is how many parts of the run throughput is averaged over.
const rateColumns = 50

// rateOf returns the rate, in units per second, in parts of the run from a count that grows.
func rateOf(points []timing.Point, wall time.Duration, unit float64) []float64 {
	if len(points) == 0 || wall <= 0 {
		return nil
	}
	at := func(t time.Duration) float64 { // the count grows evenly between its points
		i, _ := slices.BinarySearchFunc(points, t, func(p timing.Point, t time.Duration) int { return int(p.At - t) })
		switch {
		case i == len(points):
			return float64(points[i-1].Value)
		case i == 0:
			if points[0].At == 0 {
				return float64(points[0].Value)
			}
			return float64(points[0].Value) * float64(t) / float64(points[0].At)
		}
		a, b := points[i-1], points[i]
		return float64(a.Value) + float64(b.Value-a.Value)*float64(t-a.At)/float64(max(1, b.At-a.At))
	}
	rates := make([]float64, rateColumns)
	for c := range rates {
		from, to := wall*time.Duration(c)/rateColumns, wall*time.Duration(c+1)/rateColumns
		rates[c] = max(0, at(to)-at(from)) / unit / max(1e-9, (to-from).Seconds())
	}
	return rates
}

// blockRate gives blocks per second in parts of the run from the ends of computing.
func blockRate(spans []timing.Span, every int, wall time.Duration) []float64 {
	var points []timing.Point
	for _, s := range spans {
		if s.Stage == "computing" {
			points = append(points, timing.Point{At: s.Start + s.Length})
		}
	}
	slices.SortFunc(points, func(a, b timing.Point) int { return int(a.At - b.At) })
	for i := range points {
		points[i].Value = int64(i+1) * int64(max(1, every))
	}
	return rateOf(points, wall, 1)
}

// drawRate shows a rate over time. top is the end of its axis; 0: the largest value.
func drawRate(rates []float64, unit, what string, top float64, wall time.Duration) template.HTML {
	if len(rates) == 0 {
		return ""
	}
	most, sum := slices.Max(rates), 0.0
	if most == 0 {
		return ""
	}
	for _, v := range rates {
		sum += v
	}
	top = max(top, most)
	label := fmt.Sprintf("%s over time: mean %.3g, at most %.3g %s", what, sum/float64(len(rates)), most, unit)
	return template.HTML(fmt.Sprintf(`<div class="rate"><span class="top">%.3g %s</span>%s%s</div>`, top, unit,
		drawArea(rates, top, 120, label), timeAxis(wall)))
}

// drawHistogram shows a histogram with the range of its values.
func drawHistogram(h *Histogram) template.HTML {
	const most = 512
	counts := h.Counts
	if len(counts) > most {
		joined := make([]float64, most)
		for i, v := range counts {
			joined[i*most/len(counts)] += v
		}
		counts = joined
	}
	top := slices.Max(counts)
	if top == 0 {
		return ""
	}
	peak := h.Lo + (float64(slices.Index(counts, top))+.5)*(h.Hi-h.Lo)/float64(len(counts))
	label := fmt.Sprintf("histogram from %.5g to %.5g in %d bins, most pixels near %.3g", h.Lo, h.Hi, len(h.Counts), peak)
	return template.HTML(fmt.Sprintf(`<div class="histogram">%s<div class="times"><span>%.5g</span><span>%.5g</span><span>%.5g</span></div></div>`,
		drawArea(counts, top, 130, label), h.Lo, h.Lo+(h.Hi-h.Lo)/2, h.Hi))
}

// drawLegend shows what the colours of a single band mean; nothing for others.
func drawLegend(p *preview.Preview) template.HTML {
	if p.Ramp == nil {
		return ""
	}
	var b strings.Builder
	b.WriteString(`<div class="legend">`)
	svg(&b, 12, fmt.Sprintf("colours from %.4g to %.4g", p.Lo, p.Hi))
	const steps = 64
	for i := range steps {
		c := p.Ramp.At(float64(i) / (steps - 1))
		fmt.Fprintf(&b, `<rect x="%.1f" y="0" width="%.1f" height="12" fill="#%02x%02x%02x"/>`,
			float64(i)*chartWidth/steps, float64(chartWidth)/steps+.5, c.R, c.G, c.B)
	}
	fmt.Fprintf(&b, `</svg><div class="times"><span>%.4g</span><span>%.4g</span><span>%.4g</span></div></div>`, p.Lo,
		p.Lo+(p.Hi-p.Lo)/2, p.Hi)
	return template.HTML(b.String())
}
