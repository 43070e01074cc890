// Package metrics tells Prometheus what a stage does.
//
// [Collector] is one for any registry. [Listen] serves it by HTTP, for programs that have no server of their own.
package metrics

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"leat/stage"
)

// counts are the counters: the names are those of stage.Counters.
var counts = []struct {
	name, help string
	of         func(stage.Counters) int64
}{
	{"hits_total", "Objects served from what was staged before they were asked for.", func(c stage.Counters) int64 { return c.Hits }},
	{"misses_total", "Objects copied from their source.", func(c stage.Counters) int64 { return c.Misses }},
	{"shared_total", "Objects waited for while another process copied them.", func(c stage.Counters) int64 { return c.Shared }},
	{"read_through_total", "Objects read from their source without being staged.", func(c stage.Counters) int64 { return c.ReadThrough }},
	{"evicted_total", "Objects removed to make room, at their last release, or on demand.", func(c stage.Counters) int64 { return c.Evicted }},
	{"copied_bytes_total", "Bytes of the objects copied.", func(c stage.Counters) int64 { return c.Bytes }},
	{"waits_total", "Copies that had to wait for room.", func(c stage.Counters) int64 { return c.Waits }},
	{"retries_total", "Requests to sources that were made again.", func(c stage.Counters) int64 { return c.Retries }},
	{"reads_total", "Objects whose bytes a source was asked for.", func(c stage.Counters) int64 { return c.Reads }},
	{"checks_total", "Staged objects compared with their source.", func(c stage.Counters) int64 { return c.Checks }},
	{"changed_total", "Staged objects found to have changed at their source.", func(c stage.Counters) int64 { return c.Changed }},
	{"errors_total", "Copies and reads that failed.", func(c stage.Counters) int64 { return c.Errors }},
	{"not_queued_total", "Prefetches beyond the limit of the queue.", func(c stage.Counters) int64 { return c.NotQueued }},
	{"too_large_total", "Objects larger than the limit of all together.", func(c stage.Counters) int64 { return c.TooLarge }},
	{"disk_full_total", "Copies given up because the disk was full.", func(c stage.Counters) int64 { return c.DiskFull }},
	{"damaged_total", "Staged objects whose bytes were wrong or could not be read.", func(c stage.Counters) int64 { return c.Damaged }},
}

// Collector gives what a pool counts: leat_stage_… is what this pool did, leat_stage_dir_… is the state of its directory and what all processes
// did in it since it was made. One of the processes that share a directory is enough for the latter. Both are of the
// moment of the scrape, and cost no more than reading some memory. After Close of the pool it gives what this pool did, and no more.
func Collector(p *stage.Pool) prometheus.Collector {
	c := &collector{pool: p, most: make([]int64, len(counts))}
	for _, n := range counts {
		c.own = append(c.own, prometheus.NewDesc("leat_stage_"+n.name, n.help, nil, nil))
		c.all = append(c.all, prometheus.NewDesc("leat_stage_dir_"+n.name, n.help+" By all processes since the directory was made.", nil, nil))
	}
	c.bytes = prometheus.NewDesc("leat_stage_dir_bytes", "Bytes of the disk that objects take, copies under way included.", nil, nil)
	c.objects = prometheus.NewDesc("leat_stage_dir_objects", "Objects in the directory, copies under way included.", nil, nil)
	c.processes = prometheus.NewDesc("leat_stage_dir_processes", "Processes that use the directory.", nil, nil)
	return c
}

type collector struct {
	pool                      *stage.Pool
	own, all                  []*prometheus.Desc
	bytes, objects, processes *prometheus.Desc

	mu   sync.Mutex
	most []int64 // what was given of the directory's counters
}

func (c *collector) Describe(to chan<- *prometheus.Desc) {
	for i := range counts {
		to <- c.own[i]
		to <- c.all[i]
	}
	to <- c.bytes
	to <- c.objects
	to <- c.processes
}

func (c *collector) Collect(to chan<- prometheus.Metric) {
	mine := c.pool.Counters()
	for i, n := range counts {
		to <- prometheus.MustNewConstMetric(c.own[i], prometheus.CounterValue, float64(n.of(mine)))
	}
	u, err := c.pool.Usage()
	if err != nil { // closed, or its disk has failed
		return
	}
	to <- prometheus.MustNewConstMetric(c.bytes, prometheus.GaugeValue, float64(u.Bytes))
	to <- prometheus.MustNewConstMetric(c.objects, prometheus.GaugeValue, float64(u.Objects))
	to <- prometheus.MustNewConstMetric(c.processes, prometheus.GaugeValue, float64(u.Processes))
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, n := range counts {
		// What an ending process did is for a moment in neither of the two places that are added up. Prometheus would take a number that falls for a fresh start.
		c.most[i] = max(c.most[i], n.of(u.Since))
		to <- prometheus.MustNewConstMetric(c.all[i], prometheus.CounterValue, float64(c.most[i]))
	}
}
