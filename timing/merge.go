package timing

import (
	"slices"
)

// Merge adds the intervals and gauges of other, which does not change, for example those of another
// part of a program. Both must use the same clock. Counts, totals and extremes are exact. Of more
// than 8192 durations, a stage keeps a random sample of both. If both have a gauge, r keeps
// its own values. Recording may continue meanwhile.
func (r *Recorder) Merge(other *Recorder) {
	if r == nil || other == nil || r == other {
		return
	}
	stages, gauges := other.copies()
	spans, every := other.Spans()
	shift := other.begin.Sub(r.begin)

	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range stages {
		r.stage(s.name).merge(s)
	}
	for _, g := range gauges {
		if r.gaugeOf[g.name] == nil {
			g.shift(int64(shift))
			r.gauges = append(r.gauges, g)
			r.gaugeOf[g.name] = g
		}
	}
	r.thinTo(uint64(every - 1))
	for i, s := range spans {
		key := uint64(i * every) // of an interval without a block
		if s.Block >= 0 {
			key = uint64(s.Block)
		}
		r.keep(interval{int64(s.Start + shift), int64(s.Length), int64(s.Block), key, r.stage(s.Stage).index,
			r.lane(s.Lane)})
	}
}

// copies returns copies of the stages that have intervals and of the gauges.
func (r *Recorder) copies() (stages []*stage, gauges []*gauge) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range r.stages {
		if s.n > 0 {
			c := *s
			c.sample = slices.Clone(s.sample)
			stages = append(stages, &c)
		}
	}
	for _, g := range r.gauges {
		c := *g
		c.points = slices.Clone(g.points)
		gauges = append(gauges, &c)
	}
	return stages, gauges
}

// merge adds the durations of other, whose sample it changes.
func (s *stage) merge(other *stage) {
	if s.n == 0 || other.min < s.min {
		s.min = other.min
	}
	s.max = max(s.max, other.max)
	s.total += other.total
	mine, others := s.n, other.n
	s.n += other.n
	if len(s.sample)+len(other.sample) <= maxSample {
		s.sample = append(s.sample, other.sample...)
		return
	}
	// Each choice is among all remaining durations, including those outside the samples.
	from, list := s.sample, other.sample
	s.sample = make([]int64, 0, maxSample)
	for len(s.sample) < maxSample && (len(from) > 0 || len(list) > 0) {
		if len(list) == 0 || len(from) > 0 && int64(s.next()%uint64(mine+others)) < mine {
			from = s.take(from)
			mine--
		} else {
			list = s.take(list)
			others--
		}
	}
}

// take moves a random value of a list to the sample.
func (s *stage) take(list []int64) []int64 {
	i := s.next() % uint64(len(list))
	s.sample = append(s.sample, list[i])
	list[i] = list[len(list)-1]
	return list[:len(list)-1]
}

// shift moves the times of a gauge.
func (g *gauge) shift(by int64) {
	g.firstAt += by
	g.lastAt += by
	for i := range g.points {
		g.points[i].at += by
	}
}
