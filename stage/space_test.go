//go:build linux

package stage

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestSpareSpaceIsSmallAndShort(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s spareSpace
		want := func(when string, n int64, want bool) {
			t.Helper()
			if got := s.take(n); got != want {
				t.Errorf("%s: %d bytes taken: %v", when, n, got)
			}
		}
		want("before a look", 1, false)
		s.set(spareFrom - 1)
		want("on an almost full disk", 1, false)
		s.set(spareFrom)
		share := int64(spareFrom * spareShare)
		want("after a look", share/2, true)
		want("after a look", share/2, true)
		want("after the share", 1, false)
		s.set(spareFrom)
		time.Sleep(spareTime - 1)
		want("in time", 1, true)
		time.Sleep(time.Nanosecond)
		want("too late", 1, false)
		s.set(spareFrom)
		s.until.Add(int64(time.Hour))
		want("after the clock was set back", 1, false)
	})
}

func BenchmarkDiskHas(b *testing.B) {
	p := pool(b, inMemory(b), Options{MinFree: 0.05})
	for b.Loop() {
		if !p.diskHas(100 << 10) {
			b.Fatal("the disk is full")
		}
	}
}
