package timing

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestIntervalOfFailedBody(t *testing.T) {
	r := New()
	func() {
		defer func() { recover() }()
		defer r.Start("computing", "worker 1", 3).Stop()
		panic("the function failed")
	}()
	if n := r.Summary().Stage("computing").N; n != 1 {
		t.Fatalf("%d intervals, expected 1", n)
	}
}

func TestNilRecorder(t *testing.T) {
	var r *Recorder
	r.Declare("reading")
	r.Start("reading", "reader 1", 0).Stop()
	r.Record("reading", "reader 1", 0, time.Now(), 1)
	r.Gauge("queue", 1)
	if s := r.Summary(); len(s.Stages) != 0 {
		t.Errorf("stages %v", s.Stages)
	}
	var b bytes.Buffer
	if err := r.Trace(&b); err != nil || !json.Valid(b.Bytes()) {
		t.Errorf("trace %q, %v", b.String(), err)
	}
}

func TestQuartiles(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, n := range []int{1, 2, 3, 4, 5, 10, 999, maxSample} {
		r := New()
		durations := make([]float64, n)
		var total time.Duration
		for i := range durations {
			d := time.Duration(rng.IntN(1_000_000))
			durations[i] = float64(d)
			total += d
			r.Record("reading", "reader 1", i, r.begin, d)
		}
		slices.Sort(durations)
		// NumPy's default: linear interpolation at q*(n-1).
		want := func(q float64) float64 {
			at := q * float64(n-1)
			lo := int(at)
			hi := min(lo+1, n-1)
			return durations[lo] + (at-float64(lo))*(durations[hi]-durations[lo])
		}
		s := r.Summary().Stage("reading")
		for _, c := range []struct {
			name string
			got  time.Duration
			want float64
		}{
			{"min", s.Min, durations[0]}, {"lower", s.Lower, want(.25)}, {"median", s.Median, want(.5)},
			{"upper", s.Upper, want(.75)}, {"max", s.Max, durations[n-1]},
		} {
			if d := float64(c.got) - c.want; d > 1 || d < -1 {
				t.Errorf("n=%d: %s is %v, expected %v", n, c.name, c.got, c.want)
			}
		}
		if s.Total != total || s.N != int64(n) {
			t.Errorf("n=%d: N %d, total %v, expected %v", n, s.N, s.Total, total)
		}
	}
}

func TestMillionBlocksHaveExactCounts(t *testing.T) {
	r := New()
	const n = 1_000_000
	for i := range n {
		// Uniform over 0..n-1 in an order far from sorted.
		r.Record("computing", "worker 1", i, r.begin, time.Duration(i*7919%n))
	}
	s := r.Summary().Stage("computing")
	if s.N != n || s.Min != 0 || s.Max != n-1 || s.Total != n*(n-1)/2 {
		t.Errorf("exact part: %+v", s)
	}
	// A uniform sample of 8192 has a standard error of at most 0.55 % in a quartile's rank.
	for want, got := range map[float64]time.Duration{.25: s.Lower, .5: s.Median, .75: s.Upper} {
		if d := float64(got)/n - want; d > .03 || d < -.03 {
			t.Errorf("quartile %v is %v", want, got)
		}
	}
	spans, every := r.Spans()
	if len(spans) > maxIntervals || len(spans) < maxIntervals/4 {
		t.Errorf("%d intervals kept", len(spans))
	}
	for _, s := range spans {
		if s.Block%every != 0 {
			t.Fatalf("block %d kept with every %d", s.Block, every)
		}
	}
	if len(r.stageOf["computing"].sample) != maxSample {
		t.Errorf("sample of %d", len(r.stageOf["computing"].sample))
	}
}

func TestKeptBlocksKeepAllStages(t *testing.T) {
	r := New()
	for i := range maxIntervals {
		r.Record("reading", "reader 1", i, r.begin, 1)
		r.Record("computing", "worker 1", i, r.begin, 2)
	}
	spans, _ := r.Spans()
	count := map[int]int{}
	for _, s := range spans {
		count[s.Block]++
	}
	for b, n := range count {
		if n != 2 {
			t.Fatalf("block %d has %d of its 2 intervals", b, n)
		}
	}
}

func TestIntervalsOfOneBlockAreBounded(t *testing.T) {
	r := New()
	for range maxIntervals + 10 {
		r.Record("reading", "reader 1", 0, r.begin, 1)
	}
	if spans, _ := r.Spans(); len(spans) != maxIntervals {
		t.Errorf("%d intervals", len(spans))
	}
	if n := r.Summary().Stage("reading").N; n != maxIntervals+10 {
		t.Errorf("N %d", n)
	}
}

func TestStageOrder(t *testing.T) {
	r := New()
	r.Declare("reading", "computing", "never run")
	r.Start("laying out", "writer", NoBlock).Stop()
	r.Start("computing", "worker 1", 0).Stop()
	r.Start("reading", "reader 1", 0).Stop()
	var got []string
	for _, s := range r.Summary().Stages {
		got = append(got, s.Stage)
	}
	if d := cmp.Diff([]string{"reading", "computing", "laying out"}, got); d != "" {
		t.Error(d)
	}
}

func TestConcurrentRecord(t *testing.T) {
	r := New()
	var g sync.WaitGroup
	for w := range 8 {
		g.Go(func() {
			lane := fmt.Sprintf("worker %d", w)
			for i := range 500 {
				iv := r.Start("computing", lane, i)
				r.Gauge("blocks ready", int64(i))
				iv.Stop()
				if i%100 == 0 {
					r.Summary()
					r.Spans()
					r.Series()
				}
			}
		})
	}
	g.Wait()
	if n := r.Summary().Stage("computing").N; n != 4000 {
		t.Errorf("N %d, expected 4000", n)
	}
}

func TestThinnedGaugeKeepsExtremes(t *testing.T) {
	r := New()
	for i := range 100_000 {
		r.Gauge("queue", int64(i%1000))
	}
	r.Gauge("queue", 5000)
	g := r.Summary().Gauges[0]
	if g.N != 100_001 || g.Min != 0 || g.Max != 5000 {
		t.Errorf("gauge %+v", g)
	}
	s := r.Series()[0]
	if len(s.Points) > maxPoints+1 || s.Points[len(s.Points)-1].Value != 5000 {
		t.Errorf("%d points, last %v", len(s.Points), s.Points[len(s.Points)-1])
	}
	if !slices.IsSortedFunc(s.Points, func(a, b Point) int { return int(a.At - b.At) }) {
		t.Error("points are not in order")
	}
}

func TestGaugeMean(t *testing.T) {
	g := &gauge{firstAt: 0, stride: 1}
	g.add(0, 4)
	g.add(10, 0)
	g.add(40, 2)
	if m := g.mean(100); m != (4*10+0*30+2*60)/100. {
		t.Errorf("mean %v", m)
	}
}

func TestTrace(t *testing.T) {
	r := New()
	r.Record("reading", "reader \"1\"\n", 7, r.begin.Add(1500*time.Nanosecond), 2500*time.Nanosecond)
	r.Record("laying out", "writer", NoBlock, r.begin.Add(time.Millisecond), time.Millisecond)
	r.Gauge("ready", 3)
	var b bytes.Buffer
	if err := r.Trace(&b); err != nil {
		t.Fatal(err)
	}
	var doc struct {
		TraceEvents []struct {
			Ph, Name string
			Pid, Tid int
			Ts, Dur  float64
			Args     map[string]any
		}
	}
	if err := json.Unmarshal(b.Bytes(), &doc); err != nil {
		t.Fatalf("%v in %s", err, b.String())
	}
	var got []string
	for _, e := range doc.TraceEvents {
		if e.Ph == "C" {
			e.Ts = 0
		}
		got = append(got, fmt.Sprint(e.Ph, " ", e.Tid, " ", e.Name, " ", e.Ts, " ", e.Dur, " ", e.Args))
	}
	want := []string{
		"M 0 process_name 0 0 map[name:leat]",
		"M 1 thread_name 0 0 map[name:reader \"1\"\n]",
		"X 1 reading 1.5 2.5 map[block:7]",
		"M 2 thread_name 0 0 map[name:writer]",
		"X 2 laying out 1000 1000 map[]",
		"C 0 ready 0 0 map[value:3]",
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

func TestSummaryRoundTrip(t *testing.T) {
	r := New()
	r.Record("reading", "reader 1", 0, r.begin, 5*time.Millisecond)
	r.Gauge("ready", 2)
	s := r.Summary()
	j, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	var back Summary
	if err := json.Unmarshal(j, &back); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(s, back); d != "" {
		t.Error(d)
	}
}

func TestSummaryText(t *testing.T) {
	s := Summary{
		Wall: 720 * time.Millisecond, CPU: 1440 * time.Millisecond,
		Stages: []StageSummary{
			{"reading", 121, 300 * time.Millisecond, 1e6, 2e6, 2.5e6, 3e6, 9e6},
			{"encoding", 121, 800 * time.Millisecond, 5e6, 6e6, 6.5e6, 7e6, 11e6},
		},
		Gauges: []GaugeSummary{{"blocks ready", 242, 0, 1.5, 4}},
	}
	for _, c := range []struct {
		verbose bool
		want    string
	}{
		{false, `wall clock 720 ms, processor time 1.44 s (2.0 cores busy)
stage           N   total     mean
reading       121  300 ms  2.48 ms
encoding      121  800 ms  6.61 ms
`},
		{true, `wall clock 720 ms, processor time 1.44 s (2.0 cores busy)
stage           N   total      min  lower quartile   median  upper quartile      max
reading       121  300 ms  1.00 ms         2.00 ms  2.50 ms         3.00 ms  9.00 ms
encoding      121  800 ms  5.00 ms         6.00 ms  6.50 ms         7.00 ms  11.0 ms
gauge           N     min     mean             max
blocks ready  242       0      1.5               4
`},
	} {
		var b strings.Builder
		if err := s.Text(&b, c.verbose); err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(c.want, b.String()); d != "" {
			t.Errorf("verbose %v: %s", c.verbose, d)
		}
	}
}

func TestMerge(t *testing.T) {
	a, b := New(), New()
	for i := range 3 * maxSample {
		a.Record("reading", "r", i, a.begin, time.Duration(i))
		b.Record("reading", "r", i, a.begin, time.Duration(i))
	}
	b.Record("computing", "w", 7, a.begin.Add(time.Second), time.Minute)
	b.Gauge("ready", 3)
	a.Merge(b)
	a.Merge(nil)
	(*Recorder)(nil).Merge(a)
	n := 3 * maxSample
	s := a.Summary()
	r := s.Stage("reading")
	if r.N != int64(2*n) || r.Total != time.Duration(n*(n-1)) || r.Min != 0 || r.Max != time.Duration(n-1) {
		t.Errorf("%+v", r)
	}
	if got := len(a.stageOf["reading"].sample); got != maxSample {
		t.Errorf("%d durations are kept", got)
	}
	if lo, hi := time.Duration(n*45/100), time.Duration(n*55/100); r.Median < lo || r.Median > hi {
		t.Errorf("median %d of %d", r.Median, n)
	}
	if got := s.Stage("computing"); got.N != 1 || got.Median != time.Minute || len(s.Gauges) != 1 {
		t.Errorf("%+v, %v", got, s.Gauges)
	}
	spans, every := a.Spans()
	if every != 1 || len(spans) != 2*n+1 {
		t.Errorf("%d spans, every %d", len(spans), every)
	}
	if last := spans[len(spans)-1]; last.Stage != "computing" || last.Block != 7 || last.Start != time.Second {
		t.Errorf("%+v", last)
	}
}

func BenchmarkInterval(b *testing.B) {
	r := New()
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		r.Start("computing", "worker 1", i).Stop()
		i++
	}
}

func BenchmarkIntervalFromAllCores(b *testing.B) {
	r := New()
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		i := 0
		for pb.Next() {
			r.Start("computing", "worker 1", i).Stop()
			i++
		}
	})
}
