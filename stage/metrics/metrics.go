// Package metrics exports the counters of a stage to Prometheus.
//
// [Collector] returns a collector for any registry.
package metrics

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"leat/stage"
)

// counts lists the counters, with the names of stage.Counters.
var counts = []struct {
	name, help string
	value      func(stage.Counters) int64
}{
	{"hits_total", "Objects served from what was staged before they were asked for.",
		func(c stage.Counters) int64 { return c.Hits }},
	{"misses_total", "Objects copied from their source.", func(c stage.Counters) int64 { return c.Misses }},
	{"shared_total", "Objects waited for while another process copied them.",
		func(c stage.Counters) int64 { return c.Shared }},
	{"read_through_total", "Objects read from their source without being staged.",
		func(c stage.Counters) int64 { return c.ReadThrough }},
	{"evicted_total", "Objects removed to make space, at their last release, or on demand.",
		func(c stage.Counters) int64 { return c.Evicted }},
	{"copied_bytes_total", "Bytes of the objects copied.", func(c stage.Counters) int64 { return c.Bytes }},
	{"waits_total", "Copies that waited for space.", func(c stage.Counters) int64 { return c.Waits }},
	{"retries_total", "Repeated requests to sources.", func(c stage.Counters) int64 { return c.Retries }},
	{"reads_total", "Objects whose bytes a source was asked for.", func(c stage.Counters) int64 { return c.Reads }},
	{"checks_total", "Staged objects compared with their source.", func(c stage.Counters) int64 { return c.Checks }},
	{"changed_total", "Staged objects found to have changed at their source.",
		func(c stage.Counters) int64 { return c.Changed }},
	{"errors_total", "Copies and reads that failed.", func(c stage.Counters) int64 { return c.Errors }},
	{"not_queued_total", "Prefetches beyond the limit of the queue.",
		func(c stage.Counters) int64 { return c.NotQueued }},
	{"too_large_total", "Objects larger than the limit of all together.",
		func(c stage.Counters) int64 { return c.TooLarge }},
	{"disk_full_total", "Copies given up because the disk was full.",
		func(c stage.Counters) int64 { return c.DiskFull }},
	{"damaged_total", "Staged objects whose bytes were wrong or could not be read.",
		func(c stage.Counters) int64 { return c.Damaged }},
}

// Collector returns a collector of a pool's counters. leat_stage_… counts what this pool did;
// leat_stage_dir_… is the state of its directory and what all processes did in it since it was
// created, so that one of the processes that share a directory is enough for it. A scrape only
// reads memory. After Close of the pool only the former remain.
func Collector(p *stage.Pool) prometheus.Collector {
	c := &collector{pool: p, reported: make([]int64, len(counts))}
	for _, n := range counts {
		c.own = append(c.own, prometheus.NewDesc("leat_stage_"+n.name, n.help, nil, nil))
		c.all = append(c.all, prometheus.NewDesc("leat_stage_dir_"+n.name,
			n.help+" By all processes since the directory was made.", nil, nil))
	}
	c.bytes = prometheus.NewDesc("leat_stage_dir_bytes",
		"Bytes of the disk that objects take, copies under way included.", nil, nil)
	c.objects = prometheus.NewDesc("leat_stage_dir_objects", "Objects in the directory, copies under way included.",
		nil, nil)
	c.processes = prometheus.NewDesc("leat_stage_dir_processes", "Processes that use the directory.", nil, nil)
	return c
}

type collector struct {
	pool                      *stage.Pool
	own, all                  []*prometheus.Desc
	bytes, objects, processes *prometheus.Desc

	mu       sync.Mutex
	reported []int64 // highest values reported of the directory's counters
}

func (c *collector) Describe(ch chan<- *prometheus.Desc) {
	for i := range counts {
		ch <- c.own[i]
		ch <- c.all[i]
	}
	ch <- c.bytes
	ch <- c.objects
	ch <- c.processes
}

func (c *collector) Collect(ch chan<- prometheus.Metric) {
	own := c.pool.Counters()
	for i, n := range counts {
		ch <- prometheus.MustNewConstMetric(c.own[i], prometheus.CounterValue, float64(n.value(own)))
	}
	usage, err := c.pool.Usage()
	if err != nil { // closed, or the disk failed
		return
	}
	ch <- prometheus.MustNewConstMetric(c.bytes, prometheus.GaugeValue, float64(usage.Bytes))
	ch <- prometheus.MustNewConstMetric(c.objects, prometheus.GaugeValue, float64(usage.Objects))
	ch <- prometheus.MustNewConstMetric(c.processes, prometheus.GaugeValue, float64(usage.Processes))
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, n := range counts {
		// The counts of an exiting process are missing from both sums for a moment, and Prometheus
		// would take a falling counter for a restart.
		c.reported[i] = max(c.reported[i], n.value(usage.Since))
		ch <- prometheus.MustNewConstMetric(c.all[i], prometheus.CounterValue, float64(c.reported[i]))
	}
}
