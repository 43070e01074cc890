// Package stagemetrics has the metrics of a stage. Package stage/metrics exports them to programs
// that use Prometheus' client.
package stagemetrics

import (
	"sync"

	"leat/internal/metric"
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

// Metrics has the metrics of a pool. Its methods may be called concurrently.
type Metrics struct {
	pool *stage.Pool

	mu       sync.Mutex
	reported []int64 // highest values reported of the directory's counters
}

// New returns the metrics of a pool.
func New(p *stage.Pool) *Metrics { return &Metrics{pool: p, reported: make([]int64, len(counts))} }

// Names begin with poolPrefix for what the pool did, and with dirPrefix for the state of its
// directory and what all processes did there.
const (
	poolPrefix    = "leat_stage_"
	dirPrefix     = "leat_stage_dir_"
	ofAll         = " By all processes since the directory was made."
	dirBytes      = dirPrefix + "bytes"
	bytesHelp     = "Bytes of the disk that objects take, copies under way included."
	dirObjects    = dirPrefix + "objects"
	objectsHelp   = "Objects in the directory, copies under way included."
	dirProcesses  = dirPrefix + "processes"
	processesHelp = "Processes that use the directory."
)

// Describe yields the names and the help of all metrics.
func Describe(yield func(name, help string)) {
	for _, n := range counts {
		yield(poolPrefix+n.name, n.help)
		yield(dirPrefix+n.name, n.help+ofAll)
	}
	yield(dirBytes, bytesHelp)
	yield(dirObjects, objectsHelp)
	yield(dirProcesses, processesHelp)
}

// AddTo adds the pool's counters, and the state of its directory while the pool is open.
func (m *Metrics) AddTo(s *metric.Set) {
	counters := m.pool.Counters()
	for _, n := range counts {
		s.Counter(poolPrefix+n.name, n.help, float64(n.value(counters)))
	}
	usage, err := m.pool.Usage()
	if err != nil { // closed, or the disk failed
		return
	}
	s.Gauge(dirBytes, bytesHelp, float64(usage.Bytes))
	s.Gauge(dirObjects, objectsHelp, float64(usage.Objects))
	s.Gauge(dirProcesses, processesHelp, float64(usage.Processes))
	m.mu.Lock()
	defer m.mu.Unlock()
	for i, n := range counts {
		// The counts of an exiting process are missing from both sums for a moment, and Prometheus
		// would take a falling counter for a restart.
		m.reported[i] = max(m.reported[i], n.value(usage.Since))
		s.Counter(dirPrefix+n.name, n.help+ofAll, float64(m.reported[i]))
	}
}
