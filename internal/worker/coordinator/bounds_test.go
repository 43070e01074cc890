package coordinator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"leat/internal/worker/protocol"
	"leat/worker"
)

// Bodies that wait for memory are not read. They continue when memory is free or the run has ended.
func TestResultsWaitForMemory(t *testing.T) {
	const workers, size = 3, 1000
	for _, how := range []string{"the run goes on", "the run ends"} {
		t.Run(how, func(t *testing.T) {
			o := testOptions(workers, newTaken())
			o.Workers, o.MaxResult, o.MaxBytes, o.NoCopies = workers, size, size, true
			var in, done atomic.Int64
			first, goOn := make(chan struct{}, workers), make(chan struct{})
			defer func() { // if the test fails
				select {
				case <-goOn:
				default:
					close(goOn)
				}
			}()
			o.Accept = func(context.Context, *Result) error {
				defer in.Add(-1)
				if in.Add(1) > 1 {
					t.Error("two results are in memory, expected one")
				}
				first <- struct{}{}
				<-goOn
				done.Add(1)
				return nil
			}
			c := newTestCoordinator(t, o)
			var sending sync.WaitGroup
			answers := make(chan answered, workers)
			begun := time.Now()
			for i := range workers {
				r := newRaw(t, c)
				r.join(worker.WorkerName("raw", i))
				l := r.lease(1)[0]
				body := strings.Repeat("x", size)
				begun = time.Now()
				sending.Go(func() {
					a, err := r.try(t.Context(), protocol.PathResult, strings.NewReader(body),
						r.resultHeaderOf(l.Lease, l.Block, body)...)
					if err != nil {
						t.Error(err)
					}
					answers <- a
				})
				if i == 0 {
					<-first
				}
			}
			until(t, "results of all", func() bool {
				c.mu.Lock()
				defer c.mu.Unlock()
				return c.members[workers-1].heard.After(begun)
			})
			for end := time.Now().Add(50 * time.Millisecond); time.Now().Before(end); time.Sleep(time.Millisecond) {
				if n := c.Status().BodyBytes; n > size {
					t.Fatalf("bodies have %d bytes of %d", n, size)
				}
			}
			if how == "the run ends" {
				c.end(errors.New("enough"))
				until(t, "the answers to waiting results", func() bool { return len(answers) == workers-1 })
				for range workers - 1 {
					if a := <-answers; a.status != 410 || a.code() != "ended" {
						t.Errorf("%+v", a)
					}
				}
				close(goOn)
				sending.Wait()
				return
			}
			close(goOn)
			if err := waitRun(t, c); err != nil || done.Load() != workers {
				t.Errorf("%v, %d blocks", err, done.Load())
			}
			sending.Wait()
			for range workers {
				if a := <-answers; a.status != 200 {
					t.Errorf("%+v", a)
				}
			}
		})
	}
}

func TestBufferSize(t *testing.T) {
	c := newTestCoordinator(t, testOptions(1, newTaken()))
	for _, n := range []int64{0, 1, bodyStep, bodyStep + 1, 1 << 20} {
		for range 10 { // a pool may drop a buffer
			large := make([]byte, 8<<20)
			c.pool.Put(&large)
			b, giveBack := c.buffer(n)
			if int64(len(b)) != n || int64(cap(b)) > 2*n {
				t.Errorf("%d bytes, of %d, for a body of %d", len(b), cap(b), n)
			}
			giveBack()
		}
	}
}

func TestLargeNoteEndsRun(t *testing.T) {
	k := newTaken()
	o := testOptions(2, k)
	note := json.RawMessage(`"` + strings.Repeat("<", protocol.MaxNote-2) + `"`)
	o.Note = func() json.RawMessage { return note }
	c := newTestCoordinator(t, o)
	var got atomic.Int64
	startWorker(t, environmentOf(t, c, "tls", "test-0"), &plain{onNote: func(n string) { got.Store(int64(len(n))) }})
	if err := waitRun(t, c); err != nil || got.Load() != protocol.MaxNote {
		t.Errorf("%v, a note of %d bytes", err, got.Load())
	}
	k.check(t, 2)

	o.Note = func() json.RawMessage { return append(note[:len(note):len(note)], ' ') }
	for _, transport := range transports {
		c := newTestCoordinator(t, o)
		startWorker(t, environmentOf(t, c, transport, "test-0"), &plain{})
		if err := waitRun(t, c); err == nil || !strings.Contains(err.Error(), "note has 1048577 bytes") {
			t.Errorf("%v", err)
		}
	}
}

func TestNestedJSONKeepsItsSize(t *testing.T) {
	const job = `{"a":"<<<&>>>\u2028"}`
	o := testOptions(1, newTaken())
	o.Job, o.OnDemand = []byte(job), true
	o.Note = func() json.RawMessage { return []byte(job) }
	c := newTestCoordinator(t, o)
	c.Offer(0, []byte(job))
	r := newRaw(t, c)
	a := r.post(protocol.PathJoin, fmt.Sprintf(`{"protocol":1,"name":"raw-0","kind":"raw","build":%q,"arch":%q,"host":"h","pid":1,"cores":1,"slots":1}`, testBuild, protocol.ThisArch()))
	if !strings.Contains(a.body, `"job":`+job) {
		t.Errorf("%s", a.body)
	}
	a = r.post(protocol.PathLease, `{"worker":0,"want":1,"held":[]}`)
	if !strings.Contains(a.body, `"payload":`+job) || !strings.Contains(a.body, `"note":`+job) {
		t.Errorf("%s", a.body)
	}
}

// A thousand workers for one block each leave a thousand logs that are never used.
func TestLogOfLeftWorkerIsDropped(t *testing.T) {
	o := testOptions(2, newTaken())
	o.Workers = 3
	c := newTestCoordinator(t, o)
	left, lost := newRaw(t, c), newRaw(t, c)
	left.join("raw-0")
	lost.join("raw-1")
	left.post(protocol.PathLeave, `{"worker":0}`)
	for i := range 2 {
		c.Exited(worker.Exit{Name: worker.WorkerName("raw", i), Log: "much"})
	}
	if a, b := c.expected["raw-0"].exit, c.expected["raw-1"].exit; a.Log != "" || b.Log != "much" {
		t.Errorf("%+v, %+v", a, b)
	}
}
