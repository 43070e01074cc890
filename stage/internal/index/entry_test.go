//go:build linux

package index

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func TestFindPublished(t *testing.T) {
	b := open(t)
	long := func(n int) string { return strings.Repeat("0123456789", n/10+1)[:n] }
	now := time.Now().Round(0)
	all := map[string]Object{
		"all fields": {Key: keyOf(1), Version: versionOf(1), Size: 12345, Charge: 4 * unit, CRC: 0xdeadbeef,
			Name: "https://host/a", ETag: `"tag"`,
			Modified: now.Add(-time.Hour), Checked: now.Add(-time.Minute)},
		"no name, tag, size or time": {Key: keyOf(2), Charge: unit},
		"an old time": {Key: keyOf(3), Charge: unit,
			Modified: time.Date(1805, 1, 2, 3, 4, 5, 6, time.UTC)},
		"text that just fits a record":   {Key: keyOf(4), Charge: unit, Name: long(textHere - 3), ETag: "tag"},
		"text one byte too long for one": {Key: keyOf(5), Charge: unit, Name: long(textHere - 2), ETag: "tag"},
		"text that just fits two":        {Key: keyOf(6), Charge: unit, Name: long(textHere), ETag: long(textMore)},
		"text of three records":          {Key: keyOf(7), Charge: unit, Name: long(textHere + textMore), ETag: "é"},
		"the longest text": {Key: keyOf(8), Charge: unit, Name: long(maxTextLen - 1000),
			ETag: long(1000)},
		"a tag alone, longer than records": {Key: keyOf(9), Charge: unit, ETag: long(1000)},
	}
	before := time.Now()
	want := map[Key]Object{}
	for name, o := range all {
		o.Sound = true
		e := ok(b.publish(o, limits))(t)
		o.Place = e.Place
		if diff := cmp.Diff(o, e.Object); diff != "" {
			t.Errorf("%s, the entry that Publish returns (-expected +got):\n%s", name, diff)
		}
		e.Unpin()
		want[o.Key] = o
	}
	used := cmpopts.IgnoreFields(Object{}, "Used")
	check := func(b *testIndex) {
		t.Helper()
		for name, o := range all {
			e := ok(b.Find(o.Key))(t)
			if e == nil {
				t.Fatalf("%s: not found", name)
			}
			if diff := cmp.Diff(want[o.Key], e.Object, used); diff != "" {
				t.Errorf("%s (-expected +got):\n%s", name, diff)
			}
			if e.Used.Before(before) || e.Used.After(time.Now()) {
				t.Errorf("%s: used at %v", name, e.Used)
			}
			e.Unpin()
		}
		got := map[Key]Object{}
		must(t, b.Each(func(o Object) bool { got[o.Key] = o; return true }))
		if diff := cmp.Diff(want, got, used); diff != "" {
			t.Errorf("each (-expected +got):\n%s", diff)
		}
		wantIndex(t, b)
	}
	check(b)
	other := b.another(t)
	check(other)
	other.close(t)
	b = b.again(t)
	check(b)
	b.unclean()
	b = b.again(t)
	check(b)
	if b.s.kept == 0 {
		t.Error("nobody was asked whether the objects are whole")
	}
}

func TestTimeOutOfRange(t *testing.T) {
	b := open(t)
	o := Object{Key: keyOf(1), Charge: unit, Modified: time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC),
		Checked: time.Date(1, 1, 1, 0, 0, 0, 1, time.UTC)}
	ok(b.publish(o, limits))(t).Unpin()
	if e := b.find(t, 1); !e.Modified.IsZero() || !e.Checked.IsZero() {
		t.Errorf("modified %v, checked %v", e.Modified, e.Checked)
	}
}

func TestNameTooLong(t *testing.T) {
	b := open(t)
	o := object(1, 0)
	o.ETag = strings.Repeat("x", maxTextLen)
	space, _, err := b.Reserve(unit, limits)
	must(t, err)
	_, err = b.Publish(space, o)
	wantErr(t, err, ErrFull)
	wantTaken(t, b, unit, 1)
	// It can be published with less.
	o = object(1, 0)
	o.Place.ID = ok(b.NextPlace())(t)
	b.s.put(o)
	ok(b.Publish(space, o))(t).Unpin()
	wantTaken(t, b, unit, 1)
	wantIndex(t, b)
}

func TestFindMissing(t *testing.T) {
	b := open(t)
	b.add(t, 1, 2, 3)
	for _, find := range []func(Key) (*Entry, error){b.Find, b.FindLocked} {
		for _, k := range []Key{keyOf(4), {}, Key(bytes.Repeat([]byte{0xff}, 16))} {
			if e, err := find(k); e != nil || err != nil {
				t.Errorf("%x: %v, %v", k, e, err)
			}
		}
		if e := ok(find(keyOf(2)))(t); e == nil || e.Key != keyOf(2) {
			t.Errorf("instead of object 2: %v", e)
		} else {
			e.Unpin()
		}
	}
}

func TestReplaceWhileUsed(t *testing.T) {
	b := open(t)
	old := ok(b.publish(object(1, 1), limits))(t)
	fresh := ok(b.publish(object(1, 2), limits))(t)
	if e := b.find(t, 1); e.Version != versionOf(2) || e.Place != fresh.Place {
		t.Errorf("found: %+v", e.Object)
	} else {
		e.Unpin()
	}
	count := 0
	must(t, b.Each(func(Object) bool { count++; return true }))
	if count != 1 {
		t.Errorf("%d objects", count)
	}
	// Both are pinned.
	if gone := b.evict(t, 2); gone != 0 {
		t.Errorf("%d pinned ones were evicted", gone)
	}
	wantTaken(t, b, 2*unit, 2)
	wantIndex(t, b)
	fresh.Unpin()
	old.Unpin()
	// The one that nobody finds goes first, and even if it is enough without.
	if gone := b.evict(t, 1); gone != 1 {
		t.Errorf("%d were evicted", gone)
	}
	wantHas(t, b, []int{1}, []int{1})
	wantTaken(t, b, unit, 1)
	wantIndex(t, b)
}

func TestDiscardWhileUsed(t *testing.T) {
	b := open(t)
	b.add(t, 1, 2)
	e := b.find(t, 1)
	e.Discard()
	e.Discard()
	wantHas(t, b, []int{1, 2}, []int{2})
	if gone := b.evict(t, 1); gone != 1 {
		t.Errorf("%d were evicted", gone)
	}
	if len(b.s.there) != 1 || b.s.there[e.Place.ID].Key != keyOf(1) {
		t.Errorf("there is still %v", b.s.numbers())
	}
	// Another copy comes while the damaged one is used.
	b.add(t, 1)
	wantHas(t, b, []int{1}, []int{1})
	e.Discard() // of the damaged one only
	wantHas(t, b, []int{1}, []int{1})
	e.Unpin()
	if gone := b.evict(t, 1); gone != 1 {
		t.Errorf("%d were evicted", gone)
	}
	wantHas(t, b, []int{1}, []int{1})
	wantTaken(t, b, unit, 1)
	wantIndex(t, b)
}

func TestDiscardWhileMarked(t *testing.T) {
	b := open(t)
	b.add(t, 1)
	e := b.find(t, 1)
	atPoint(t, "index.marked", e.Discard, func() {
		if gone := evictIt(t, b, e); gone != 0 {
			t.Errorf("%d were evicted", gone)
		}
	})
	wantHas(t, b, []int{1}, nil)
	e.Unpin()
	if gone := b.evict(t, 1); gone != 1 {
		t.Errorf("%d were evicted", gone)
	}
	wantIndex(t, b)
}

func TestEvictBeforePin(t *testing.T) {
	for name, test := range map[string]struct {
		meanwhile func(t *testing.T, b *testIndex)
		version   int // 0: not found
	}{
		"evicted":                              {func(t *testing.T, b *testIndex) { b.evict(t, 1) }, 0},
		"evicted, and its record is another's": {func(t *testing.T, b *testIndex) { b.evict(t, 1); b.add(t, 2) }, 0},
		"evicted, and there again": {func(t *testing.T,
			b *testIndex) {
			b.evict(t, 1)
			ok(b.publish(object(1, 2), limits))(t).Unpin()
		}, 2},
		"replaced": {func(t *testing.T,
			b *testIndex) {
			ok(b.publish(object(1, 2), limits))(t).Unpin()
		}, 2},
		"used by another": {func(t *testing.T, b *testIndex) { b.find(t, 1).Unpin() }, 1},
	} {
		t.Run(name, func(t *testing.T) {
			b := open(t)
			other := b.another(t)
			ok(b.publish(object(1, 1), limits))(t).Unpin()
			var e *Entry
			atPoint(t, "index.pinning", func() { test.meanwhile(t, other) }, func() { e = ok(b.Find(keyOf(1)))(t) })
			switch {
			case (e != nil) != (test.version != 0):
				t.Errorf("found: %v", e != nil)
			case e != nil:
				if e.Version != versionOf(test.version) || b.s.there[e.Place.ID].Version != e.Version {
					t.Errorf("found: %+v", e.Object)
				}
				e.Unpin()
			}
			// No pin is left.
			for range 2 {
				other.evict(t, 10)
			}
			wantTaken(t, b, 0, 0)
			wantIndex(t, b)
		})
	}
}

func TestDrop(t *testing.T) {
	b := open(t)
	b.add(t, 1, 2)
	one, two := b.find(t, 1), b.another(t).find(t, 1)
	if ok(one.Drop())(t) {
		t.Error("dropped while another process uses it")
	}
	wantHas(t, b, []int{1}, []int{1})
	if !ok(two.Drop())(t) {
		t.Error("not dropped")
	}
	wantHas(t, b, []int{1, 2}, []int{2})
	wantTaken(t, b, unit, 1)
	wantIndex(t, b)
	// A record that was given to another object meanwhile is not dropped in its place.
	e := b.find(t, 2)
	e.Unpin()
	if b.evict(t, 1) != 1 {
		t.Error("not evicted")
	}
	b.add(t, 3)
	slot := ok(b.own.pin(e.rec))(t)
	e.slot = slot
	if ok(e.Drop())(t) {
		t.Error("dropped again")
	}
	wantHas(t, b, []int{1, 2, 3}, []int{3})
	wantIndex(t, b)
}

func TestDropLockedKey(t *testing.T) {
	b := open(t)
	b.add(t, 1)
	e := b.find(t, 1)
	unlock, locked, err := b.another(t).LockKey(keyOf(1))
	if !locked || err != nil {
		t.Fatal(locked, err)
	}
	if !b.Busy(keyOf(1)) || b.Busy(keyOf(2)) {
		t.Error("busy is", b.Busy(keyOf(1)), b.Busy(keyOf(2)))
	}
	defer func(limit time.Duration) { lockTimeout = limit }(lockTimeout)
	lockTimeout = 10 * time.Millisecond
	if ok(e.Drop())(t) {
		t.Error("dropped while someone has its key")
	}
	unlock()
	if b.Busy(keyOf(1)) {
		t.Error("still busy")
	}
	wantHas(t, b, []int{1}, []int{1})
}

func TestLockKey(t *testing.T) {
	b := open(t)
	other := b.another(t)
	k := keyOf(1)
	same := k // another key that the kernel can't tell from it
	same[15]++
	unlock, locked, err := b.LockKey(k)
	if !locked || err != nil {
		t.Fatal(locked, err)
	}
	for _, l := range []*testIndex{b, other} {
		for _, k := range []Key{k, same} {
			if _, locked, err := l.LockKey(k); locked || err != nil {
				t.Errorf("locked twice: %v, %v", locked, err)
			}
		}
		u, locked, err := l.LockKey(keyOf(2))
		if !locked || err != nil {
			t.Fatal(locked, err)
		}
		u()
	}
	unlock()
	u, locked, err := other.LockKey(k)
	if !locked || err != nil {
		t.Fatal(locked, err)
	}
	u()
}

func TestSetCheckedAndSound(t *testing.T) {
	b := open(t)
	b.add(t, 1)
	b.h.epoch.Add(1) // as at another start of the machine
	e := b.find(t, 1)
	if e.Sound {
		t.Error("sound after the machine was started")
	}
	when := time.Unix(1234567890, 42)
	e.SetChecked(when)
	e.SetSound()
	if !e.Checked.Equal(when) || !e.Sound {
		t.Errorf("checked %v, sound %v", e.Checked, e.Sound)
	}
	if e := b.another(t).find(t, 1); !e.Checked.Equal(when) || !e.Sound {
		t.Errorf("in another process: checked %v, sound %v", e.Checked, e.Sound)
	}
}

func TestEachStops(t *testing.T) {
	b := open(t)
	b.add(t, 1, 2, 3)
	count := 0
	must(t, b.Each(func(Object) bool { count++; return count < 2 }))
	if count != 2 {
		t.Errorf("called %d times", count)
	}
	if gone := b.evict(t, 3); gone != 3 { // none is left pinned
		t.Errorf("%d were evicted", gone)
	}
}

func TestPublishBeyondReservation(t *testing.T) {
	b := open(t)
	space, _, err := b.Reserve(2*unit, limits)
	must(t, err)
	o := object(1, 0)
	o.Place.ID = ok(b.NextPlace())(t)
	o.Charge = 3 * unit
	if _, err := b.Publish(space, o); err == nil {
		t.Error("an object was published that exceeds its reservation")
	}
	wantTaken(t, b, 2*unit, 1)
	o.Charge = unit // what it does not need goes back
	b.s.put(o)
	ok(b.Publish(space, o))(t).Unpin()
	wantTaken(t, b, unit, 1)
	wantIndex(t, b)
}
