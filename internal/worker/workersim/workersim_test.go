package workersim

import (
	"fmt"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestManyWorkers(t *testing.T) {
	for _, tls := range []bool{false, true} {
		f, err := Run(t.Context(), Options{Workers: 32, Blocks: 500, Slots: 2, BodyBytes: 100, TLS: tls})
		if err != nil {
			t.Fatal(err)
		}
		if f.Lost != 0 || f.PerSecond <= 0 || f.LeaseP99 < f.LeaseMedian || f.LeaseMax < f.LeaseP99 ||
			f.LeaseMedian <= 0 {
			t.Errorf("tls %v: %+v", tls, f)
		}
	}
}

// BenchmarkWorkers simulates several numbers of workers, with 20 blocks for each worker.
func BenchmarkWorkers(b *testing.B) {
	for _, tls := range []bool{false, true} {
		for _, n := range []int{64, 256, 1000} {
			name := "sockets"
			if tls {
				name = "tls"
			}
			b.Run(fmt.Sprintf("%s/%d", name, n), func(b *testing.B) {
				for b.Loop() {
					f, err := Run(b.Context(), Options{Workers: n, Blocks: 20 * n, BodyBytes: 1000, TLS: tls})
					if err != nil {
						b.Fatal(err)
					}
					b.ReportMetric(f.PerSecond, "blocks/s")
					b.ReportMetric(f.LeaseMedian.Seconds()*1e3, "lease-median-ms")
					b.ReportMetric(f.LeaseP99.Seconds()*1e3, "lease-p99-ms")
					b.ReportMetric(f.Joining.Seconds()*1e3, "joining-ms")
					b.ReportMetric(float64(f.Lost), "lost")
				}
			})
		}
	}
}

// BenchmarkLargeMachine simulates 64 workers and 3000 blocks. Results hold their tiles, 2.9 MB, or
// only the places of tiles in shared memory.
func BenchmarkLargeMachine(b *testing.B) {
	for _, bytes := range []int{4 << 10, 2900 << 10} {
		b.Run(fmt.Sprintf("workers=64/result=%d", bytes), func(b *testing.B) {
			for b.Loop() {
				f, err := Run(b.Context(), Options{Workers: 64, Blocks: 3000, BodyBytes: bytes})
				if err != nil {
					b.Fatal(err)
				}
				b.ReportMetric(f.PerSecond, "blocks/s")
				b.ReportMetric(f.LeaseP99.Seconds()*1e3, "lease-p99-ms")
			}
		})
	}
}
