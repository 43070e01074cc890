//go:build linux

package index

import (
	"errors"
	"sync"
	"testing"
	"time"
)

func TestReserveWithinLimits(t *testing.T) {
	b := open(t)
	other := b.another(t)
	lim := Limits{Bytes: 10 * unit, Files: 3}
	reserve := func(b *testIndex, charge int64, lim Limits, want bool) *Reservation {
		t.Helper()
		r, taken, err := b.Reserve(charge, lim)
		must(t, err)
		if taken != want || taken != (r != nil) {
			t.Fatalf("taken: %v", taken)
		}
		return r
	}
	one := reserve(b, 6*unit, lim, true)
	reserve(other, 4*unit+1, lim, false) // by a byte
	wantTaken(t, b, 6*unit, 1)
	two := reserve(other, 4*unit, lim, true)
	reserve(b, 1, lim, false)
	reserve(b, 1, Limits{Bytes: 10*unit + 1, Files: 2}, false) // another's limits, by a file
	three := reserve(b, 1, Limits{Bytes: 10*unit + 1, Files: 3}, true)
	wantTaken(t, other, 10*unit+1, 3)
	if one.Charge() != 6*unit || two.Charge() != 4*unit || three.Charge() != 1 {
		t.Error(one.Charge(), two.Charge(), three.Charge())
	}
	three.Release()
	one.Release()
	wantTaken(t, b, 4*unit, 1)
	// Growing and shrinking.
	if two.Grow(6*unit+1, lim) {
		t.Error("grown beyond the limit")
	}
	if !two.Grow(6*unit, lim) || two.Grow(1, lim) || two.Charge() != 10*unit {
		t.Errorf("not grown to the limit, but to %d", two.Charge())
	}
	wantTaken(t, b, 10*unit, 1)
	two.Shrink(9 * unit)
	wantTaken(t, b, unit, 1)
	if two.Charge() != unit {
		t.Error(two.Charge())
	}
	two.Release()
	wantTaken(t, b, 0, 0)
	wantIndex(t, b)
}

func TestConcurrentReserve(t *testing.T) {
	b := open(t)
	lim := Limits{Bytes: 100, Files: 20}
	all := []*testIndex{b, b.another(t)}
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for k := range 2000 {
				r, taken, err := all[i%2].Reserve(int64(1+k%13), lim)
				if err != nil {
					t.Error(err)
				}
				if taken && r.Grow(int64(k%7), lim) && k%3 == 0 {
					r.Shrink(1)
				}
				if bytes, files := b.Taken(); bytes > lim.Bytes || files > lim.Files || bytes < 0 || files < 0 {
					t.Errorf("%d bytes and %d files", bytes, files)
				}
				if taken {
					r.Release()
				}
			}
		})
	}
	wg.Wait()
	wantTaken(t, b, 0, 0)
}

func TestMaxCopies(t *testing.T) {
	b := open(t)
	var spaces []*Reservation
	for range MaxCopies {
		r, taken, err := b.Reserve(unit, limits)
		if !taken || err != nil {
			t.Fatal(taken, err)
		}
		spaces = append(spaces, r)
	}
	_, taken, err := b.Reserve(unit, limits)
	wantErr(t, err, ErrFull)
	if taken {
		t.Error("taken")
	}
	other := b.another(t) // has its own
	r, _, err := other.Reserve(unit, limits)
	must(t, err)
	r.Release()
	spaces[0].Release()
	r, _, err = b.Reserve(unit, limits)
	must(t, err)
	for _, r := range append(spaces[1:], r) {
		r.Release()
	}
	wantTaken(t, b, 0, 0)
	wantIndex(t, b)
}

func TestMaxPins(t *testing.T) {
	b := open(t)
	b.add(t, 1, 2)
	first := b.find(t, 1)
	for range maxPins - 1 {
		if _, err := b.own.pin(first.rec); err != nil {
			t.Fatal(err)
		}
	}
	_, err := b.Find(keyOf(2))
	wantErr(t, err, ErrFull)
	if _, err := b.publish(object(3, 0), limits); !errors.Is(err, ErrFull) {
		t.Error(err)
	}
	wantTaken(t, b, 2*unit, 2)
	wantErr(t, b.Each(func(Object) bool { return true }), ErrFull)
	wantIndex(t, b)
	// Another process sees all of them.
	other := b.another(t)
	if gone := other.evict(t, 2); gone != 1 {
		t.Errorf("%d were evicted", gone)
	}
	b.own.unpin(maxPins - 1)
	b.add(t, 3)
	wantHas(t, b, []int{1, 2, 3}, []int{1, 3})
}

func TestPinsOnFullDisk(t *testing.T) {
	b := open(t)
	b.add(t, 1)
	e := b.find(t, 1)
	for range pinsStep/4 - 1 {
		if _, err := b.own.pin(e.rec); err != nil {
			t.Fatal(err)
		}
	}
	failAt("index.allocate", func() {
		_, err := b.Find(keyOf(1))
		wantErr(t, err, ErrFull)
		wantErr(t, err, errTest)
	})
	b.find(t, 1).Unpin() // when there is space again
}

func TestReleaseCopies(t *testing.T) {
	for name, end := range map[string]func(t testing.TB, b *testIndex){
		"closed": func(t testing.TB, b *testIndex) { b.close(t) },
		"died":   func(t testing.TB, b *testIndex) { b.die(t) },
	} {
		t.Run(name, func(t *testing.T) {
			b := open(t)
			other := b.another(t)
			b.add(t, 1)
			// One has not begun to write, one has grown, one is written, one is published, one is
			// released.
			spaces := make([]*Reservation, 5)
			for i := range spaces {
				var err error
				spaces[i], _, err = other.Reserve(unit, limits)
				must(t, err)
				if i > 0 {
					o := object(10+i, 0)
					o.Place = Place{ID: ok(other.NextPlace())(t), Offset: int64(i) * unit, Ext: [16]byte{'.', 'x'}}
					spaces[i].Writes(o.Place)
					b.s.put(o)
				}
			}
			if !spaces[1].Grow(3*unit, limits) {
				t.Fatal("not grown")
			}
			o := object(13, 0)
			o.Place = Place{ID: 4, Offset: 3 * unit, Ext: [16]byte{'.', 'x'}}
			ok(other.Publish(spaces[3], o))(t)
			spaces[4].Release()
			must(t, b.s.free(Place{ID: 5}, unit))
			wantTaken(t, b, 8*unit, 5)
			var places []Place
			free := b.Index.free
			note := func(p Place, charge int64) error {
				places = append(places, p)
				if want := map[uint64]int64{2: 4 * unit, 3: unit}[p.ID]; charge != want {
					t.Errorf("%d bytes are freed at %v, not %d", charge, p, want)
				}
				return free(p, charge)
			}
			b.Index.free, other.Index.free = note, note
			end(t, other)
			must(t, b.sweepDead())
			for i, p := range places {
				if p.Offset != int64(i+1)*unit || p.Ext != [16]byte{'.', 'x'} {
					t.Errorf("freed: %v", p)
				}
			}
			if len(places) != 2 {
				t.Errorf("freed: %v", places)
			}
			wantTaken(t, b, 2*unit, 2)
			wantIndex(t, b)
			if unclean := b.h.unclean.Load() != 0; unclean != (name == "died") {
				t.Error("to be checked:", unclean)
			}
			if names := ok(b.procs.Names())(t); len(names) != 1 {
				t.Errorf("processes: %q", names)
			}
		})
	}
}

func TestReleaseCopiesFails(t *testing.T) {
	b := open(t)
	b.add(t, 1)
	other := b.another(t)
	for range 2 {
		r, _, err := other.Reserve(unit, limits)
		must(t, err)
		r.Writes(Place{ID: ok(b.NextPlace())(t)})
	}
	r, _, err := other.Reserve(unit, limits) // that has no bytes yet
	must(t, err)
	_ = r
	other.die(t)
	b.s.fail = errTest
	third := b.another(t)
	wantTaken(t, third, 3*unit, 3)
	third.close(t)
	b.s.fail = nil
	b = b.again(t) // and the check finds it
	wantTaken(t, b, unit, 1)
	wantIndex(t, b)

	// Likewise when it closes.
	other = b.another(t)
	r, _, err = other.Reserve(unit, limits)
	must(t, err)
	r.Writes(Place{ID: ok(b.NextPlace())(t)})
	b.s.fail = errTest
	wantErr(t, other.Close(), errTest)
	b.s.fail = nil
	wantTaken(t, b, 2*unit, 2)
	b = b.again(t)
	wantTaken(t, b, unit, 1)
	wantIndex(t, b)
}

func TestCounts(t *testing.T) {
	b := open(t)
	other, third := b.another(t), b.another(t)
	b.Count(0, 1)
	other.Count(0, 10)
	third.Count(0, 100)
	third.Count(Counters-1, 7)
	check := func(b *testIndex, own, all int64, processes int) {
		t.Helper()
		if got := b.Own(); got[0] != own {
			t.Errorf("own: %v", got)
		}
		got, n, err := b.Counts()
		must(t, err)
		if got[0] != all || got[Counters-1] != 7 || n != processes {
			t.Errorf("%d processes: %v", n, got)
		}
	}
	check(b, 1, 111, 3)
	check(other, 10, 111, 3)
	third.close(t)
	check(b, 1, 111, 2)
	other.die(t)
	must(t, b.sweepDead())
	check(b, 1, 111, 1)
	b = b.again(t)
	check(b, 0, 111, 1)
}

func TestNextPlaceIsUnique(t *testing.T) {
	b := open(t)
	other := b.another(t)
	seen := map[uint64]bool{0: true}
	for range 100 {
		for _, l := range []*testIndex{b, other} {
			if n := ok(l.NextPlace())(t); seen[n] {
				t.Fatalf("%d again", n)
			} else {
				seen[n] = true
			}
		}
	}
	other.close(t)
	b.unclean()
	b = b.again(t)
	if n := ok(b.NextPlace())(t); seen[n] {
		t.Errorf("%d again", n)
	}
}

func TestBucketLockEndsWithHolder(t *testing.T) {
	b := open(t)
	b.add(t, 1)
	other := b.another(t)
	unlock, err := other.lockBucket(keyOf(1).bucket())
	must(t, err)
	done := make(chan *Entry)
	go func() {
		e, _ := b.FindLocked(keyOf(1))
		done <- e
	}()
	select {
	case <-done:
		t.Error("not waited")
	case <-time.After(20 * time.Millisecond):
	}
	unlock()
	if e := <-done; e == nil {
		t.Error("not found")
	}
}

func TestAbandon(t *testing.T) {
	b := open(t)
	b.add(t, 1)
	space, taken, err := b.Reserve(3*unit, limits)
	if !taken || err != nil {
		t.Fatal(taken, err)
	}
	b.s.put(Object{Place: Place{ID: 99}, Charge: 3 * unit})
	slots := len(b.own.copies)
	space.Abandon()
	if len(b.own.copies) != slots+1 {
		t.Error("its slot is lost")
	}
	wantTaken(t, b, 4*unit, 2)
	b = b.again(t)
	wantTaken(t, b, unit, 1)
	wantIndex(t, b)
}
