//go:build linux

package stage

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"leat/internal/fault"
)

// readEarly reads from a copy in progress and compares the bytes.
func readEarly(t testing.TB, l *Ref, s *source, version int, at, n int64) bool {
	t.Helper()
	name := l.it.name
	o := s.get(name)
	o.version = version
	b := make([]byte, n)
	read := ok(l.ReadUnfinished(within(t, time.Minute), o.info(name), b, at))(t)
	if read && !bytes.Equal(b, content(name, version, o.size)[at:at+n]) {
		t.Errorf("other bytes at %d", at)
	}
	return read
}

func TestReadUnfinishedCopy(t *testing.T) {
	t.Parallel()
	const size = 5<<20 + 7
	for _, known := range []bool{true, false} {
		middle := make(chan struct{})
		s := newSource("unfinished").put("a", object{size: size, middle: middle})
		p := pool(t, t.TempDir(), Options{RangeBytes: 1 << 20})
		o := s.get("a")
		info := o.info("a")
		l := p.Prefetch(s, "a")
		if known {
			l.Release()
			l = p.PrefetchVersion(s, "a", info, false)
		}
		defer l.Release()
		for _, at := range []int64{0, 3 << 20} {
			if !readEarly(t, l, s, 0, at, 256<<10) {
				t.Errorf("bytes at %d can't be read", at)
			}
		}
		short, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		_, err := l.WaitRange(short, info, 0, 1<<20)
		if cancel(); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("bytes that have not arrived: %v", err)
		}
		if stateOf(l) != running {
			t.Errorf("the copy is %s", stateNames[stateOf(l)])
		}
		close(middle)
		readEarly(t, l, s, 0, 1<<20-5, 3<<20) // over several parts; the copy may end first
		must(t, l.WaitCopy(t.Context()))
		become(t, l, staged)
		if readEarly(t, l, s, 0, 0, 10) {
			t.Error("the copy has ended and can be read")
		}
		wantBytes(t, l, s, 0)
	}
}

func TestUnfinishedCopyNotReadable(t *testing.T) {
	t.Parallel()
	const size = 3 << 20
	s := newSource("hidden")
	for name, o := range map[string]object{"md5": {size: size, md5: right}, "crc": {size: size, crc: right},
		"no version": {size: size, nameless: true}, "small": {size: 1000}, "another": {size: size, version: 1},
		"unknown": {size: size, unknown: true}} {
		o.gate = make(chan struct{})
		s.put(name, o)
		p := pool(t, t.TempDir(), Options{RangeBytes: 1 << 20})
		l := p.Prefetch(s, name)
		defer l.Release()
		asked := o
		if name == "another" {
			asked.version = 2
		}
		time.AfterFunc(10*time.Millisecond, func() { close(o.gate) })
		if ok(l.WaitRange(within(t, time.Minute), asked.info(name), 0, 10))(t) {
			t.Errorf("%s can be read", name)
		}
		wantBytes(t, l, s, o.version)
	}
}

func TestUnfinishedCopyFails(t *testing.T) {
	t.Parallel()
	const size = 3 << 20
	middle := make(chan struct{})
	s := newSource("fails").put("a", object{size: size, middle: middle})
	o := s.get("a")
	info := o.info("a")
	p := pool(t, t.TempDir(), Options{RangeBytes: 1 << 20, Ranges: 1})
	l := p.PrefetchVersion(s, "a", info, false)
	defer l.Release()
	if !readEarly(t, l, s, 0, 0, 128<<10) {
		t.Error("the first bytes can't be read")
	}
	s.put("a", object{size: size, version: 1}) // the further parts are of another version
	close(middle)
	if ok(l.WaitRange(within(t, time.Minute), info, 2<<20, 10))(t) {
		t.Error("the other version can be read as the known one")
	}
	wantBytes(t, l, s, 1)
}

func TestUnfinishedCopyOfOtherProcess(t *testing.T) {
	t.Parallel()
	dir, middle := t.TempDir(), make(chan struct{})
	s := newSource("elsewhere").put("a", object{size: 3 << 20, middle: middle})
	o := s.get("a")
	first, second := pool(t, dir, Options{RangeBytes: 1 << 20}), pool(t, dir, Options{RangeBytes: 1 << 20})
	a := first.PrefetchVersion(s, "a", o.info("a"), false)
	defer a.Release()
	readEarly(t, a, s, 0, 0, 128<<10)
	b := second.PrefetchVersion(s, "a", o.info("a"), false)
	defer b.Release()
	if readEarly(t, b, s, 0, 0, 128<<10) {
		t.Error("the copy of another pool can be read")
	}
	close(middle)
	wantBytes(t, b, s, 0)
	if reads, _, given := s.count("a"); reads != 3 || given != 3<<20 {
		t.Errorf("%d requests for %d bytes", reads, given)
	}
}

func TestReadUnfinishedAtRandom(t *testing.T) {
	t.Parallel()
	const size = 9<<20 + 321
	for seed := range uint64(12) {
		s := newSource("random").put("a", object{size: size, cut: int64(seed) << 18})
		s.delay = time.Millisecond
		o := s.get("a")
		info := o.info("a")
		p := ok(Open(context.Background(), t.TempDir(), quick(Options{RangeBytes: 1 << 20, Ranges: 3})))(t)
		l := p.PrefetchVersion(s, "a", info, false)
		want := content("a", 0, size)
		var wg sync.WaitGroup
		for k := range uint64(4) {
			wg.Go(func() {
				r := rand.New(rand.NewPCG(seed, k))
				b := make([]byte, 300<<10)
				for range 40 {
					n := 1 + r.IntN(len(b))
					at := r.IntN(size - n + 1)
					read, err := l.ReadUnfinished(t.Context(), info, b[:n], int64(at))
					if errors.Is(err, ErrClosed) && seed%3 != 0 {
						return
					}
					if err != nil {
						t.Error(err)
					}
					if read && !bytes.Equal(b[:n], want[at:at+n]) {
						t.Errorf("other bytes from %d to %d", at, at+n)
					}
				}
			})
		}
		switch seed % 3 {
		case 1:
			time.Sleep(2 * time.Millisecond)
			l.Release()
		case 2:
			time.Sleep(2 * time.Millisecond)
			must(t, p.Close())
		}
		wg.Wait()
		if seed%3 == 0 {
			wantBytes(t, l, s, 0)
		}
		l.Release()
		must(t, p.Close())
	}
}

func TestFailedCopyEndsWait(t *testing.T) {
	t.Parallel()
	const size = 3 << 20
	for _, during := range []bool{false, true} {
		s, middle := newSource("failed"), make(chan struct{})
		p := pool(t, t.TempDir(), Options{RangeBytes: 1 << 20, Ranges: 1})
		var l *Ref
		broken := object{size: size, fails: -1, err: fs.ErrPermission}
		info := broken.info("a")
		if during {
			s.put("a", object{size: size, middle: middle})
			l = p.PrefetchVersion(s, "a", info, false)
			readEarly(t, l, s, 0, 0, 128<<10)
			s.put("a", broken)
			time.AfterFunc(10*time.Millisecond, func() { close(middle) })
		} else {
			broken.gate = make(chan struct{})
			s.put("a", broken)
			l = p.PrefetchVersion(s, "a", info, false)
			time.AfterFunc(10*time.Millisecond, func() { close(broken.gate) })
		}
		defer l.Release()
		read, err := l.WaitRange(within(t, time.Minute), info, 2<<20, 10)
		if read || !errors.Is(err, fs.ErrPermission) {
			t.Errorf("after its beginning %v: %v, %v", during, read, err)
		}
		if n := p.Counters().Errors; n != 1 {
			t.Errorf("after its beginning %v: %d failed copies", during, n)
		}
		s.put("a", object{size: size}) // the next call tries again
		wantBytes(t, l, s, 0)
	}
}

func TestDiskFillsDuringWait(t *testing.T) {
	for i := range 10 { // the end of the copy and the waiting call race
		t.Run(fmt.Sprint(i), testDiskFillsDuringWait)
	}
}

func testDiskFillsDuringWait(t *testing.T) {
	const size = 3 << 20
	s, middle := newSource("full"), make(chan struct{})
	s.put("a", object{size: size, middle: middle})
	o := s.get("a")
	info := o.info("a")
	p := pool(t, t.TempDir(), Options{RangeBytes: 1 << 20, Ranges: 1})
	l := p.PrefetchVersion(s, "a", info, false)
	defer l.Release()
	readEarly(t, l, s, 0, 0, 128<<10)
	var full atomic.Int64
	fault.Set(func(point string) error {
		if point != "stage.write" || full.Add(1) > 3 {
			return nil
		}
		waits := func() bool { // for the bytes of this copy
			p.mu.Lock()
			u := l.it.unfinished
			p.mu.Unlock()
			if u == nil {
				return false
			}
			u.mu.Lock()
			defer u.mu.Unlock()
			return u.changed != nil
		}
		for end := time.Now().Add(time.Minute); !waits() && time.Now().Before(end); {
			runtime.Gosched()
		}
		return unix.ENOSPC
	})
	defer fault.Set(nil)
	time.AfterFunc(10*time.Millisecond, func() { close(middle) })
	if ok(l.WaitRange(within(t, time.Minute), info, 2<<20, 10))(t) {
		t.Error("bytes that did not arrive can be read")
	}
	if n := p.Counters().DiskFull; n != 1 {
		t.Errorf("%d copies met a full disk, expected one", n)
	}
	fault.Set(nil)
	wantBytes(t, l, s, 0)
}

func TestDirectPoolHasNoUnfinishedCopy(t *testing.T) {
	t.Parallel()
	s := newSource("direct").put("a", object{size: 3 << 20})
	o := s.get("a")
	p := ok(Direct(nil))(t)
	defer p.Close()
	l := p.Prefetch(s, "a")
	defer l.Release()
	if ok(l.WaitRange(within(t, time.Minute), o.info("a"), 0, 10))(t) || readEarly(t, l, s, 0, 0, 10) {
		t.Error("bytes can be read before Open")
	}
	if reads, _, _ := s.count("a"); reads != 0 {
		t.Errorf("%d requests", reads)
	}
	wantBytes(t, l, s, 0)
}
