package metrics_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.uber.org/goleak"

	"leat/objstore"
	"leat/stage"
	"leat/stage/metrics"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// used is a pool that copied one object of five bytes and found it again.
func used(t *testing.T, dir string) *stage.Pool {
	t.Helper()
	from := t.TempDir()
	if err := os.WriteFile(filepath.Join(from, "x"), []byte("bytes"), 0o666); err != nil {
		t.Fatal(err)
	}
	b, err := objstore.Open(t.Context(), "file://"+from, nil)
	if err != nil {
		t.Fatal(err)
	}
	p, err := stage.Open(context.Background(), dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	for range 2 {
		l := p.Prefetch(b, "x")
		if _, err := l.Bytes(t.Context()); err != nil {
			t.Fatal(err)
		}
		l.Release()
	}
	return p
}

func TestCollector(t *testing.T) {
	dir := t.TempDir()
	first := used(t, dir)
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	c := metrics.Collector(used(t, dir))
	if problems, err := testutil.CollectAndLint(c); err != nil || len(problems) > 0 {
		t.Errorf("%v, %v", problems, err)
	}
	want := `# HELP leat_stage_copied_bytes_total Bytes of the objects copied.
# TYPE leat_stage_copied_bytes_total counter
leat_stage_copied_bytes_total 5
# HELP leat_stage_dir_bytes Bytes of the disk that objects take, copies under way included.
# TYPE leat_stage_dir_bytes gauge
leat_stage_dir_bytes 8192
# HELP leat_stage_dir_copied_bytes_total Bytes of the objects copied. By all processes since the directory was made.
# TYPE leat_stage_dir_copied_bytes_total counter
leat_stage_dir_copied_bytes_total 10
# HELP leat_stage_dir_objects Objects in the directory, copies under way included.
# TYPE leat_stage_dir_objects gauge
leat_stage_dir_objects 2
# HELP leat_stage_dir_processes Processes that use the directory.
# TYPE leat_stage_dir_processes gauge
leat_stage_dir_processes 1
# HELP leat_stage_hits_total Objects served from what was staged before they were asked for.
# TYPE leat_stage_hits_total counter
leat_stage_hits_total 1
# HELP leat_stage_misses_total Objects copied from their source.
# TYPE leat_stage_misses_total counter
leat_stage_misses_total 1
`
	if err := testutil.CollectAndCompare(c, strings.NewReader(want), "leat_stage_copied_bytes_total",
		"leat_stage_dir_bytes", "leat_stage_dir_copied_bytes_total",
		"leat_stage_dir_objects", "leat_stage_dir_processes", "leat_stage_hits_total",
		"leat_stage_misses_total"); err != nil {
		t.Error(err)
	}
	// 16 counters twice, and three gauges.
	if n := testutil.CollectAndCount(c); n != 35 {
		t.Errorf("%d metrics", n)
	}
}

func TestCollectorAfterClose(t *testing.T) {
	p := used(t, t.TempDir())
	registry := prometheus.NewPedanticRegistry()
	if err := registry.Register(metrics.Collector(p)); err != nil {
		t.Fatal(err)
	}
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	n, err := testutil.GatherAndCount(registry)
	if err != nil || n != 16 {
		t.Errorf("%d metrics, %v", n, err)
	}
}
