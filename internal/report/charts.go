package report

import (
	"fmt"
	"html"
	"html/template"
	"maps"
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

// timelineColumns is how finely the timeline is drawn; in each column of a lane the stage that took
// most of it is shown.
const timelineColumns = 1200

// drawTimeline shows what each lane did when.
func drawTimeline(spans []timing.Span, wall time.Duration, colors map[string]string) template.HTML {
	if len(spans) == 0 || wall <= 0 {
		return ""
	}
	for _, s := range spans { // clocks of other processes may be a little ahead
		wall = max(wall, s.Start+s.Length)
	}
	lanes := map[string]map[string][]float64{} // lane, stage, share of each column
	var names []string
	for _, s := range spans {
		if lanes[s.Lane] == nil {
			lanes[s.Lane] = map[string][]float64{}
			names = append(names, s.Lane)
		}
		columns := lanes[s.Lane][s.Stage]
		if columns == nil {
			columns = make([]float64, timelineColumns)
			lanes[s.Lane][s.Stage] = columns
		}
		from := max(0, float64(s.Start)/float64(wall)*timelineColumns)
		to := float64(s.Start+s.Length) / float64(wall) * timelineColumns
		for c := int(from); c < timelineColumns && float64(c) < to; c++ {
			columns[c] += min(to, float64(c+1)) - max(from, float64(c))
		}
	}
	slices.SortFunc(names, naturally)
	var b strings.Builder
	b.WriteString(`<div class="lanes">`)
	for _, name := range names {
		fmt.Fprintf(&b, `<div class="lane"><span>%s</span>`, html.EscapeString(name))
		svg(&b, 20, "timeline of "+name)
		stages := slices.Sorted(maps.Keys(lanes[name]))
		most := func(c int) string {
			best, share := "", 0.02 // less than that of a column is not seen
			for _, s := range stages {
				if v := lanes[name][s][c]; v > share {
					best, share = s, v
				}
			}
			return best
		}
		for c := 0; c < timelineColumns; {
			stage, end := most(c), c+1
			for end < timelineColumns && most(end) == stage {
				end++
			}
			if stage != "" {
				fmt.Fprintf(&b, `<rect x="%.2f" y="0" width="%.2f" height="20" class="%s"><title>%s, %s to %s</title></rect>`,
					float64(c)*chartWidth/timelineColumns, float64(end-c)*chartWidth/timelineColumns, colors[stage],
					html.EscapeString(stage),
					units.FormatDuration(wall*time.Duration(c)/timelineColumns),
					units.FormatDuration(wall*time.Duration(end)/timelineColumns))
			}
			c = end
		}
		b.WriteString(`</svg></div>`)
	}
	b.WriteString(`<div class="lane axis"><span></span>` + timeAxis(wall) + `</div></div>`)
	return template.HTML(b.String())
}

// timeAxis is the row of times below a chart.
func timeAxis(wall time.Duration) string {
	var b strings.Builder
	b.WriteString(`<div class="times">`)
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
func drawSteps(points []timing.Point, wall time.Duration) template.HTML {
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
	var b strings.Builder
	svg(&b, height, "over time")
	fmt.Fprintf(&b, `<path class="area" d="M0 %d`, height)
	for c, v := range values {
		y := height - float64(v)*(height-4)/float64(top)
		fmt.Fprintf(&b, "L%.1f %.1fL%.1f %.1f", float64(c)*chartWidth/columns, y, float64(c+1)*chartWidth/columns, y)
	}
	fmt.Fprintf(&b, `L%d %dZ"/></svg>`, chartWidth, height)
	return template.HTML(b.String())
}

// rateColumns is how many parts of the run throughput is averaged over.
const rateColumns = 50

// rateOf gives Mpixel/s in parts of the run from a count that grows.
func rateOf(points []timing.Point, wall time.Duration) []float64 {
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
		rates[c] = max(0, at(to)-at(from)) / 1e6 / max(1e-9, (to-from).Seconds())
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
		points[i].Value = int64(i+1) * int64(max(1, every)) * 1e6
	}
	return rateOf(points, wall)
}

// drawRate shows throughput over time.
func drawRate(rates []float64, unit string, wall time.Duration) template.HTML {
	if len(rates) == 0 {
		return ""
	}
	top := slices.Max(rates)
	if top == 0 {
		return ""
	}
	const height = 120
	var b strings.Builder
	fmt.Fprintf(&b, `<div class="rate"><span class="top">%.3g %s</span>`, top, unit)
	svg(&b, height, "throughput over time")
	fmt.Fprintf(&b, `<path class="area" d="M0 %d`, height)
	for c, v := range rates {
		fmt.Fprintf(&b, "L%.1f %.1f", (float64(c)+.5)*chartWidth/float64(len(rates)), height-v*(height-4)/top)
	}
	fmt.Fprintf(&b, `L%d %dZ"/></svg>%s</div>`, chartWidth, height, timeAxis(wall))
	return template.HTML(b.String())
}

// drawHistogram shows a histogram with the range of its values.
func drawHistogram(h *Histogram) template.HTML {
	const height, most = 130, 512
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
	var b strings.Builder
	b.WriteString(`<div class="histogram">`)
	svg(&b, height, "histogram")
	width := float64(chartWidth) / float64(len(counts))
	for i, v := range counts {
		if v > 0 {
			y := max(1, v/top*(height-2))
			fmt.Fprintf(&b, `<rect class="bar" x="%.2f" y="%.1f" width="%.2f" height="%.1f"/>`, float64(i)*width,
				height-y, width+.3, y)
		}
	}
	fmt.Fprintf(&b, `</svg><div class="times"><span>%.5g</span><span>%.5g</span><span>%.5g</span></div></div>`, h.Lo,
		h.Lo+(h.Hi-h.Lo)/2, h.Hi)
	return template.HTML(b.String())
}

// drawLegend shows what the colours of a single band mean; nothing for others.
func drawLegend(p *preview.Preview) template.HTML {
	if p.Ramp == nil {
		return ""
	}
	var b strings.Builder
	b.WriteString(`<div class="legend">`)
	svg(&b, 12, "colours")
	const steps = 128
	for i := range steps {
		c := p.Ramp.At(float64(i) / (steps - 1))
		fmt.Fprintf(&b, `<rect x="%.1f" y="0" width="%.1f" height="12" fill="#%02x%02x%02x"/>`,
			float64(i)*chartWidth/steps, float64(chartWidth)/steps+.5, c.R, c.G, c.B)
	}
	fmt.Fprintf(&b, `</svg><div class="times"><span>%.4g</span><span>%.4g</span><span>%.4g</span></div></div>`, p.Lo,
		p.Lo+(p.Hi-p.Lo)/2, p.Hi)
	return template.HTML(b.String())
}
