//go:build linux

package stage

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"leat/objstore"
)

// The rules of Ref, one by one.

func TestOpenQueuedObject(t *testing.T) {
	t.Parallel()
	s := small("queued", 1000)
	gate := make(chan struct{})
	s.put("first", object{size: 1000, gate: gate})
	p := pool(t, t.TempDir(), Options{Workers: 1})
	first, second, third := p.Prefetch(s, "first"), p.Prefetch(s, "second"), p.Prefetch(s, "third")
	become(t, first, running)
	if stateOf(second) != queued || stateOf(third) != queued {
		t.Fatal("the others are not queued behind it")
	}
	var wg sync.WaitGroup
	for range 5 {
		wg.Go(func() {
			l := p.Prefetch(s, "third")
			defer l.Release()
			wantBytes(t, l, s, 0)
		})
	}
	wg.Wait() // while the only worker is at the first
	if stateOf(third) != staged || stateOf(second) != queued {
		t.Errorf("the third is %s, the second %s", stateNames[stateOf(third)], stateNames[stateOf(second)])
	}
	close(gate)
	must(t, p.Wait(within(t, time.Minute)))
	for _, name := range []string{"first", "second", "third"} {
		if reads, _, given := s.count(name); reads != 1 || given != 1000 {
			t.Errorf("%s was read by %d requests of %d bytes", name, reads, given)
		}
	}
}

func TestOpenDuringCopy(t *testing.T) {
	t.Parallel()
	s := small("running", 1000)
	middle := make(chan struct{})
	s.put("a", object{size: 1000, middle: middle})
	p := pool(t, t.TempDir(), Options{})
	l := p.Prefetch(s, "a")
	soon(t, "half of it being read", func() bool { _, _, n := s.count("a"); return n == 500 })
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { _, err := l.Open(ctx); done <- err }()
	soon(t, "waiting", func() bool { p.mu.Lock(); defer p.mu.Unlock(); return l.it.wanted == 1 })
	cancel() // ends the waiting, not the copy
	wantErr(t, <-done, context.Canceled)
	close(middle)
	wantBytes(t, l, s, 0)
	if reads, _, given := s.count("a"); reads != 1 || given != 1000 {
		t.Errorf("%d requests, %d bytes", reads, given)
	}
}

func TestOpenStagedObject(t *testing.T) {
	t.Parallel()
	s := small("staged", 1000)
	p := pool(t, t.TempDir(), Options{})
	l := p.Prefetch(s, "a")
	must(t, p.Wait(t.Context()))
	s.put("a", object{size: 1000, fails: -1, err: errFinal})
	for range 3 {
		r := ok(l.Open(t.Context()))(t)
		if !r.Staged() || r.Size() != 1000 {
			t.Errorf("staged: %v, size %d", r.Staged(), r.Size())
		}
		must(t, r.Close())
	}
	if reads, stats, _ := s.count("a"); reads != 1 || stats != 0 {
		t.Errorf("%d reads, %d look-ups", reads, stats)
	}
}

func TestDirectReadIsShared(t *testing.T) {
	t.Parallel()
	s := small("space", 64*kib)
	p := pool(t, t.TempDir(), Options{MaxBytes: 64 * kib})
	a := p.Prefetch(s, "a")
	wantBytes(t, a, s, 0)
	gate := make(chan struct{})
	s.put("b", object{size: 64 * kib, gate: gate})
	b := p.Prefetch(s, "b")
	close(gate)
	become(t, b, waitingForSpace)
	_, _, before := s.count("b")
	gate = make(chan struct{})
	s.edit("b", func(o *object) { o.gate = gate })
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			r := ok(b.Open(t.Context()))(t)
			defer r.Close()
			if r.Staged() {
				t.Error("staged without space")
			}
			if got := ok(io.ReadAll(r))(t); !bytes.Equal(got, content("b", 0, 64*kib)) {
				t.Error("other bytes")
			}
		})
	}
	soon(t, "four waiting", func() bool { p.mu.Lock(); defer p.mu.Unlock(); return b.it.wanted == 4 })
	close(gate)
	wg.Wait()
	if _, _, given := s.count("b"); given-before != 64*kib {
		t.Errorf("%d bytes were read for four of %d", given-before, 64*kib)
	}
	if u := wantDisk(t, p); u.Bytes != 64*kib || p.Counters().ReadThrough != 1 {
		t.Errorf("%d bytes, %+v", u.Bytes, p.Counters())
	}
	// Space that is freed goes to the next in line.
	a.Release()
	wantBytes(t, b, s, 0)
	if stateOf(b) != staged {
		t.Errorf("b is %s", stateNames[stateOf(b)])
	}
}

func TestCopyWhenSpaceBecomesFree(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := small("parked", 64*kib)
	p := pool(t, dir, Options{MaxBytes: 64 * kib})
	other := pool(t, dir, Options{MaxBytes: 64 * kib})
	for _, holder := range []*Pool{p, other} {
		a := holder.Prefetch(s, "a")
		wantBytes(t, a, s, 0)
		b := p.Prefetch(s, "b")
		become(t, b, waitingForSpace)
		reads, _, _ := s.count("b")
		retryOften(t, p)
		if again, _, _ := s.count("b"); again != reads {
			t.Errorf("the source was asked %d times while there was no space", again-reads)
		}
		a.Release()
		become(t, b, staged) // nobody opens it
		b.Release()
	}
}

// retryOften waits until the pool has looked for space many times.
func retryOften(t *testing.T, p *Pool) {
	t.Helper()
	begin := ticketsOf(p)
	soon(t, "retries", func() bool { return ticketsOf(p) > begin+5 })
}

// ticketsOf returns how often items were queued.
func ticketsOf(p *Pool) uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.queue.tickets
}

func TestWaitingForSpaceIsCheap(t *testing.T) {
	for _, n := range []int{1, 50} {
		dir := inMemory(t)
		synctest.Test(t, func(t *testing.T) {
			s := small("idle", 64*kib)
			p := ok(Open(context.Background(), dir, quick(Options{MaxBytes: 64 * kib})))(t)
			defer p.Close()
			a := p.Prefetch(s, "a")
			wantBytes(t, a, s, 0)
			for i := range n {
				defer p.Prefetch(s, fmt.Sprint(i)).Release()
			}
			soon(t, "all waiting for space", func() bool { return p.Counters().Waits == int64(n) })
			time.Sleep(time.Second)
			begin := ticketsOf(p)
			time.Sleep(time.Second)
			if got := ticketsOf(p) - begin; got == 0 || got > 150 {
				t.Errorf("%d objects that wait for space were tried %d times in a second", n, got)
			}
			a.Release()
		})
	}
}

func TestRetryAfterFailure(t *testing.T) {
	t.Parallel()
	s := small("failure", 1000)
	s.put("a", object{size: 1000, fails: 1, err: errFinal})
	p := pool(t, t.TempDir(), Options{})
	l := p.Prefetch(s, "a")
	become(t, l, failed)
	wantBytes(t, l, s, 0) // the failure was before it was asked for
	s.put("b", object{size: 1000, fails: -1, err: errFinal})
	b := p.Prefetch(s, "b")
	for range 3 {
		_, err := b.Open(t.Context())
		wantErr(t, err, errFinal)
	}
	s.put("b", object{size: 1000})
	wantBytes(t, b, s, 0)
	_, err := p.Prefetch(newSource("empty"), "nothing").Open(t.Context())
	wantErr(t, err, os.ErrNotExist)
}

func TestTemporaryFailures(t *testing.T) {
	t.Parallel()
	s := small("temporary", 3*mib)
	s.put("a", object{size: 3 * mib, fails: 3})
	s.put("b", object{size: 3 * mib, cut: mib / 3})
	p := pool(t, t.TempDir(), Options{RangeBytes: mib})
	for _, name := range []string{"a", "b"} {
		l := p.Prefetch(s, name)
		defer l.Release()
		wantBytes(t, l, s, 0)
	}
	if n := p.Counters(); n.Retries != 4 || n.Errors != 0 || n.Misses != 2 {
		t.Errorf("counters: %+v", n)
	}
	if _, _, given := s.count("b"); given != 3*mib {
		t.Errorf("%d bytes were read of an object of %d whose body broke off once", given, 3*mib)
	}
}

func TestStalledRequest(t *testing.T) {
	t.Parallel()
	s := small("stalled", 1000)
	s.put("a", object{size: 1000, middle: make(chan struct{})})
	p := pool(t, t.TempDir(), Options{Retry: objstore.Retry{StallTimeout: 50 * time.Millisecond}})
	l := p.Prefetch(s, "a")
	soon(t, "half of it being read", func() bool { _, _, n := s.count("a"); return n >= 500 }) // the next may have come
	s.edit("a", func(o *object) { o.middle = nil })
	wantBytes(t, l, s, 0)
	if p.Counters().Retries == 0 {
		t.Error("no attempt was counted")
	}
}

func TestPrefetch(t *testing.T) {
	t.Parallel()
	s := small("prefetch", 1000)
	s.missing = func(string) *object { return &object{size: 1000, gate: make(chan struct{})} } // none answers
	p := pool(t, t.TempDir(), Options{MaxQueue: 100, Workers: 2})
	begin := time.Now()
	var all []*Ref
	for i := range 10000 {
		all = append(all, p.Prefetch(s, fmt.Sprint(i)))
	}
	if d := time.Since(begin); d > 20*time.Second {
		t.Errorf("10000 calls took %v", d)
	}
	if n := p.Counters().NotQueued; n < 9890 || n > 9900 {
		t.Errorf("%d were not queued, of 10000 with 2 workers and a queue of 100", n)
	}
	// Those are read when they are asked for.
	s.put("9999", object{size: 1000})
	wantBytes(t, all[9999], s, 0)
}
