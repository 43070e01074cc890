package live

import (
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	dto "github.com/prometheus/client_model/go"

	"leat/internal/metric"
	"leat/timing"
)

// gathered returns the metrics of a page for Prometheus' client, which checks them.
func gathered(p *Page) prometheus.Gatherer {
	return prometheus.Gatherers{prometheus.GathererFunc(func() ([]*dto.MetricFamily, error) {
		var s metric.Set
		p.metrics(&s)
		return s.Families(), nil
	})}
}

func TestMetrics(t *testing.T) {
	p := New(Options{})
	if n, err := testutil.GatherAndCount(gathered(p)); n != 0 || err != nil {
		t.Errorf("%d before the first look, %v", n, err)
	}
	p.publish(Status{
		Phase: Computing, Elapsed: 90 * time.Second,
		Blocks: Blocks{Total: 10, Done: 4, Lost: 3, Reissued: 2, Copies: 1}, Pixels: 400, Left: 30 * time.Second,
		Queues: []Queue{{"read ahead", 3, 8}, {"prefetches", 5, 0}, {"read ahead", 1, 8}},
		Timings: timing.Summary{Stages: []timing.StageSummary{{Stage: "reading", N: 4,
			Total: 1500 * time.Millisecond}}},
		Workers: []Worker{{Kind: "slurm", State: "joined"}, {Kind: "slurm", State: "lost"},
			{Kind: "slurm", State: "joined"}},
		Outputs:  []Output{{"a\"b\\c\nd", "x", 5}, {"bad \xff", "y", 6}},
		Messages: []Message{{Text: "x"}, {Warning: true}, {Warning: true}},
	}, nil, false)
	if problems, err := testutil.GatherAndLint(gathered(p)); err != nil || len(problems) > 0 {
		t.Errorf("%v, %v", problems, err)
	}
	want := `# HELP leat_run_blocks Blocks of the run.
# TYPE leat_run_blocks gauge
leat_run_blocks 10
# HELP leat_run_blocks_copied_total Blocks assigned to a second worker.
# TYPE leat_run_blocks_copied_total counter
leat_run_blocks_copied_total 1
# HELP leat_run_blocks_done_total Blocks that are finished.
# TYPE leat_run_blocks_done_total counter
leat_run_blocks_done_total 4
# HELP leat_run_blocks_lost_total Blocks whose worker was lost.
# TYPE leat_run_blocks_lost_total counter
leat_run_blocks_lost_total 3
# HELP leat_run_blocks_reissued_total Blocks assigned again after a loss or a failure.
# TYPE leat_run_blocks_reissued_total counter
leat_run_blocks_reissued_total 2
# HELP leat_run_elapsed_seconds Time since the start of the run.
# TYPE leat_run_elapsed_seconds gauge
leat_run_elapsed_seconds 90
# HELP leat_run_left_seconds Estimated time to the end of the run, if known.
# TYPE leat_run_left_seconds gauge
leat_run_left_seconds 30
# HELP leat_run_messages_total Errors and warnings.
# TYPE leat_run_messages_total counter
leat_run_messages_total{severity="error"} 1
leat_run_messages_total{severity="warning"} 2
# HELP leat_run_output_spooled_bytes Bytes of an output in its spool.
# TYPE leat_run_output_spooled_bytes gauge
leat_run_output_spooled_bytes{output="a\"b\\c\nd"} 5
leat_run_output_spooled_bytes{output="bad �"} 6
# HELP leat_run_phase 1 for the phase that the run is in.
# TYPE leat_run_phase gauge
leat_run_phase{phase="blocks"} 1
leat_run_phase{phase="done"} 0
leat_run_phase{phase="failed"} 0
leat_run_phase{phase="laying out"} 0
leat_run_phase{phase="rasterizing"} 0
leat_run_phase{phase="staging"} 0
leat_run_phase{phase="uploading"} 0
# HELP leat_run_pixels_total Pixels of finished blocks.
# TYPE leat_run_pixels_total counter
leat_run_pixels_total 400
# HELP leat_run_queue_depth Items in a queue.
# TYPE leat_run_queue_depth gauge
leat_run_queue_depth{queue="prefetches"} 5
leat_run_queue_depth{queue="read ahead"} 4
# HELP leat_run_queue_limit Maximum number of items in a queue.
# TYPE leat_run_queue_limit gauge
leat_run_queue_limit{queue="read ahead"} 16
# HELP leat_run_stage_intervals_total Number of intervals of a stage.
# TYPE leat_run_stage_intervals_total counter
leat_run_stage_intervals_total{stage="reading"} 4
# HELP leat_run_stage_seconds_total Time spent in a stage, summed over all goroutines and processes.
# TYPE leat_run_stage_seconds_total counter
leat_run_stage_seconds_total{stage="reading"} 1.5
# HELP leat_run_workers Workers by kind and state.
# TYPE leat_run_workers gauge
leat_run_workers{kind="slurm",state="joined"} 2
leat_run_workers{kind="slurm",state="lost"} 1
`
	if err := testutil.GatherAndCompare(gathered(p), strings.NewReader(want)); err != nil {
		t.Error(err)
	}
}
