package main

import (
	"time"
)

type progressState struct {
	at          time.Time
	done, total int
	pixels      int64
	stage       string
}

// reckon gives pixels per second over the history, and the time left, -1 where unknown.
func (p *progress) reckon(s progressState) (rate float64, left time.Duration) {
	from := p.history[0]
	sec := s.at.Sub(from.at).Seconds()
	if sec <= 0 {
		return 0, -1
	}
	rate = float64(s.pixels-from.pixels) / sec
	if s.done >= s.total {
		return rate, 0
	}
	return rate, p.left(s)
}

// left is the time left, -1 where unknown. What was before the first block, such as the start of
// workers, does not count. Workers end their first blocks at about the same time: as long as one
// took, those of a second round are waited for.
func (p *progress) left(s progressState) time.Duration {
	if p.first.at.IsZero() || s.at.Sub(p.first.at) < min(progressHistory,
		max(progressEarly, p.first.at.Sub(p.begun()))) {
		return -1
	}
	from := p.history[0]
	if from.at.Before(p.first.at) {
		from = p.first
	}
	if s.done <= from.done {
		return -1
	}
	return time.Duration(s.at.Sub(from.at).Seconds() / float64(s.done-from.done) * float64(s.total-s.done) * 1e9)
}

// begun is when this run began with its blocks, as far as is known.
func (p *progress) begun() time.Time {
	if p.before.at.IsZero() {
		return p.start
	}
	return p.before.at
}
