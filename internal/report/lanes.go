package report

import (
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	"leat/timing"
)

// lane is what one worker or reader did.
type lane struct {
	Name   string
	Blocks int           // different ones
	Busy   time.Duration // in all stages but waiting
	Stages map[string]time.Duration
	spans  []timing.Span
}

// lanesOf sorts spans into lanes, by their names.
func lanesOf(spans []timing.Span) []*lane {
	byName := map[string]*lane{}
	blocks := map[string]map[int]bool{}
	for _, s := range spans {
		l := byName[s.Lane]
		if l == nil {
			l = &lane{Name: s.Lane, Stages: map[string]time.Duration{}}
			byName[s.Lane], blocks[s.Lane] = l, map[int]bool{}
		}
		l.spans = append(l.spans, s)
		l.Stages[s.Stage] += s.Length
		if isWait(s.Stage) {
			continue
		}
		l.Busy += s.Length
		if s.Block != timing.NoBlock {
			blocks[s.Lane][s.Block] = true
		}
	}
	for name, l := range byName {
		l.Blocks = len(blocks[name])
	}
	return slices.SortedFunc(maps.Values(byName), func(a, b *lane) int { return naturally(a.Name, b.Name) })
}

func isWait(stage string) bool { return strings.HasPrefix(stage, "waiting") }

// shares lists the shares of the lane's stages, the largest first: "encoding 53 %, reading 10 %".
func (l *lane) shares(wall time.Duration) string {
	var parts []string
	stages := slices.SortedFunc(maps.Keys(l.Stages), func(a, b string) int { return int(l.Stages[b] - l.Stages[a]) })
	for _, s := range stages {
		if share := 100 * float64(l.Stages[s]) / float64(wall); share >= 1 {
			parts = append(parts, fmt.Sprintf("%s %.0f %%", s, share))
		}
	}
	return strings.Join(parts, ", ")
}

// paths returns an SVG path for each stage: a rectangle for each run of columns in which the stage
// took the most time.
func (l *lane) paths(wall time.Duration, columns int) iter.Seq2[string, string] {
	shares := map[string][]float64{} // by stage, of each column
	for _, s := range l.spans {
		part := shares[s.Stage]
		if part == nil {
			part = make([]float64, columns)
			shares[s.Stage] = part
		}
		from := max(0, float64(s.Start)/float64(wall)*float64(columns))
		to := float64(s.Start+s.Length) / float64(wall) * float64(columns)
		for c := int(from); c < columns && float64(c) < to; c++ {
			part[c] += min(to, float64(c+1)) - max(from, float64(c))
		}
	}
	stages := slices.Sorted(maps.Keys(shares))
	largest := func(c int) string {
		best, share := "", 0.02 // a smaller part of a column can't be seen
		for _, s := range stages {
			if v := shares[s][c]; v > share {
				best, share = s, v
			}
		}
		return best
	}
	paths := map[string]*strings.Builder{}
	for c := 0; c < columns; {
		stage, end := largest(c), c+1
		for end < columns && largest(end) == stage {
			end++
		}
		if stage != "" {
			if paths[stage] == nil {
				paths[stage] = &strings.Builder{}
			}
			at := func(c int) float64 { return float64(c) * chartWidth / float64(columns) }
			fmt.Fprintf(paths[stage], "M%.4g 0h%.3gv%dH%.4gz", at(c), at(end)-at(c), laneHeight, at(c))
		}
		c = end
	}
	return func(yield func(string, string) bool) {
		for _, s := range stages {
			if p := paths[s]; p != nil && !yield(s, p.String()) {
				return
			}
		}
	}
}
