//go:build unix

package shm

import (
	"os/exec"
	"sync"
	"testing"
)

// A child has its parent's descriptors, and their locks, from its fork to its exec.
func TestLiveArrayWhileChildrenStart(t *testing.T) {
	isolate(t)
	s, other := must(Open(nil))(t), must(Open(nil))(t)
	defer s.Close()
	defer other.Close()
	stop := make(chan struct{})
	var children sync.WaitGroup
	defer children.Wait()
	defer close(stop)
	children.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				if err := exec.Command("true").Run(); err != nil {
					t.Error(err)
					return
				}
			}
		}
	})
	rounds := 20_000
	if testing.Short() {
		rounds = 2000
	}
	data := make([]byte, 200<<10)
	for i := range rounds {
		a := must(s.Put(data))(t)
		b, err := other.Attach(must(a.Handle())(t), ReadOnly)
		if err != nil {
			t.Fatalf("round %d: %v", i, err)
		}
		check(t, b.Close())
		check(t, a.Close())
	}
}
