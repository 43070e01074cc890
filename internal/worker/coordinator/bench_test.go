package coordinator

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"

	"leat/internal/worker/client"
)

// BenchmarkTrivialBlocks leases blocks without work to a worker and receives their results: what a
// block costs besides its computation.
func BenchmarkTrivialBlocks(b *testing.B) {
	for _, transport := range transports {
		for _, size := range []int{100, 1 << 20} {
			b.Run(fmt.Sprintf("%s/%dB", transport, size), func(b *testing.B) {
				body := [][]byte{make([]byte, size)}
				// A run has b.N blocks, so that joining hardly counts.
				o := Options{
					Blocks: b.N, MaxResult: 4 << 20, MaxBytes: 64 << 20,
					Accept: func(context.Context, *Result) error { return nil }, Build: testBuild, Workers: 1,
				}
				c := newTestCoordinator(b, o)
				w := workOptions(environmentOf(b, c, transport, "test-0"), nil)
				w.Open = func(context.Context, client.JoinInfo) (client.Handler, error) { return trivial(body), nil }
				b.SetBytes(int64(size))
				b.ReportAllocs()
				b.ResetTimer()
				done := make(chan error)
				go func() { done <- client.Work(context.Background(), w) }()
				if err := c.Wait(context.Background()); err != nil {
					b.Fatal(err)
				}
				b.StopTimer()
				if err := <-done; err != nil {
					b.Fatal(err)
				}
			})
		}
	}
}

// trivial is a Handler whose results are all the same.
type trivial [][]byte

func (t trivial) Read(context.Context, client.Lease) (any, error)            { return nil, nil }
func (t trivial) Compute(context.Context, int, any) (body [][]byte, _ error) { return t, nil }
func (t trivial) Discard(any)                                                {}
func (t trivial) Notify(json.RawMessage)                                     {}
func (t trivial) Close() ([]byte, error)                                     { return nil, nil }
