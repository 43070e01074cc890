package timing

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
	"unicode/utf8"

	"leat/internal/sysmem"
	"leat/internal/units"
)

// Summary is a copy of a Recorder's results at one time. In JSON, durations are integers in
// nanoseconds.
type Summary struct {
	Wall   time.Duration  `json:"wall_ns"` // since New
	CPU    time.Duration  `json:"cpu_ns"`  // processor time of this process since New, 0 where unknown
	Stages []StageSummary `json:"stages"`  // in order of declaration
	Gauges []GaugeSummary `json:"gauges,omitempty"`
}

// StageSummary describes the intervals of one stage. The quartiles are interpolated linearly
// between neighbours, as NumPy does, over at most 8192 intervals.
type StageSummary struct {
	Stage  string        `json:"stage"`
	N      int64         `json:"n"`
	Total  time.Duration `json:"total_ns"`
	Min    time.Duration `json:"min_ns"`
	Lower  time.Duration `json:"lower_quartile_ns"`
	Median time.Duration `json:"median_ns"`
	Upper  time.Duration `json:"upper_quartile_ns"`
	Max    time.Duration `json:"max_ns"`
}

// GaugeSummary describes the values of one gauge. Mean is the mean over time.
type GaugeSummary struct {
	Gauge string  `json:"gauge"`
	N     int64   `json:"n"`
	Min   int64   `json:"min"`
	Mean  float64 `json:"mean"`
	Max   int64   `json:"max"`
}

// Summary returns the results so far, without intervals that still run.
func (r *Recorder) Summary() Summary {
	if r == nil {
		return Summary{Stages: []StageSummary{}}
	}
	now := time.Since(r.begin)
	s := Summary{Wall: now, CPU: max(0, sysmem.ProcessorTime()-r.beginCPU), Stages: []StageSummary{}}
	r.mu.Lock()
	samples := make([][]int64, 0, len(r.stages))
	for _, st := range r.stages {
		if st.n == 0 {
			continue
		}
		s.Stages = append(s.Stages, StageSummary{Stage: st.name, N: st.n, Total: time.Duration(st.total),
			Min: time.Duration(st.min), Max: time.Duration(st.max)})
		samples = append(samples, slices.Clone(st.sample))
	}
	for _, g := range r.gauges {
		s.Gauges = append(s.Gauges, GaugeSummary{g.name, g.n, g.min, g.mean(int64(now)), g.max})
	}
	r.mu.Unlock()
	for i := range s.Stages {
		slices.Sort(samples[i])
		s.Stages[i].Lower = quantile(samples[i], 0.25)
		s.Stages[i].Median = quantile(samples[i], 0.5)
		s.Stages[i].Upper = quantile(samples[i], 0.75)
	}
	return s
}

// quantile returns a quantile of sorted values, of which there must be at least one.
func quantile(sorted []int64, q float64) time.Duration {
	at := q * float64(len(sorted)-1)
	i := int(at)
	if i+1 >= len(sorted) {
		return time.Duration(sorted[len(sorted)-1])
	}
	lo, hi := sorted[i], sorted[i+1]
	return time.Duration(lo + int64(math.Round((at-float64(i))*float64(hi-lo))))
}

// Stage returns the summary of one stage. Without an interval only its name is set.
func (s Summary) Stage(name string) StageSummary {
	for _, st := range s.Stages {
		if st.Stage == name {
			return st
		}
	}
	return StageSummary{Stage: name}
}

// Text writes the wall clock and a table of the stages: count, total and mean; with verbose, also
// minimum, quartiles and maximum, and the gauges.
func (s Summary) Text(w io.Writer, verbose bool) error {
	var b strings.Builder
	fmt.Fprintf(&b, "wall clock %s", units.FormatDuration(s.Wall))
	if s.CPU > 0 && s.Wall > 0 {
		fmt.Fprintf(&b, ", processor time %s (%.1f cores busy)", units.FormatDuration(s.CPU),
			s.CPU.Seconds()/s.Wall.Seconds())
	}
	b.WriteByte('\n')
	var table strings.Builder
	t := tabwriter.NewWriter(&table, 0, 0, 2, ' ', tabwriter.AlignRight)
	if len(s.Stages) > 0 {
		head := "N\ttotal\tmean\t"
		if verbose {
			head = "N\ttotal\tmin\tlower quartile\tmedian\tupper quartile\tmax\t"
		}
		fmt.Fprintf(t, "%s\t%s\n", s.pad("stage"), head)
	}
	for _, st := range s.Stages {
		f := units.FormatDuration
		if verbose {
			fmt.Fprintf(t, "%s\t%d\t%s\t%s\t%s\t%s\t%s\t%s\t\n", s.pad(st.Stage), st.N, f(st.Total), f(st.Min),
				f(st.Lower), f(st.Median), f(st.Upper), f(st.Max))
			continue
		}
		fmt.Fprintf(t, "%s\t%d\t%s\t%s\t\n", s.pad(st.Stage), st.N, f(st.Total),
			f(st.Total/time.Duration(max(1, st.N))))
	}
	if verbose && len(s.Gauges) > 0 {
		fmt.Fprintf(t, "%s\tN\tmin\tmean\tmax\t\n", s.pad("gauge"))
		for _, g := range s.Gauges {
			fmt.Fprintf(t, "%s\t%d\t%d\t%.1f\t%d\t\n", s.pad(g.Gauge), g.N, g.Min, g.Mean, g.Max)
		}
	}
	t.Flush()
	for line := range strings.Lines(table.String()) {
		// Aligned right, the first column too has its two blanks in front.
		b.WriteString(strings.TrimRight(strings.TrimPrefix(line, "  "), " \n") + "\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// pad pads a name to the width of the first column, which is aligned to the left.
func (s Summary) pad(name string) string {
	width := 0
	for _, st := range s.Stages {
		width = max(width, utf8.RuneCountInString(st.Stage))
	}
	for _, g := range s.Gauges {
		width = max(width, utf8.RuneCountInString(g.Gauge))
	}
	return fmt.Sprintf("%-*s", width, name)
}
