package coordinator

import (
	"fmt"
	"testing"

	"leat/worker"
)

func TestEachBlockIsComputedOnce(t *testing.T) {
	for _, transport := range transports {
		for _, workers := range []int{1, 2, 5} {
			t.Run(fmt.Sprintf("%s/%d", transport, workers), func(t *testing.T) {
				k := newTaken()
				o := testOptions(100, k)
				o.Workers, o.Job, o.Logger = workers, []byte(`{"a":1}`), logTo(t)
				c := newTestCoordinator(t, o)
				var all []*working
				for i := range workers {
					e := environmentOf(t, c, transport, worker.WorkerName("test", i))
					e.Slots = 1 + i
					all = append(all, startWorker(t, e, &plain{}))
				}
				if err := waitRun(t, c); err != nil {
					t.Fatal(err)
				}
				for i, w := range all {
					if err := w.wait(); err != nil {
						t.Errorf("worker %d: %v", i, err)
					}
					if w.plain.joined.Job != nil && string(w.plain.joined.Job) != `{"a":1}` {
						t.Errorf("the job was %s", w.plain.joined.Job)
					}
				}
				k.check(t, 100)
				s := c.Status()
				if s.Done != 100 || s.Held != 0 || s.Waiting != 0 || s.Ended != "done" || s.LostWorkers != 0 ||
					s.Refused != (worker.Refused{}) {
					t.Errorf("status: %+v", s)
				}
			})
		}
	}
}
