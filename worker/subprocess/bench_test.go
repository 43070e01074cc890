package subprocess

import (
	"slices"
	"testing"
	"time"
)

// BenchmarkStart is from Start to the worker's first byte on a connection; the worker is this test
// binary.
func BenchmarkStart(b *testing.B) {
	var times []time.Duration
	for b.Loop() {
		r := &run{connector: &connector{}}
		o := r.options(1)
		begin := time.Now()
		f, err := New(&Options{Env: []string{"LEAT_PROCTEST=worker"}}).Start(b.Context(), o)
		if err != nil {
			b.Fatal(err)
		}
		if _, _, err := r.hello(0); err != nil {
			b.Fatal(err)
		}
		times = append(times, time.Since(begin))
		if err := f.Stop(b.Context()); err != nil {
			b.Fatal(err)
		}
		r.close()
	}
	slices.Sort(times)
	b.ReportMetric(float64(times[len(times)/2].Microseconds())/1000, "ms-median")
	b.ReportMetric(float64(times[len(times)*9/10].Microseconds())/1000, "ms-p90")
}
