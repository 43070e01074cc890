package workers

import (
	"fmt"
	"time"

	"leat/bench/measured"
)

func verdict(met bool) string {
	if met {
		return "met"
	}
	return "missed"
}

// target notes whether a time is as short as it should be.
func (b *bench) target(what string, t measured.Times, limit time.Duration) {
	b.targets = append(b.targets, []string{what, t.String(), verdict(t.Median() < limit)})
}

// ratioTarget notes whether a time is at most so many times another.
func (b *bench) ratioTarget(what string, t, base measured.Times, limit float64) {
	ratio := float64(t.Median()) / float64(base.Median())
	b.targets = append(b.targets, []string{what, fmt.Sprintf("%.2f", ratio), verdict(ratio <= limit)})
}

// missing notes a target that could not be measured.
func (b *bench) missing(what, why string) {
	b.targets = append(b.targets, []string{what, "not measured: " + why, ""})
}
