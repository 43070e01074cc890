package namespace

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"leat/internal/proctest"
)

// killPoints are the points that a process passes on its way into and out of a job, in order, and how often.
var killPoints = map[string][]string{
	"leader": {
		"lease.opened:1", "namespace.claimed:1", "lease.opened:2", "lease.opened:3", "lease.created:1", "lease.locked:1", "lease.filled:1", "lease.linked:1", "namespace.registered:1",
		"lease.created:2", "lease.locked:2", "lease.filled:2", "lease.linked:2", // of a counter
		"lease.last:1", "lease.left:1",
	},
	"follower": {
		"lease.opened:1", "lease.opened:2", "lease.opened:3", "namespace.added:1", "namespace.slot locked:1", "namespace.followed:1",
		"lease.opened:4", // of a counter
		"lease.last:1", "lease.left:1",
	},
}

// The process that is to be killed joins, makes a counter and leaves; the point ends it somewhere on this way.
func TestAKillAtAnyPointLeavesNothingInTheNextJobsWay(t *testing.T) {
	for who, points := range killPoints {
		for _, point := range points {
			t.Run(who+" at "+point, func(t *testing.T) {
				root := ownRoot(t)
				base := t.TempDir()
				spec := func(i int) orderSpec {
					return orderSpec{Key: "job", World: rank(i, 2), Dirs: write(base + "/a"), Files: []string{base + "/out.tif"}}
				}
				name, pass := splitPoint(point)
				victim := newAgent(t, func(c *proctest.Command) { c.KillAt(name, pass) })
				me, other := 0, 1
				last := name == "lease.last" || name == "lease.left"
				if who == "follower" {
					me, other = 1, 0
				}
				companion := newAgent(t, nil)
				if who == "follower" {
					companion.join(spec(other))
					companion.must(order{Op: "add", Name: "c", N: 1})
				}
				steps := []order{{Op: "join", Spec: spec(me)}, {Op: "add", Name: "c", N: 1}, {Op: "close"}}
				if last && who == "follower" {
					steps = []order{{Op: "join", Spec: spec(me)}, {}, {Op: "close"}}
				}
				for _, o := range steps {
					if o.Op == "" {
						companion.must(order{Op: "close"}) // the victim is the last one out
						continue
					}
					if victim.out.Encode(o) != nil {
						break
					}
					if got, err := victim.tryReceive(); err != nil {
						break
					} else if got.Err != "" {
						t.Fatalf("%s: %s", o.Op, got.Err)
					}
				}
				if killed, output, err := victim.cmd.Wait(); !killed {
					t.Fatalf("it was not killed: %v\n%s", err, output)
				}
				if who == "follower" && !last {
					// The job goes on, and takes the follower's next life in.
					again := newAgent(t, nil)
					again.join(spec(me))
					if v := again.must(order{Op: "add", Name: "c", N: 1}).Value; v < 2 {
						t.Errorf("the counter of the job is %d", v)
					}
					again.kill()
					companion.killWait()
				}
				begin := time.Now()
				for i, a := range newAgents(t, 2) {
					if got := a.join(spec(i)); got.Number != 0 && got.Number > 3 {
						t.Errorf("number %d", got.Number)
					}
					if v := a.must(order{Op: "add", Name: "c", N: 1}).Value; v != int64(i+1) {
						t.Errorf("the new job's counter is %d after rank %d", v, i)
					}
					a.kill()
					if i == 0 {
						a.cmd.Wait()
						break
					}
				}
				if took := time.Since(begin); took > 2*time.Second {
					t.Errorf("the next job took %v", took)
				}
				mustBeEmptyAfterGC(t, root)
			})
		}
	}
}

func splitPoint(s string) (name string, pass int) {
	if _, err := fmt.Sscanf(s[len(s)-1:], "%d", &pass); err != nil {
		panic(err)
	}
	return s[:len(s)-2], pass
}

// Killed at random moments rather than named ones, in a job of four ranks of which one is killed while all join, share and leave.
func TestKillsAtRandomMomentsLeaveNothingBehind(t *testing.T) {
	root := ownRoot(t)
	base := t.TempDir()
	rounds := 150
	if testing.Short() {
		rounds = 15
	}
	const ranks = 4
	list := newAgents(t, ranks)
	for round := range rounds {
		victim := rand.IntN(ranks)
		for i, a := range list {
			a.send(order{Op: "join", Spec: orderSpec{Key: "job", World: rank(i, ranks), Dirs: write(base + "/a"), Wait: 100 * time.Millisecond}})
		}
		time.Sleep(rand.N(3 * time.Millisecond))
		list[victim].killWait()
		for i, a := range list {
			if i != victim {
				a.receive() // joined, or nobody leads
				a.try(order{Op: "close"})
			}
		}
		list[victim] = newAgent(t, nil)
		next := list[(victim+1)%ranks]
		if got := next.tryJoin(orderSpec{Key: "next", Dirs: write(base)}); got.Err != "" {
			t.Fatalf("round %d: %s", round, got.Err)
		}
		next.must(order{Op: "close"})
	}
	mustBeEmptyAfterGC(t, root)
}

// Random keys never come again, so that only other jobs' registrations can remove what they leave.
func TestLeftoversOfKilledJobsDoNotPileUp(t *testing.T) {
	for _, where := range []string{"in memory", "on disk"} { // which list their files in other orders
		t.Run(where, func(t *testing.T) {
			root := ownRoot(t)
			if where == "on disk" {
				root = filepath.Join(t.TempDir(), "leat")
				t.Setenv("LEAT_RUNTIME_DIR", root)
			}
			const live = 30 // that are in the way of looking
			for i := range live {
				n, err := Join(t.Context(), Spec{Key: fmt.Sprint("live", i)})
				if err != nil {
					t.Fatal(err)
				}
				defer n.Close()
			}
			rounds := 300
			if testing.Short() {
				rounds = 200
			}
			most := 0
			for i := range rounds {
				a := newAgent(t, nil)
				a.join(orderSpec{Key: fmt.Sprint("killed", i)})
				a.must(order{Op: "add", Name: "c", N: 1})
				a.killWait()
				names, err := os.ReadDir(filepath.Join(root, "jobs"))
				if err != nil {
					t.Fatal(err)
				}
				most = max(most, len(names)-live)
			}
			t.Logf("at most %d leftovers of %d killed jobs", most, rounds)
			if most > 3*live {
				t.Errorf("%d leftovers of %d killed jobs", most, rounds)
			}
		})
	}
}
