//go:build linux

package index

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"leat/internal/fault"
)

func TestEvictOrder(t *testing.T) {
	b := open(t)
	other := b.another(t)
	n := 3000
	b.add(t, span(0, n-1)...)
	order := rand.Perm(n)
	for i, k := range order { // used in another order than they came, by two processes
		l := b
		if i%2 == 0 {
			l = other
		}
		l.find(t, k).Unpin()
	}
	var want []uint64
	for _, k := range order {
		e := b.find(t, k)
		b.record(e.rec).used.Store(e.Used.UnixNano()) // as it was before this look
		e.Unpin()
		want = append(want, e.Place.ID)
	}
	for i := 0; i < n; i += 100 {
		for range 50 {
			b.evict(t, 1)
		}
		other.evict(t, 50)
		if i == 1000 { // one that is used again is not the next any more, though it is on the list of those
			other.find(t, order[i+101]).Unpin()
			want = append(append(want[:i+101:i+101], want[i+102:]...), want[i+101])
		}
		if t.Failed() {
			return
		}
	}
	if diff := cmp.Diff(want, b.s.freed); diff != "" {
		t.Errorf("evicted (-expected +got):\n%s", diff)
	}
	wantTaken(t, b, 0, 0)
	wantIndex(t, b)
}

func TestEvictUntilEnough(t *testing.T) {
	b := open(t)
	b.add(t, span(1, 100)...)
	if gone := ok(b.Evict(func() bool { return true }))(t); gone != 0 {
		t.Errorf("%d were evicted where there was enough", gone)
	}
	for _, n := range []int{1, 3, 4, 5, 17} {
		if gone := b.evict(t, n); gone != n {
			t.Errorf("%d were evicted, not %d", gone, n)
		}
	}
	wantTaken(t, b, 70*unit, 70)
	if gone := b.evict(t, 1000); gone != 70 {
		t.Errorf("%d were evicted, not all", gone)
	}
	if gone := b.evict(t, 1); gone != 0 {
		t.Errorf("%d were evicted where there is none", gone)
	}
	wantIndex(t, b)
}

func TestPinnedIsNotEvicted(t *testing.T) {
	b := open(t)
	other := b.another(t)
	b.add(t, span(1, 40)...)
	var mine, theirs []*Entry
	for n := 1; n <= 40; n += 4 {
		mine = append(mine, b.find(t, n))
		theirs = append(theirs, other.find(t, n+1))
	}
	third := b.another(t) // that comes later, and is not known yet to those who have already looked
	b.evict(t, 1)
	late := third.find(t, 4)
	if gone := b.evict(t, 100); gone != 18 {
		t.Errorf("%d were evicted", gone)
	}
	want := []int{1, 2, 4}
	for n := 5; n <= 40; n += 4 {
		want = append(want, n, n+1)
	}
	wantHas(t, b, span(1, 40), want)
	for _, e := range append(mine, theirs...) {
		e.Unpin()
	}
	if gone := b.evict(t, 100); gone != 20 {
		t.Errorf("%d were evicted", gone)
	}
	late.Unpin()
	if gone := other.evict(t, 100); gone != 1 {
		t.Errorf("%d were evicted", gone)
	}
	wantIndex(t, b)
}

func TestPinsOfDeadProcess(t *testing.T) {
	for name, end := range map[string]func(t testing.TB, b *testIndex){
		"closed": func(t testing.TB, b *testIndex) { b.close(t) },
		"died":   func(t testing.TB, b *testIndex) { b.die(t) },
		"died, and who swept it died before telling": func(t testing.TB, b *testIndex) {
			name := b.own.name
			b.die(t)
			must(t, b.d.Close())
			b.d = nil
			must(t, rmProc(b, name))
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := open(t)
			other := b.another(t)
			b.add(t, 1, 2, 3)
			mine := b.find(t, 3)
			other.find(t, 1)
			other.find(t, 3)
			if gone := b.evict(t, 3); gone != 1 { // it is known to the one who evicts
				t.Errorf("%d were evicted", gone)
			}
			end(t, other)
			if gone := b.evict(t, 3); gone != 1 {
				t.Errorf("%d were evicted after that", gone)
			}
			wantHas(t, b, []int{1, 2, 3}, []int{3})
			mine.Unpin()
			wantIndex(t, b)
		})
	}
}

// candidateOf is what eviction knows of an object that nobody used when it looked.
func candidateOf(b *testIndex, e *Entry) candidate {
	return candidate{e.rec, e.seq, b.record(e.rec).used.Load()}
}

// evictIt has an object evicted as if it had been pinned a moment after it was chosen.
func evictIt(t testing.TB, b *testIndex, e *Entry) (gone int) {
	t.Helper()
	return ok(b.evictSome([]candidate{candidateOf(b, e)}, func() bool { return false }, nil))(t)
}

func TestPinAfterChoice(t *testing.T) {
	b := open(t)
	b.add(t, 1, 2)
	others := []*testIndex{b, b.another(t), b.another(t), b.another(t)}
	var last *Entry
	for _, o := range others {
		last = o.find(t, 1)
	}
	evict := func(want int) {
		t.Helper()
		if gone := evictIt(t, b, last); gone != want {
			t.Errorf("%d were evicted, not %d", gone, want)
		}
	}
	evict(0)
	others[0].own.unpin(0)
	others[3].close(t)
	evict(0)
	name := others[1].own.name
	others[1].die(t)
	must(t, rmProc(b, name)) // by one who dies before telling
	evict(0)
	wantHas(t, b, []int{1, 2}, []int{1, 2})
	last.seq = b.record(last.rec).seq.Load()
	others[2].die(t)
	evict(1)
	wantHas(t, b, []int{1, 2}, []int{2})
	wantIndex(t, b)
}

func TestEvictLargeIndex(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: 40 000 objects")
	}
	b := open(t)
	n := 5*sample + 100
	b.add(t, span(1, n)...)
	var used []*Entry
	for k := 1; k <= n; k++ { // all but the last ones are gone, or in use
		switch {
		case k > n-10:
		case k%4 == 0:
			used = append(used, b.find(t, k))
		default:
			if !ok(b.find(t, k).Drop())(t) {
				t.Fatal("not dropped")
			}
		}
	}
	begun := time.Now()
	for k := range 10 {
		if gone := b.evict(t, 1); gone != 1 {
			t.Fatalf("the %d. one is not found", k)
		}
	}
	if gone := b.evict(t, 1); gone != 0 {
		t.Errorf("%d pinned ones were evicted", gone)
	}
	t.Logf("%v among %d that are in use", time.Since(begun), len(used))
	wantTaken(t, b, int64(len(used)*unit), int64(len(used)))
	for _, e := range used {
		e.Unpin()
	}
	if gone := b.evict(t, n); gone != len(used) {
		t.Errorf("%d of %d were evicted", gone, len(used))
	}
	wantIndex(t, b)
}

func TestFreeFails(t *testing.T) {
	b := open(t)
	b.add(t, 1, 2, 3)
	b.s.fail = errTest
	_, err := b.Evict(func() bool { return false })
	wantErr(t, err, errTest)
	gone, err := b.find(t, 3).Drop()
	wantErr(t, err, errTest)
	if gone {
		t.Error("it is said to be gone")
	}
	wantTaken(t, b, 3*unit, 3)
	wantHas(t, b, []int{1, 2, 3}, []int{2}) // the others may have lost their bytes
	wantIndex(t, b)
	b.s.fail = nil
	b.add(t, 1) // its key is not locked
	if gone := b.evict(t, 2); gone != 2 {
		t.Errorf("%d were evicted", gone)
	}
	wantHas(t, b, []int{1, 2, 3}, []int{1, 2})
	wantIndex(t, b)
}

// TestEvictAllGoesOn evicts among objects that can't be freed.
func TestEvictAllGoesOn(t *testing.T) {
	b := open(t)
	b.add(t, span(1, 10)...)
	free := b.Index.free
	refused := map[uint64]bool{}
	for _, n := range []int{3, 7} {
		e := b.find(t, n)
		refused[e.Place.ID] = true
		e.Unpin()
	}
	b.Index.free = func(p Place, charge int64) error {
		if refused[p.ID] {
			return errTest
		}
		return free(p, charge)
	}
	for _, want := range []int{8, 0} {
		gone, failed, err := b.EvictAll(func() bool { return false })
		if gone != want || len(failed) != 2 || err != nil {
			t.Errorf("%d are gone, %v, %v", gone, failed, err)
		}
		for _, f := range failed {
			if !errors.Is(f, errTest) || f.Object != object(3, 0).Name && f.Object != object(7, 0).Name {
				t.Errorf("%q: %v", f.Object, f)
			}
		}
	}
	wantTaken(t, b, 2*unit, 2)
	// What could not be freed does not stop evictions that make space.
	b.add(t, 11, 12)
	if gone := b.evict(t, 2); gone != 2 {
		t.Errorf("%d were evicted", gone)
	}
	_, err := b.Evict(func() bool { return false })
	wantErr(t, err, errTest)
	b.Index.free = free
	if gone, failed, err := b.EvictAll(func() bool { return false }); gone != 2 || failed != nil || err != nil {
		t.Errorf("%d are gone, %v, %v", gone, failed, err)
	}
	wantTaken(t, b, 0, 0)
	wantIndex(t, b)
}

func TestDeathDuringEviction(t *testing.T) {
	for _, point := range []string{"index.marked", "index.freed", "index.unlinked"} {
		t.Run(point, func(t *testing.T) {
			b := open(t)
			b.add(t, 1, 2)
			other := b.another(t)
			func() {
				defer func() {
					if r := recover(); r != errTest {
						t.Fatal("not stopped at the point:", r)
					}
				}()
				// The panic leaves the steps after the point undone, but for giving back the marks:
				// set again below.
				atPoint(t, point, func() { panic(errTest) }, func() { other.evict(t, 1) })
			}()
			i, r := recordOf(b, 1)
			if r.seq.Load()&(1<<stateBits-1) == stateValid {
				r.seq.Store(r.seq.Load()&^(1<<stateBits-1) | stateEvicting)
			}
			other.die(t)
			must(t, other.d.Close())
			other.d = nil
			wantHas(t, b, []int{1, 2}, []int{2})
			wantTaken(t, b, 2*unit, 2)
			if gone := b.evict(t, 1); gone != 1 {
				t.Errorf("%d were evicted", gone)
			}
			if state := byte(b.record(i).seq.Load()); state != stateFree {
				t.Errorf("the record is in state %d", state)
			}
			wantHas(t, b, []int{1, 2}, []int{2})
			wantTaken(t, b, unit, 1)
			wantIndex(t, b)
		})
	}
}

// recordOf finds the record of an object, whatever its state.
func recordOf(b *testIndex, n int) (uint32, *record) {
	for i := uint32(1); i < b.h.next.Load(); i++ {
		if r := b.record(i); r.key == keyOf(n) {
			return i, r
		}
	}
	panic(fmt.Sprint("no record of ", n))
}

func TestEvictErrorKeepsOthers(t *testing.T) {
	b := open(t)
	b.add(t, span(1, 10)...)
	pin := b.find(t, 1)
	// The first can't go, the second is freed, the third fails.
	free := b.Index.free
	calls := 0
	b.Index.free = func(p Place, charge int64) error {
		if calls++; calls == 2 {
			return errTest
		}
		return free(p, charge)
	}
	all := ok(b.oldest())(t)
	first := candidateOf(b, pin)
	gone, err := b.evictSome(append([]candidate{first}, all[:4]...), func() bool { return false }, nil)
	if gone != 1 || !errors.Is(err, errTest) {
		t.Errorf("%d gone, %v", gone, err)
	}
	wantHas(t, b, span(1, 10), []int{1, 4, 5, 6, 7, 8, 9, 10})
	pin.Unpin()
	b.Index.free = free
	if gone := b.evict(t, 10); gone != 9 {
		t.Errorf("%d were evicted", gone)
	}
	wantIndex(t, b)
}

func TestConcurrentDrop(t *testing.T) {
	b := open(t)
	other := b.another(t)
	b.add(t, 1)
	first, second := b.find(t, 1), other.find(t, 1)
	dropped := make(chan error, 1)
	waits := make(chan struct{}, 1)
	var once sync.Once
	// The first has seen the second's pin, and not yet left the object, when the second drops it.
	fault.Set(func(point string) error {
		switch point {
		case "index.pins read":
			once.Do(func() {
				go func() {
					_, err := second.Drop()
					dropped <- err
				}()
				select {
				case <-waits:
				case err := <-dropped:
					dropped <- err
				}
			})
		case "index.drop waits":
			select {
			case waits <- struct{}{}:
			default:
			}
		}
		return nil
	})
	defer fault.Set(nil)
	if gone := ok(first.Drop())(t); gone {
		t.Error("evicted while the other used it")
	}
	must(t, <-dropped)
	wantHas(t, b, span(1, 1), nil)
	wantTaken(t, b, 0, 0)
	wantIndex(t, b)
}

func TestPeekIsNoUse(t *testing.T) {
	b := open(t)
	b.add(t, 1, 2)
	const at = 12345
	looked := b.find(t, 1)
	b.record(looked.rec).used.Store(at)
	looked.Unpin()
	e := ok(b.Peek(keyOf(1)))(t)
	if e == nil || e.Key != keyOf(1) || ok(b.Peek(keyOf(3)))(t) != nil {
		t.Fatalf("found: %v", e)
	}
	if !b.Has(keyOf(1)) || !b.Has(keyOf(2)) || b.Has(keyOf(3)) {
		t.Error("1 and 2 are there, and 3 is not")
	}
	if used := b.record(e.rec).used.Load(); used != at {
		t.Errorf("a look made it used at %d", used)
	}
	e.Discard()
	if b.Has(keyOf(1)) {
		t.Error("what was discarded is found")
	}
	if gone := b.evict(t, 1); gone != 1 || b.Has(keyOf(2)) { // which nobody pins
		t.Errorf("%d gone, or the other one", gone)
	}
}
