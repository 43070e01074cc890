package cache

import (
	"fmt"
	"slices"
)

// rates are samples of how often something was done in a second.
type rates []float64

// median is the middle one, or the mean of the middle two; 0 of none.
func (r rates) median() float64 {
	if len(r) == 0 {
		return 0
	}
	s := slices.Sorted(slices.Values(r))
	return (s[(len(s)-1)/2] + s[len(s)/2]) / 2
}

// String is the median with the lowest and highest: "183k (170k-190k)".
func (r rates) String() string {
	if len(r) == 0 {
		return ""
	}
	return fmt.Sprintf("%s (%s-%s)", count(r.median()), count(slices.Min(r)), count(slices.Max(r)))
}

// ratio is the median divided by that of a peer; 0 where either is missing.
func (r rates) ratio(peer rates) float64 {
	if len(r) == 0 || peer.median() == 0 {
		return 0
	}
	return r.median() / peer.median()
}

// count is a number in three digits: 5.31M, 183k, 1.02.
func count(v float64) string {
	unit := ""
	switch {
	case v >= 999.5e3:
		v, unit = v/1e6, "M"
	case v >= 999.5:
		v, unit = v/1e3, "k"
	}
	switch {
	case v >= 99.95:
		return fmt.Sprintf("%.0f%s", v, unit)
	case v >= 9.995:
		return fmt.Sprintf("%.1f%s", v, unit)
	}
	return fmt.Sprintf("%.2f%s", v, unit)
}

// ratioText is a ratio for people; "" for 0.
func ratioText(v float64) string {
	if v == 0 {
		return ""
	}
	return count(v)
}

// perSecond is what processes did together, from the start of the first to the end of the last.
func perSecond(parts []part) float64 {
	if len(parts) == 0 {
		return 0
	}
	var n int64
	from, to := parts[0].Begin, parts[0].End
	for _, p := range parts {
		n += p.Count
		from, to = min(from, p.Begin), max(to, p.End)
	}
	if to <= from {
		return 0
	}
	return float64(n) / (float64(to-from) / 1e9)
}
