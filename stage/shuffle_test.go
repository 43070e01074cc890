//go:build linux

package stage

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"
)

// A training loop draws from a buffer of 1000 samples at random, and the disk has space for 500 of
// them. In each run some are opened by several at once, some never, and all are released.
func TestShuffleBufferLargerThanLimit(t *testing.T) {
	runs, longest := 1000, 10*time.Second
	if testing.Short() {
		runs = 15
	} else if os.Getenv("LEAT_TEST_DIST") != "" { // make test-all sets it
		longest = 30 * time.Second
	}
	watchdog(t, 5*time.Minute)
	s := small("shuffle", 200)
	p := pool(t, inMemory(t), Options{MaxFiles: 500, Workers: 8})
	r := rand.New(rand.NewPCG(1, 2))
	all := make([]*Ref, 1000)
	begun, done := time.Now(), 0
	for run := range runs {
		if done = run; run >= 50 && time.Since(begun) > longest { // enough for a slow machine
			break
		}
		for i := range all {
			all[i] = p.Prefetch(s, strconv.Itoa((run*7+i)%1100))
		}
		order := r.Perm(len(all))
		var wg sync.WaitGroup
		for k := range 4 {
			wg.Go(func() {
				for i := k; i < len(order); i += 4 {
					l := all[order[i]]
					if order[i]%50 == run%50 { // never opened
						l.Release()
						continue
					}
					b, err := l.Bytes(t.Context())
					if err != nil || !bytes.Equal(b, content(l.it.name, 0, 200)) {
						t.Errorf("run %d, %s: %d bytes, %v", run, l.it.name, len(b), err)
					}
					l.Release()
				}
			})
		}
		wg.Wait()
		if t.Failed() {
			t.FailNow()
		}
	}
	must(t, p.Wait(within(t, time.Minute)))
	u := wantDisk(t, p)
	c := p.Counters()
	t.Logf("%d runs: %d hits, %d copied, %d read through, %d evicted", done, c.Hits, c.Misses, c.ReadThrough, c.Evicted)
	if u.Objects > 500 || c.Errors != 0 {
		t.Errorf("%+v", u)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.items) != 0 || p.busy != 0 || p.queue.length != 0 {
		t.Errorf("%d objects are remembered, %d are under way, %d queued", len(p.items), p.busy, p.queue.length)
	}
}

// The whole buffer is held until the end: half of it can't be staged, and is read when it is asked
// for.
func TestShuffleBufferHeldToEnd(t *testing.T) {
	watchdog(t, 5*time.Minute)
	s := small("held", 200)
	p := pool(t, inMemory(t), Options{MaxFiles: 500})
	for range 5 {
		var all []*Ref
		for i := range 1000 {
			all = append(all, p.Prefetch(s, fmt.Sprint(i)))
		}
		for _, i := range rand.Perm(1000) {
			wantBytes(t, all[i], s, 0)
		}
		for _, l := range all {
			l.Release()
		}
	}
	if c := p.Counters(); c.Errors != 0 || c.ReadThrough == 0 {
		t.Errorf("%+v", c)
	}
}
