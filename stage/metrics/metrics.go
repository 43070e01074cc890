// Package metrics exports the counters of a stage to Prometheus.
//
// [Collector] returns a collector for any registry.
package metrics

import (
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"leat/internal/metric"
	"leat/internal/stagemetrics"
	"leat/stage"
)

// Collector returns a collector of a pool's counters. leat_stage_… counts what this pool did;
// leat_stage_dir_… is the state of its directory and what all processes did in it since it was
// created, so it is enough to export them from one of the processes that share a directory. A
// scrape only reads memory. After Close of the pool only the former remain.
func Collector(p *stage.Pool) prometheus.Collector {
	c := &collector{metrics: stagemetrics.New(p), descs: map[string]*prometheus.Desc{}}
	stagemetrics.Describe(func(name, help string) { c.descs[name] = prometheus.NewDesc(name, help, nil, nil) })
	return c
}

type collector struct {
	metrics *stagemetrics.Metrics
	descs   map[string]*prometheus.Desc // by name
}

func (c *collector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range c.descs {
		ch <- d
	}
}

func (c *collector) Collect(ch chan<- prometheus.Metric) {
	var s metric.Set
	c.metrics.AddTo(&s)
	for _, f := range s.Families() {
		for _, m := range f.Metric {
			kind, v := prometheus.GaugeValue, m.GetGauge().GetValue()
			if f.GetType() == dto.MetricType_COUNTER {
				kind, v = prometheus.CounterValue, m.GetCounter().GetValue()
			}
			ch <- prometheus.MustNewConstMetric(c.descs[f.GetName()], kind, v)
		}
	}
}
