package timing

import "time"

// gauge holds the values of a quantity over time.
type gauge struct {
	name     string
	n        int64
	min, max int64
	last     int64
	lastAt   int64   // ns since begin
	firstAt  int64   // ns since begin
	area     float64 // value x ns, of the time from firstAt to lastAt
	points   []point
	stride   int64
}

type point struct{ at, value int64 }

// Gauge records the value of a gauge from now on, for example the depth of a queue.
func (r *Recorder) Gauge(name string, value int64) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	// Read under the lock: the points of a gauge are in order of time.
	at := int64(time.Since(r.begin))
	g := r.gaugeOf[name]
	if g == nil {
		g = &gauge{name: name, min: value, max: value, firstAt: at, lastAt: at, stride: 1}
		r.gauges = append(r.gauges, g)
		r.gaugeOf[name] = g
	}
	g.add(at, value)
}

func (g *gauge) add(at, value int64) {
	g.area += float64(g.last) * float64(at-g.lastAt)
	g.last, g.lastAt = value, at
	g.min, g.max = min(g.min, value), max(g.max, value)
	keep := g.n%g.stride == 0
	g.n++
	if !keep {
		return
	}
	if len(g.points) >= maxPoints {
		for i := range len(g.points) / 2 {
			g.points[i] = g.points[2*i]
		}
		g.points = g.points[:len(g.points)/2]
		g.stride *= 2
		// maxPoints is even, so the value that filled it belongs to the new stride too.
	}
	g.points = append(g.points, point{at, value})
}

// mean returns the mean over the time from the first value until now.
func (g *gauge) mean(now int64) float64 {
	if now <= g.firstAt {
		return float64(g.last)
	}
	return (g.area + float64(g.last)*float64(now-g.lastAt)) / float64(now-g.firstAt)
}
