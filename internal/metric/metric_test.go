package metric

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	dto "github.com/prometheus/client_model/go"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func metrics(s *Set) {
	s.Gauge("leat_workers", "Workers by kind and state.", 2, "kind", "slurm", "state", "lost")
	s.Gauge("leat_workers", "Workers by kind and state.", 0.5, "kind", "slurm", "state", "joined")
	s.Gauge("leat_workers", "Workers by kind and state.", -1, "kind", "a\"b\\c\nd", "state", "lost")
	s.Counter("leat_blocks_total", "Blocks, \"all\" of\nthem.", 1e9)
}

// Prometheus' own handler is the reference. It also checks the metrics.
func TestHandlerAnswersAsPrometheus(t *testing.T) {
	reference := promhttp.HandlerFor(prometheus.Gatherers{prometheus.GathererFunc(func() ([]*dto.MetricFamily, error) {
		var s Set
		metrics(&s)
		return s.Families(), nil
	})}, promhttp.HandlerOpts{EnableOpenMetrics: true, DisableCompression: true})
	for _, accept := range []string{"", "*/*", "text/plain;version=0.0.4", "application/openmetrics-text;version=1.0.0",
		"application/openmetrics-text;version=0.0.1;q=0.7,text/plain;q=0.3", "text/html",
		"application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited"} {
		ask := func(h http.Handler) *httptest.ResponseRecorder {
			r := httptest.NewRequest("GET", "/metrics", nil)
			if accept != "" {
				r.Header.Set("Accept", accept)
			}
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			return w
		}
		got, want := ask(Handler(metrics)), ask(reference)
		if got.Code != want.Code || got.Body.String() != want.Body.String() {
			t.Errorf("%q: %d\n%s\nexpected %d\n%s", accept, got.Code, got.Body, want.Code, want.Body)
		}
		for _, h := range []string{"Content-Type", "Vary"} {
			if got, want := got.Header().Get(h), want.Header().Get(h); got != want {
				t.Errorf("%q: %s is %q, expected %q", accept, h, got, want)
			}
		}
	}
}

func TestEmptySet(t *testing.T) {
	w := httptest.NewRecorder()
	Handler(func(*Set) {}).ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	if w.Code != 200 || w.Body.Len() != 0 {
		t.Errorf("%d, %q", w.Code, w.Body)
	}
}
