package metric

import (
	"bytes"
	"net/http"

	"github.com/prometheus/common/expfmt"
)

// Handler serves the metrics of a source in the format that the client prefers.
func Handler(source Source) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		format := expfmt.NegotiateAccept(r.Header, expfmt.DefaultOpenMetricsAcceptedFormats()...)
		var set Set
		source(&set)
		var body bytes.Buffer
		if err := encode(&body, format, &set); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", string(format))
		w.Header().Set("Vary", "Accept")
		w.Write(body.Bytes()) // fails only if the client does not wait for it
	})
}

// encode appends all metrics of a set.
func encode(body *bytes.Buffer, format expfmt.Format, set *Set) error {
	enc := expfmt.NewEncoder(body, format)
	for _, f := range set.Families() {
		if err := enc.Encode(f); err != nil {
			return err
		}
	}
	if c, ok := enc.(expfmt.Closer); ok { // OpenMetrics ends with a line of its own
		return c.Close()
	}
	return nil
}
