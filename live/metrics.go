package live

import (
	"net/http"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// metrics serves the numbers of the last look in the text formats of Prometheus and OpenMetrics.
func (p *Page) metrics() (http.Handler, error) {
	registry := prometheus.NewRegistry()
	for _, c := range append([]prometheus.Collector{collector{p}}, p.o.Collectors...) {
		if err := registry.Register(c); err != nil {
			return nil, err
		}
	}
	return promhttp.HandlerFor(registry, promhttp.HandlerOpts{EnableOpenMetrics: true}), nil
}

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("leat_run_"+name, help, labels, nil)
}

// Workers are counted, not named: each label is a series that Prometheus keeps for good.
var (
	descPhase    = desc("phase", "1 for the phase that the run is in.", "phase")
	descElapsed  = desc("elapsed_seconds", "Time since the start of the run.")
	descLeft     = desc("left_seconds", "Reckoned time to the end of the run, where it is known.")
	descBlocks   = desc("blocks", "Blocks of the run.")
	descDone     = desc("blocks_done_total", "Blocks that are finished.")
	descLost     = desc("blocks_lost_total", "Blocks whose worker was lost.")
	descReissued = desc("blocks_reissued_total", "Blocks given out again.")
	descCopies   = desc("blocks_copied_total", "Blocks given out to a second worker.")
	descPixels   = desc("pixels_total", "Pixels of finished blocks.")
	descDepth    = desc("queue_depth", "What waits in a queue.", "queue")
	descLimit    = desc("queue_limit", "What a queue holds at most.", "queue")
	descTime     = desc("stage_seconds_total", "Time that a stage took, added up over all that work at it.", "stage")
	descTimes    = desc("stage_intervals_total", "How often a stage was gone through.", "stage")
	descWorkers  = desc("workers", "Workers by kind and state.", "kind", "state")
	descSpooled  = desc("output_spooled_bytes", "Bytes spooled of an output.", "output")
	descMessages = desc("messages_total", "Errors and warnings.", "severity")
)

// collector gives what was seen last, and nothing before the first look.
type collector struct{ p *Page }

func (c collector) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{descPhase, descElapsed, descLeft, descBlocks, descDone, descLost, descReissued,
		descCopies, descPixels, descDepth, descLimit,
		descTime, descTimes, descWorkers, descSpooled, descMessages} {
		to <- d
	}
}

func (c collector) Collect(to chan<- prometheus.Metric) {
	c.p.mu.Lock()
	l := c.p.now
	c.p.mu.Unlock()
	if l.json == nil {
		return
	}
	s := l.status
	give := func(d *prometheus.Desc, kind prometheus.ValueType, v float64, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, kind, v, labels...)
	}
	const counter, gauge = prometheus.CounterValue, prometheus.GaugeValue
	for _, ph := range phases {
		v := 0.
		if ph == s.Phase {
			v = 1
		}
		give(descPhase, gauge, v, string(ph))
	}
	give(descElapsed, gauge, s.Elapsed.Seconds())
	if s.Left > 0 {
		give(descLeft, gauge, s.Left.Seconds())
	}
	give(descBlocks, gauge, float64(s.Blocks.Total))
	give(descDone, counter, float64(s.Blocks.Done))
	give(descLost, counter, float64(s.Blocks.Lost))
	give(descReissued, counter, float64(s.Blocks.Reissued))
	give(descCopies, counter, float64(s.Blocks.Copies))
	give(descPixels, counter, float64(s.Pixels))

	// A scrape fails as a whole where two series have the same labels, so what has the same name is
	// added up.
	depths, limits, spooled, seconds, intervals := sums{}, sums{}, sums{}, sums{}, sums{}
	for _, q := range s.Queues {
		depths.add(float64(q.Depth), q.Name)
		if q.Limit > 0 {
			limits.add(float64(q.Limit), q.Name)
		}
	}
	for _, st := range s.Timings.Stages {
		seconds.add(st.Total.Seconds(), st.Stage)
		intervals.add(float64(st.N), st.Stage)
	}
	for _, o := range s.Outputs {
		spooled.add(float64(o.Bytes), o.Name)
	}
	workers := sums{}
	for _, w := range s.Workers {
		workers.add(1, w.Kind, w.State)
	}
	messages := sums{}
	messages.add(0, "error")
	messages.add(0, "warning")
	for _, m := range s.Messages {
		if m.Warning {
			messages.add(1, "warning")
		} else {
			messages.add(1, "error")
		}
	}
	for _, f := range []struct {
		d    *prometheus.Desc
		kind prometheus.ValueType
		sums sums
	}{{descDepth, gauge, depths}, {descLimit, gauge, limits}, {descTime, counter, seconds},
		{descTimes, counter, intervals}, {descWorkers, gauge, workers}, {descSpooled, gauge, spooled},
		{descMessages, counter, messages}} {
		for labels, v := range f.sums {
			give(f.d, f.kind, v, labels.values()...)
		}
	}
}

// sums adds up by one or two labels.
type sums map[labels]float64

type labels struct {
	n             int
	first, second string
}

func (s sums) add(v float64, of ...string) {
	l := labels{n: len(of), first: strings.ToValidUTF8(of[0], "\uFFFD")}
	if l.n > 1 {
		l.second = strings.ToValidUTF8(of[1], "\uFFFD")
	}
	s[l] += v
}

func (l labels) values() []string { return []string{l.first, l.second}[:l.n] }
