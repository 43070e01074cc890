package metrics_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"leat/stage"
	"leat/stage/metrics"
)

func ExampleCollector() {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	pool, err := stage.Open(context.Background(), dir, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer pool.Close()

	registry := prometheus.NewRegistry() // or prometheus.DefaultRegisterer
	registry.MustRegister(metrics.Collector(pool))
	handler := promhttp.HandlerFor(registry, promhttp.HandlerOpts{})

	// http.Handle("/metrics", handler) serves it; here is one scrape.
	scrape := httptest.NewRecorder()
	handler.ServeHTTP(scrape, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	for line := range strings.Lines(scrape.Body.String()) {
		if strings.HasPrefix(line, "leat_stage_hits_total") || strings.HasPrefix(line, "leat_stage_dir_processes") {
			fmt.Print(line)
		}
	}
	// Output:
	// leat_stage_dir_processes 1
	// leat_stage_hits_total 0
}
