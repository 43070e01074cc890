//go:build linux

package index

import (
	"fmt"
	"testing"
)

// replace publishes new versions of an object and returns the entries of all of them.
func (b *testIndex) replace(t *testing.T, n, versions int) (all []*Entry) {
	t.Helper()
	for v := range versions {
		all = append(all, ok(b.publish(object(n, v), limits))(t))
	}
	return all
}

// freeReplaced calls FreeReplaced as a copy does.
func (b *testIndex) freeReplaced(t *testing.T, n int) (freed int, left bool, err error) {
	t.Helper()
	unlock, taken, err := b.LockKey(keyOf(n))
	if !taken || err != nil {
		t.Fatalf("the key is not locked: %v, %v", taken, err)
	}
	defer unlock()
	return b.FreeReplaced(keyOf(n))
}

func (b *testIndex) wantFreed(t *testing.T, number, freed int, left bool) {
	t.Helper()
	if n, more, err := b.freeReplaced(t, number); n != freed || more != left || err != nil {
		t.Errorf("%d were freed, expected %d; others are left: %v, expected %v; %v", n, freed, more, left, err)
	}
	wantIndex(t, b)
}

func TestFreeReplaced(t *testing.T) {
	b := open(t)
	other := b.another(t)
	b.add(t, span(10, 30)...)
	b.wantFreed(t, 1, 0, false) // there is none
	all := b.replace(t, 1, 4)
	also := b.replace(t, 2, 2) // of another key
	b.wantFreed(t, 1, 0, true)
	all[0].Unpin()
	other.wantFreed(t, 1, 1, true)
	all[2].Unpin()
	other.wantFreed(t, 1, 1, true)
	all[1].Unpin()
	other.wantFreed(t, 1, 1, false)
	b.wantFreed(t, 1, 0, false)
	all[3].Unpin() // it is the present one
	b.wantFreed(t, 1, 0, false)
	e := b.find(t, 1)
	if e.Version != versionOf(3) {
		t.Error("another version is found")
	}
	e.Discard() // it is damaged
	b.wantFreed(t, 1, 0, true)
	e.Unpin()
	b.wantFreed(t, 1, 1, false)
	also[0].Unpin()
	b.wantFreed(t, 2, 1, false)
	wantTaken(t, b, 22*unit, 22)
}

func TestFreeReplacedOfDeadProcess(t *testing.T) {
	b := open(t)
	other := b.another(t)
	old := ok(other.publish(object(1, 0), limits))(t)
	ok(b.publish(object(1, 1), limits))(t).Unpin()
	b.wantFreed(t, 1, 0, true)
	other.die(t)
	b.wantFreed(t, 1, 1, false)
	_ = old
	// A process died while it evicted one.
	e := ok(b.publish(object(2, 0), limits))(t)
	e.Discard()
	e.Unpin()
	r := b.record(e.rec)
	r.seq.Store(withState(r.seq.Load(), stateEvicting))
	b.wantFreed(t, 2, 1, false)
	wantTaken(t, b, unit, 1)
}

func TestFreeReplacedFails(t *testing.T) {
	b := open(t)
	all := b.replace(t, 1, 3)
	for _, e := range all {
		e.Unpin()
	}
	b.s.fail = errTest
	if n, left, err := b.freeReplaced(t, 1); n != 0 || !left || err == nil {
		t.Errorf("%d were freed, %v, %v", n, left, err)
	}
	b.s.fail = nil
	wantTaken(t, b, 3*unit, 3)
	b.wantFreed(t, 1, 2, false)
	wantHas(t, b, []int{1}, []int{1})
}

func TestEvictReplaced(t *testing.T) {
	b := open(t)
	other := b.another(t)
	b.add(t, span(100, 200)...)
	var pinned []*Entry
	for n := 1; n <= 10; n++ {
		all := other.replace(t, n, 3)
		all[0].Unpin()
		all[2].Unpin()
		pinned = append(pinned, all[1])
	}
	unlock, _, err := other.LockKey(keyOf(1)) // it is being copied
	must(t, err)
	evict := func(want int) {
		t.Helper()
		if n, _, err := b.EvictReplaced(func() bool { return false }); n != want || err != nil {
			t.Errorf("%d were evicted, expected %d: %v", n, want, err)
		}
		wantIndex(t, b)
	}
	if n, _, err := b.EvictReplaced(func() bool { return true }); n != 0 || err != nil {
		t.Errorf("%d were evicted after stop, %v", n, err)
	}
	evict(9)
	unlock()
	evict(1)
	for _, e := range pinned {
		e.Unpin()
	}
	evict(10)
	evict(0)
	wantHas(t, b, span(1, 10), span(1, 10))
	wantTaken(t, b, 111*unit, 111)
}

// TestFreeReplacedAmongOthers frees replaced versions while other indexes pin, drop and evict.
func TestFreeReplacedAmongOthers(t *testing.T) {
	b := open(t)
	done := make(chan error)
	const goroutines = 4
	for g := range goroutines {
		other := b.another(t)
		go func() {
			done <- func() error {
				for i := range 300 {
					n := 1 + (i+g)%3
					unlock, taken, err := other.LockKey(keyOf(n))
					if err != nil {
						return err
					}
					if taken {
						if _, _, err := other.FreeReplaced(keyOf(n)); err != nil {
							return err
						}
						unlock()
						if e, err := other.publish(object(n, i), limits); err == nil {
							e.Unpin()
						}
					}
					e, err := other.Find(keyOf(n))
					if err != nil {
						return err
					}
					if e == nil {
						continue
					}
					other.s.mu.Lock()
					_, there := other.s.there[e.Place.ID]
					other.s.mu.Unlock()
					if !there {
						return fmt.Errorf("object %d is pinned, and was freed", n)
					}
					switch i % 5 {
					case 0:
						e.Discard()
						e.Unpin()
					case 1:
						if _, err := e.Drop(); err != nil {
							return err
						}
					case 2:
						if _, _, err := other.EvictReplaced(func() bool { return false }); err != nil {
							return err
						}
						e.Unpin()
					default:
						e.Unpin()
					}
				}
				return nil
			}()
		}()
	}
	for range goroutines {
		must(t, <-done)
	}
	wantIndex(t, b)
	b.evict(t, 100)
	wantTaken(t, b, 0, 0)
	wantIndex(t, b)
}
