package main

import (
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// show shows the last state; p.mu is held.
func (p *progress) show() {
	s := p.last
	p.shown, p.lastDone = s.at, s.done
	// One state older than the history is kept, so that there always is one to compare with.
	for len(p.history) > 1 && s.at.Sub(p.history[1].at) > progressHistory {
		p.history = p.history[1:]
	}
	rate, left := p.reckon(s)
	if len(p.history) == 0 || s.at.After(p.history[len(p.history)-1].at) {
		p.history = append(p.history, s)
	}
	percent := 0
	if s.total > 0 {
		percent = 100 * s.done / s.total
	}
	switch p.mode {
	case progressLine:
		fmt.Fprint(p.w, "\r"+p.line(percent, rate, left)+"\x1b[K")
	case progressLines:
		line := fmt.Sprintf("%d of %d blocks (%d %%)", s.done, s.total, percent)
		if rate > 0 {
			line += ", " + rateText(rate)
		}
		if left >= 0 && s.done < s.total {
			line += ", about " + roughly(left) + " left"
		}
		if s.stage != "" {
			line += ", mostly " + stageName(s.stage)
		}
		if why := p.waiting.text(); why != "" {
			line += ", " + why
		}
		fmt.Fprintln(p.w, line)
	case progressJSON:
		e := progressEvent{eventDoc{"progress", s.at.UTC()}, blocksDoc{s.total, s.done}, s.pixels,
			s.at.Sub(p.start).Seconds(), rate, nil, s.stage}
		if left >= 0 {
			sec := left.Seconds()
			e.Remaining = &sec
		}
		_ = writeJSON(p.w, e)
	}
}

// Columns of the bar: where there are enough, and on a narrow terminal.
const (
	barColumns   = 24
	shortColumns = 8
)

// line returns the live line. Where it is too long for the terminal, percent and time left stay.
func (p *progress) line(percent int, rate float64, left time.Duration) string {
	s := p.last
	bar := func(columns int) string {
		full, done, open := min(columns, columns*percent/100), "█", "░"
		if p.ascii {
			done, open = "#", "-"
		}
		return strings.Repeat(done, full) + strings.Repeat(open, columns-full)
	}
	const inBar, inPercent, inBlocks, inRate, inLeft, inStage = 0, 1, 2, 3, 4, 5
	parts := [6]string{inBar: bar(barColumns), inPercent: fmt.Sprintf("%3d %%", percent),
		inBlocks: fmt.Sprintf(" %d/%d blocks", s.done, s.total)}
	if rate > 0 {
		parts[inRate] = " " + rateText(rate)
	}
	if left >= 0 && s.done < s.total {
		parts[inLeft] = " " + roughly(left) + " left"
	}
	if why := p.waiting.text(); why != "" {
		parts[inStage] = " " + why
	} else if s.stage != "" {
		parts[inStage] = " " + stageName(s.stage)
	}
	text := func() string {
		return strings.Join(slices.DeleteFunc(slices.Clone(parts[:]), func(s string) bool { return s == "" }), " ")
	}
	most := p.width() - 1
	for _, shorter := range []struct {
		part int
		text string
	}{{inBar, bar(shortColumns)}, {inRate, ""}, {inBar, ""}, {inBlocks, ""}, {inStage, ""}} {
		if utf8.RuneCountInString(text()) > most {
			parts[shorter.part] = shorter.text
		}
	}
	r := []rune(text())
	return string(r[:max(0, min(len(r), most))])
}

// roughly gives a duration as people say it: "8 s", "3 min", "2 h 10 min".
func roughly(d time.Duration) string {
	switch {
	case d < time.Second:
		return "1 s"
	case d < 99500*time.Millisecond:
		return fmt.Sprintf("%.0f s", d.Seconds())
	case d < 99*time.Minute+30*time.Second:
		return fmt.Sprintf("%.0f min", d.Minutes())
	}
	d = d.Round(time.Minute)
	return fmt.Sprintf("%d h %d min", int(d.Hours()), int(d.Minutes())%60)
}
