package timing

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"time"
)

// Span is an interval of the trace. Start counts from the call of New.
type Span struct {
	Stage, Lane string
	Block       int
	Start       time.Duration
	Length      time.Duration
}

// Series holds the values of a gauge. Each one is valid until the next point.
type Series struct {
	Gauge  string
	Points []Point
}

// Point is the value of a gauge from At on.
type Point struct {
	At    time.Duration
	Value int64
}

// Spans returns copies of the intervals kept for the trace, in order of their start. They are those
// of one block out of every, which is 1 if all blocks were kept.
func (r *Recorder) Spans() (spans []Span, every int) {
	if r == nil {
		return nil, 1
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	spans = make([]Span, len(r.intervals))
	for i, v := range r.intervals {
		spans[i] = Span{r.stages[v.stage].name, r.lanes[v.lane], int(v.block), time.Duration(v.start),
			time.Duration(v.length)}
	}
	// Of two that start together the longer one is the outer one.
	slices.SortStableFunc(spans, func(a, b Span) int {
		return cmp.Or(cmp.Compare(a.Start, b.Start), cmp.Compare(b.Length, a.Length))
	})
	return spans, int(r.thin + 1)
}

// Series returns copies of the gauges, in order of their first value.
func (r *Recorder) Series() []Series {
	if r == nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	all := make([]Series, len(r.gauges))
	for i, g := range r.gauges {
		all[i] = Series{g.name, make([]Point, len(g.points), len(g.points)+1)}
		for j, p := range g.points {
			all[i].Points[j] = Point{time.Duration(p.at), p.value}
		}
		if last := g.points[len(g.points)-1]; last.at != g.lastAt {
			all[i].Points = append(all[i].Points, Point{time.Duration(g.lastAt), g.last})
		}
	}
	return all
}

// Trace writes the kept intervals and gauges in Chrome's trace event format, which chrome://tracing
// and ui.perfetto.dev show: a row per lane with an event per interval, and a counter per gauge.
// Recording may go on meanwhile; w is written outside the Recorder's lock.
func (r *Recorder) Trace(w io.Writer) error {
	spans, every := r.Spans()
	series := r.Series()
	b := bufio.NewWriterSize(w, 1<<16)
	fmt.Fprintf(b, "{\"displayTimeUnit\":\"ms\",\"otherData\":{\"every_nth_block\":%d},\"traceEvents\":[\n", every)
	fmt.Fprint(b, `{"ph":"M","pid":1,"name":"process_name","args":{"name":"leat"}}`)
	lanes := map[string]int{}
	quoted := map[string]string{}
	quote := func(s string) string {
		q, ok := quoted[s]
		if !ok {
			j, _ := json.Marshal(s) // a string can always be marshalled
			q = string(j)
			quoted[s] = q
		}
		return q
	}
	for _, s := range spans {
		id, ok := lanes[s.Lane]
		if !ok {
			id = len(lanes) + 1
			lanes[s.Lane] = id
			fmt.Fprintf(b, ",\n{\"ph\":\"M\",\"pid\":1,\"tid\":%d,\"name\":\"thread_name\",\"args\":{\"name\":%s}}", id,
				quote(s.Lane))
		}
		fmt.Fprintf(b, ",\n{\"ph\":\"X\",\"pid\":1,\"tid\":%d,\"name\":%s,\"cat\":\"leat\",\"ts\":%s,\"dur\":%s", id,
			quote(s.Stage), micros(s.Start), micros(s.Length))
		if s.Block >= 0 {
			fmt.Fprintf(b, ",\"args\":{\"block\":%d}", s.Block)
		}
		b.WriteByte('}')
	}
	for _, g := range series {
		for _, p := range g.Points {
			fmt.Fprintf(b, ",\n{\"ph\":\"C\",\"pid\":1,\"name\":%s,\"ts\":%s,\"args\":{\"value\":%d}}", quote(g.Gauge),
				micros(p.At), p.Value)
		}
	}
	fmt.Fprint(b, "\n]}\n")
	return b.Flush()
}

// micros gives microseconds with the nanoseconds as decimals.
func micros(d time.Duration) string {
	sign := ""
	if d < 0 {
		sign, d = "-", -d
	}
	return fmt.Sprintf("%s%d.%03d", sign, d/1000, d%1000)
}
