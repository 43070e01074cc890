//go:build linux

package index

import (
	"sync"
	"testing"
)

// TestSearchMissesNone searches a chain, without its lock, whose records other processes add and
// remove.
func TestSearchMissesNone(t *testing.T) {
	b := open(t)
	inChain := func(n int) Object {
		o := object(n, 0)
		copy(o.Key[8:12], "same")
		return o
	}
	objects := 2000
	if testing.Short() {
		objects = 200
	}
	const processes = 3
	stay := []Object{inChain(-1), inChain(-2), inChain(-3)}
	var churn sync.WaitGroup
	stop := make(chan struct{})
	for i := range processes {
		ok(b.publish(stay[i], limits))(t).Unpin() // it gets between the others
		other := b.another(t)
		churn.Go(func() {
			for n := range objects {
				e, err := other.publish(inChain(i*objects+n), limits)
				if err == nil {
					_, err = e.Drop()
				}
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	certainly := 0
	var reader sync.WaitGroup
	reader.Go(func() {
		for {
			for _, o := range stay {
				if _, r, certain, _ := b.search(o.Key); r == nil && certain {
					t.Errorf("%s is certainly not there", o.Name)
					return
				}
			}
			if _, r, certain, _ := b.search(inChain(-4).Key); r != nil {
				t.Error("an object was found that never was")
				return
			} else if certain {
				certainly++
			}
			select {
			case <-stop:
				return
			default:
			}
		}
	})
	churn.Wait()
	close(stop)
	reader.Wait()
	if certainly == 0 {
		t.Error("no search was certain")
	}
	wantIndex(t, b)
}

func TestFindLockedTakesNoLockForMissing(t *testing.T) {
	b := open(t)
	b.add(t, 1)
	unlock := ok(b.another(t).lockBucket(keyOf(2).bucket()))(t)
	defer unlock()
	if e, err := b.FindLocked(keyOf(2)); e != nil || err != nil {
		t.Errorf("found %v, %v", e, err)
	}
}
