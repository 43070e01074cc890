package live

import (
	"strings"

	"leat/internal/metric"
)

// desc describes the metrics of one name.
type desc struct {
	name, help string
	labels     []string
}

// Workers are counted, not named: Prometheus keeps the series of each label for good.
var (
	descPhase    = desc{"phase", "1 for the phase that the run is in.", []string{"phase"}}
	descElapsed  = desc{"elapsed_seconds", "Time since the start of the run.", nil}
	descLeft     = desc{"left_seconds", "Estimated time to the end of the run, if known.", nil}
	descBlocks   = desc{"blocks", "Blocks of the run.", nil}
	descDone     = desc{"blocks_done_total", "Blocks that are finished.", nil}
	descLost     = desc{"blocks_lost_total", "Blocks whose worker was lost.", nil}
	descReissued = desc{"blocks_reissued_total", "Blocks assigned again after a loss or a failure.", nil}
	descCopies   = desc{"blocks_copied_total", "Blocks assigned to a second worker.", nil}
	descPixels   = desc{"pixels_total", "Pixels of finished blocks.", nil}
	descMemory   = desc{"memory_bytes", "Resident memory of the process, if known.", nil}
	descDepth    = desc{"queue_depth", "Items in a queue.", []string{"queue"}}
	descLimit    = desc{"queue_limit", "Maximum number of items in a queue.", []string{"queue"}}
	descTime     = desc{"stage_seconds_total", "Time spent in a stage, summed over all goroutines and processes.",
		[]string{"stage"}}
	descTimes    = desc{"stage_intervals_total", "Number of intervals of a stage.", []string{"stage"}}
	descWorkers  = desc{"workers", "Workers by kind and state.", []string{"kind", "state"}}
	descSpooled  = desc{"output_spooled_bytes", "Bytes of an output in its spool.", []string{"output"}}
	descMessages = desc{"messages_total", "Errors and warnings.", []string{"severity"}}
)

// metrics adds the latest snapshot, and nothing before the first one.
func (p *Page) metrics(set *metric.Set) {
	p.mu.Lock()
	l := p.now
	p.mu.Unlock()
	if l.json == nil {
		return
	}
	s := l.status
	type add = func(name, help string, v float64, labels ...string)
	send := func(d desc, to add, v float64, values ...string) {
		var labels []string
		for i, name := range d.labels {
			labels = append(labels, name, values[i])
		}
		to("leat_run_"+d.name, d.help, v, labels...)
	}
	counter, gauge := set.Counter, set.Gauge
	for _, ph := range phases {
		v := 0.
		if ph == s.Phase {
			v = 1
		}
		send(descPhase, gauge, v, string(ph))
	}
	send(descElapsed, gauge, s.Elapsed.Seconds())
	if s.Left > 0 {
		send(descLeft, gauge, s.Left.Seconds())
	}
	send(descBlocks, gauge, float64(s.Blocks.Total))
	send(descDone, counter, float64(s.Blocks.Done))
	send(descLost, counter, float64(s.Blocks.Lost))
	send(descReissued, counter, float64(s.Blocks.Reissued))
	send(descCopies, counter, float64(s.Blocks.Copies))
	send(descPixels, counter, float64(s.Pixels))
	if s.Memory > 0 {
		send(descMemory, gauge, float64(s.Memory))
	}

	// Two series with the same labels would make the scrape fail, so values of one name are summed.
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
		d    desc
		to   add
		sums sums
	}{{descDepth, gauge, depths}, {descLimit, gauge, limits}, {descTime, counter, seconds},
		{descTimes, counter, intervals}, {descWorkers, gauge, workers}, {descSpooled, gauge, spooled},
		{descMessages, counter, messages}} {
		for labels, v := range f.sums {
			send(f.d, f.to, v, labels.values()...)
		}
	}
}

// sums holds sums by one or two labels.
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
