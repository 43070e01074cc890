package deflate

import (
	"testing"

	"github.com/klauspost/compress/flate"
)

// discard counts what klauspost's encoder writes.
type discard int

func (d *discard) Write(p []byte) (int, error) {
	*d += discard(len(p))
	return len(p), nil
}

// BenchmarkEncode compares with klauspost's encoder at level 2; ratios are in percent.
func BenchmarkEncode(b *testing.B) {
	for _, c := range []struct {
		kind string
		o    Options
	}{
		{"scene", Options{Element: 2, Row: 1024, Predictor: 2}},
		{"floats", Options{Element: 4, Row: 2048, Predictor: 3}},
		{"classes", Options{Element: 1, Row: 512, Predictor: 1}},
		{"noise", Options{Element: 1, Row: 512, Predictor: 1}},
	} {
		data := made(c.kind, 512*512*max(c.o.Element, 1))
		b.Run(c.kind+"/here", func(b *testing.B) {
			e := NewEncoder(c.o)
			var out []byte
			b.SetBytes(int64(len(data)))
			b.ReportAllocs()
			for b.Loop() {
				out = e.AppendZlib(out[:0], data)
			}
			b.ReportMetric(100*float64(len(out))/float64(len(data)), "percent")
		})
		b.Run(c.kind+"/klauspost", func(b *testing.B) {
			var out discard
			w, err := flate.NewWriter(&out, 2)
			if err != nil {
				b.Fatal(err)
			}
			b.SetBytes(int64(len(data)))
			b.ReportAllocs()
			for b.Loop() {
				out = 0
				w.Reset(&out)
				if _, err := w.Write(data); err != nil {
					b.Fatal(err)
				}
				if err := w.Close(); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(100*float64(out)/float64(len(data)), "percent")
		})
	}
}
