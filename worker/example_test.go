package worker_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"sync/atomic"

	"leat/worker"
)

// squares is the work of a worker: the square of each block's number.
type squares struct{}

func (squares) Read(_ context.Context, l worker.Lease) (any, error) { return l.Block, nil }

func (squares) Compute(_ context.Context, slot int, read any) ([][]byte, error) {
	n := read.(int)
	return [][]byte{fmt.Append(nil, n*n)}, nil
}

func (squares) Discard(any)            {} // what Read returned needs no care
func (squares) Notify(json.RawMessage) {}
func (squares) Close() error           { return nil }

func Example() {
	var sum atomic.Int64
	c, err := worker.NewChannel(worker.Options{
		Blocks: 10, Workers: 1, MaxResult: 100, MaxBytes: 1000,
		Accept: func(_ context.Context, r *worker.Result) error {
			var n int64
			_, err := fmt.Sscan(string(r.Body), &n)
			sum.Add(n)
			return err
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	invitation, err := c.Listen("127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}

	// This is done in another process, which learns of its channel by FromEnvironment.
	done := make(chan struct{})
	go func() {
		defer close(done)
		err := worker.Work(context.Background(), worker.WorkOptions{
			Environment: &worker.Environment{Name: "example-0", Endpoint: invitation},
			Open:        func(context.Context, worker.JoinInfo) (worker.Handler, error) { return squares{}, nil },
		})
		if err != nil {
			log.Print(err)
		}
	}()

	if err := c.Wait(context.Background()); err != nil {
		log.Fatal(err)
	}
	<-done
	fmt.Println(sum.Load())
	// Output: 285
}
