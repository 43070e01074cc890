//go:build linux

package stage

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"
)

// epoch reads objects one after the other and returns how many of them were staged already. It runs
// in a synctest bubble, in which all objects take equally long: Epochs compares times.
func epoch(t *testing.T, p *Pool, s *source, names []string) (hits int) {
	t.Helper()
	before, _, _ := s.all()
	for _, name := range names {
		l := p.Prefetch(s, name)
		wantBytes(t, l, s, 0)
		l.Release()
		time.Sleep(time.Millisecond)
	}
	after, _, _ := s.all()
	return len(names) - (after - before)
}

func namesOf(prefix string, n int) (names []string) {
	for i := range n {
		names = append(names, fmt.Sprint(prefix, i))
	}
	return names
}

func TestEpochsLargerThanLimit(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ objects, space, most int }{{12, 10, 10}, {20, 10, 10}, {600, 500, 500}} {
		for _, order := range []string{"sequential", "shuffled"} {
			for _, keep := range []Keep{LRU, Epochs} {
				t.Run(fmt.Sprintf("%d in %d %s %d", test.objects, test.space, order, keep), func(t *testing.T) {
					t.Parallel()
					synctest.Test(t, func(t *testing.T) {
						s := small("epochs", 100)
						p := pool(t, t.TempDir(), Options{Keep: keep, MaxFiles: int64(test.space)})
						names := namesOf("", test.objects)
						epochs, hits := 50, 0
						if test.objects > 100 {
							epochs = 5
						}
						for i := range epochs + 2 {
							if order == "shuffled" {
								rand.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
							}
							if n := epoch(t, p, s, names); i >= 2 {
								hits += n
							}
						}
						t.Logf("%.0f %% hits", 100*float64(hits)/float64(epochs*test.objects))
						switch part := float64(hits) / float64(epochs*test.most); {
						case keep == LRU && order == "sequential" && hits > 0:
							t.Errorf("%d hits with LRU: the test does not show what it should", hits)
						case keep == Epochs && part < 0.75: // 500 runs of 20 epochs gave 0.84 or more, deviation 0.02
							t.Errorf("%.0f %% of the hits that there can be", 100*part)
						}
					})
				})
			}
		}
	}
}

func TestEpochsReplaceEarlierSet(t *testing.T) {
	t.Parallel()
	for _, n := range []int{10, 300} {
		synctest.Test(t, func(t *testing.T) {
			s := small("epochs", 100)
			p := pool(t, t.TempDir(), Options{Keep: Epochs, MaxFiles: int64(n)})
			for range 4 {
				epoch(t, p, s, namesOf("old ", n))
			}
			for epochs := 1; epoch(t, p, s, namesOf("new ", n)) < n; epochs++ {
				if epochs == 200 {
					t.Fatalf("%d new objects are not all staged after %d epochs", n, epochs)
				}
			}
		})
	}
}

func TestEpochsEvictForLargeObject(t *testing.T) {
	t.Parallel()
	synctest.Test(t, testEpochsEvictForLargeObject)
}

func testEpochsEvictForLargeObject(t *testing.T) {
	s := small("epochs", 100*kib)
	s.put("large", object{size: 30 * mib})
	p := pool(t, t.TempDir(), Options{Keep: Epochs, MaxBytes: 32 * mib})
	epoch(t, p, s, namesOf("", 400))
	held := p.Prefetch(s, "held")
	defer held.Release() // the garbage collector would release a lost Ref
	wantBytes(t, held, s, 0)
	l := p.Prefetch(s, "large")
	defer l.Release()
	wantBytes(t, l, s, 0)
	if stateOf(l) != staged {
		t.Errorf("the large object is %s", stateNames[stateOf(l)])
	}
	if !p.Has(s, "held") {
		t.Error("an object in use was evicted")
	}
	// What is in use stays, and ends the search.
	s.put("other large", object{size: 20 * mib})
	other := p.Prefetch(s, "other large")
	defer other.Release()
	wantBytes(t, other, s, 0)
	if stateOf(other) == staged {
		t.Error("there is space for what there is none for")
	}
	wantDisk(t, p)
}
