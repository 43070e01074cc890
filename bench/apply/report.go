package apply

import (
	"fmt"
	"math"
	"strings"
)

// time is what results are compared by: the whole process, or the inner time where only that means
// something.
func (r *result) time() spread {
	if r.computeOnly {
		return spreadOf(r.samples, inner)
	}
	return spreadOf(r.samples, wall)
}

func (r *result) megabytes() spread {
	s := spreadOf(r.samples, bytesOf)
	return spread{s.median / (1 << 20), s.low / (1 << 20), s.high / (1 << 20)}
}

// fastest is the quickest of the results that are wanted, nil when there is none.
func fastest(results []*result, wanted func(*result) bool) *result {
	var best *result
	for _, r := range results {
		if wanted(r) && len(r.samples) > 0 && (best == nil || r.time().median < best.time().median) {
			best = r
		}
	}
	return best
}

// ratio is the median of r divided by that of a peer, NaN when the peer was not measured.
func ratio(r, peer *result, value func(sample) float64) float64 {
	if peer == nil || len(peer.samples) == 0 || len(r.samples) == 0 {
		return math.NaN()
	}
	return spreadOf(r.samples, value).median / spreadOf(peer.samples, value).median
}

// table reports a case.
func (b *bench) table(title, what string, results []*result) {
	tuned, calc := fastest(results, func(r *result) bool { return r.tuned }),
		fastest(results, func(r *result) bool { return r.calc })
	head := []string{"", "wall s", "without start s", "processor s", "memory MiB", "output MiB", "pixels"}
	if tuned != nil {
		head = append(head, "÷ tuned")
	}
	if calc != nil {
		head = append(head, "÷ gdal_calc")
	}
	b.print("## %s\n\n%s\n", title, what)
	b.print("| %s |\n|%s", strings.Join(head, " | "), strings.Repeat(" --- |", len(head)))
	pixels := ""
	for _, r := range results[1:] {
		if r.compare != "" {
			pixels = "reference"
		}
	}
	for _, r := range results {
		if r.err != nil {
			b.print("| %s |%s", r.name, strings.Repeat(" left out |", len(head)-1))
			b.note("%s was left out: %v", r.name, r.err)
			continue
		}
		row := []string{r.name, seconds(spreadOf(r.samples, wall)), "",
			fmt.Sprintf("%.2f", spreadOf(r.samples, cpu).median),
			fmt.Sprintf("%.0f", spreadOf(r.samples, rss).median/(1<<20)), "", r.compare}
		if r.samples[0].inner > 0 {
			row[2] = seconds(spreadOf(r.samples, inner))
		}
		if r.computeOnly {
			row[1], row[3], row[4] = "", "", ""
		}
		if r.out != "" {
			row[5] = fmt.Sprintf("%.1f", r.megabytes().median)
			if r.compare == "" && b.python != "" && !r.other {
				row[6], pixels = pixels, ""
			}
		}
		for _, peer := range []*result{tuned, calc} {
			if peer != nil {
				row = append(row, fmt.Sprintf("%.2f", r.time().median/peer.time().median))
			}
		}
		b.print("| %s |", strings.Join(row, " | "))
	}
	b.print("")
}

// seconds shows a time with its spread.
func seconds(s spread) string {
	if s.median < 0.1 {
		return fmt.Sprintf("%.4f (%.4f-%.4f)", s.median, s.low, s.high)
	}
	return fmt.Sprintf("%.3f (%.3f-%.3f)", s.median, s.low, s.high)
}
