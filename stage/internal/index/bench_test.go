//go:build linux

package index

import (
	"fmt"
	"testing"
)

// nothing stands for the bytes of objects in benchmarks.
type nothing struct{}

func (nothing) free(Place, int64) error { return nil }

// filled opens index with n objects.
func filled(b *testing.B, n int) *testIndex {
	l := open(b)
	l.Index.free = nothing{}.free
	for k := range n {
		ok(l.bring(object(k, 0)))(b).Unpin()
	}
	return l
}

// bring is publish without a store.
func (b *testIndex) bring(o Object) (*Entry, error) {
	space, _, err := b.Reserve(o.Charge, limits)
	if err != nil {
		return nil, err
	}
	unlock, _, err := b.LockKey(o.Key)
	if err != nil {
		return nil, err
	}
	defer unlock()
	if o.Place.ID, err = b.NextPlace(); err != nil {
		return nil, err
	}
	space.Writes(o.Place)
	return b.Publish(space, o)
}

// objects are made before the clock runs: a hash takes as long as a look.
func objects(n int) (all []Object) {
	for k := range n {
		all = append(all, object(k, 0))
	}
	return all
}

func BenchmarkIndex(b *testing.B) {
	others := objects(120_000)[100_000:]
	for _, n := range []int{1, 100_000} {
		all := objects(n)
		l := filled(b, n)
		b.Run(fmt.Sprintf("Find and Unpin of %d", n), func(b *testing.B) {
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				e, err := l.Find(all[i*7919%n].Key)
				if err != nil || e == nil {
					b.Fatal(e, err)
				}
				e.Unpin()
				i++
			}
		})
		b.Run(fmt.Sprintf("Find of none among %d", n), func(b *testing.B) {
			missing := keyOf(-1)
			b.ReportAllocs()
			for b.Loop() {
				if e, err := l.Find(missing); err != nil || e != nil {
					b.Fatal(e, err)
				}
			}
		})
		b.Run(fmt.Sprintf("Find and Unpin of %d in parallel", n), func(b *testing.B) {
			b.RunParallel(func(pb *testing.PB) {
				for i := 0; pb.Next(); i++ {
					if e, err := l.Find(all[i*7919%n].Key); err == nil && e != nil {
						e.Unpin()
					}
				}
			})
		})
		b.Run(fmt.Sprintf("Reserve, LockKey, Publish and Drop among %d", n), func(b *testing.B) {
			o := object(-1, 0)
			b.ReportAllocs()
			for b.Loop() {
				e, err := l.bring(o)
				if err != nil {
					b.Fatal(err)
				}
				if gone, err := e.Drop(); !gone || err != nil {
					b.Fatal(gone, err)
				}
			}
		})
		b.Run(fmt.Sprintf("Reserve, LockKey, Publish and Unpin among %d", n), func(b *testing.B) {
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				e, err := l.bring(others[i%len(others)])
				if err != nil {
					b.Fatal(err)
				}
				e.Unpin()
				if i++; i%len(others) == 0 {
					b.StopTimer()
					if _, err := l.Evict(func() bool { return l.h.files.Load() <= int64(n) }); err != nil {
						b.Fatal(err)
					}
					b.StartTimer()
				}
			}
		})
		b.Run(fmt.Sprintf("Reserve and Release among %d", n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				r, _, err := l.Reserve(unit, limits)
				if err != nil {
					b.Fatal(err)
				}
				r.Release()
			}
		})
		l.close(b)
		if n == 1 {
			continue
		}
		l = filled(b, n)
		left := int64(n)
		b.Run(fmt.Sprintf("Evict one of %d", n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if left == 1 {
					b.Fatal("none is left")
				}
				left--
				if _, err := l.Evict(func() bool { return l.h.files.Load() <= left }); err != nil {
					b.Fatal(err)
				}
			}
		})
		const pins = 2000
		pinned := make([]*Entry, pins)
		for k := range pinned {
			pinned[k] = ok(l.bring(object(n+k, 0)))(b)
		}
		left += pins
		b.Run(fmt.Sprintf("Evict one of %d with %d pins", n, pins), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if left == pins {
					b.Fatal("none is left")
				}
				left--
				if _, err := l.Evict(func() bool { return l.h.files.Load() <= left }); err != nil {
					b.Fatal(err)
				}
			}
		})
		for _, e := range pinned {
			e.Unpin()
		}
		b.Run("Open and Close", func(b *testing.B) {
			l.close(b)
			for b.Loop() {
				l = openIn(b, l.path, l.s)
				l.close(b)
			}
		})
	}
}
