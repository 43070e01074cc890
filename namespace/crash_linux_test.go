package namespace

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"leat/internal/proctest"
)

// wayIn is one process's way into a job of two ranks, to a counter, and out again, while the other
// rank does what it must. It returns the process.
func wayIn(t *testing.T, who, base string, prepare func(*proctest.Command)) (victim, companion *agent) {
	t.Helper()
	spec := func(i int) order { return order{Op: "join", Spec: crashSpec(base, i)} }
	victim, companion = newAgent(t, prepare), newAgent(t, nil)
	count := order{Op: "add", Name: "c", N: 1}
	steps := []order{spec(0), count, {Op: "close"}}
	if who != "leader" {
		companion.must(spec(0))
		companion.must(count)
		steps[0] = spec(1)
	}
	for i, o := range steps {
		if who == "last follower" && i == 2 {
			companion.must(order{Op: "close"})
		}
		if victim.out.Encode(o) != nil {
			return // killed
		}
		if got, err := victim.tryReceive(); err != nil {
			return
		} else if got.Err != "" {
			t.Fatalf("%s: %s", o.Op, got.Err)
		}
	}
	return
}

func crashSpec(base string, i int) orderSpec {
	return orderSpec{Key: "job", Ranks: rank(i, 2), Dirs: write(base + "/a"), Files: []string{base + "/out.tif"}}
}

// Every pass of every point on this way ends one process.
func TestKillAtEachPoint(t *testing.T) {
	for who, mustPass := range map[string]string{
		"leader":        "namespace.claimed tempfile.created tempfile.locked lockfile.filled tempfile.linked namespace.registered lockfile.last lockfile.left",
		"follower":      "lockfile.opened namespace.added namespace.slot locked namespace.followed",
		"last follower": "namespace.followed lockfile.last lockfile.left",
	} {
		ownRoot(t)
		dry, _ := wayIn(t, who, t.TempDir(), nil)
		passes := map[string]int{}
		for _, point := range dry.must(order{Op: "points"}).List {
			passes[point]++
		}
		for _, point := range strings.Split(strings.ReplaceAll(mustPass, "slot locked", "slot_locked"), " ") {
			if point = strings.ReplaceAll(point, "_", " "); passes[point] == 0 {
				t.Errorf("the %s does not pass %s, only %v", who, point, passes)
			}
		}
		for point, n := range passes {
			for pass := range n {
				t.Run(fmt.Sprintf("%s at %s, pass %d", who, point, pass+1),
					func(t *testing.T) { killAt(t, who, point, pass+1) })
			}
		}
	}
}

func killAt(t *testing.T, who, point string, pass int) {
	root := ownRoot(t)
	base := t.TempDir()
	victim, companion := wayIn(t, who, base, func(c *proctest.Command) { c.KillAt(point, pass) })
	victim.conn.Close() // it ends, if it still lives
	if killed, output, err := victim.cmd.Wait(); !killed {
		t.Fatalf("it was not killed: %v\n%s", err, output)
	}
	if who != "leader" {
		if who == "follower" {
			// The job goes on, and takes the follower's next life in.
			again := newAgent(t, nil)
			again.join(crashSpec(base, 1))
			if v := again.must(order{Op: "add", Name: "c", N: 1}).Value; v < 2 {
				t.Errorf("the counter of the job is %d", v)
			}
			again.kill()
		}
		companion.killWait()
	}
	next := newAgents(t, 2)
	begin := time.Now()
	for i, a := range next {
		if got := a.join(crashSpec(base, i)); got.Number > firstNumber+3 {
			t.Errorf("number %d", got.Number)
		}
		if v := a.must(order{Op: "add", Name: "c", N: 1}).Value; v != int64(i+1) {
			t.Errorf("the new job's counter is %d after rank %d", v, i)
		}
	}
	if took := time.Since(begin); took > 20*time.Second {
		t.Errorf("the next job took %v", took)
	}
	for _, a := range next {
		a.killWait()
	}
	mustBeEmptyAfterGC(t, root)
}

// Killed at random moments rather than named ones, in a job of four ranks of which one is killed
// while all join, share and leave.
func TestRandomKills(t *testing.T) {
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
			a.send(order{Op: "join", Spec: orderSpec{Key: "job", Ranks: rank(i, ranks), Dirs: write(base + "/a"),
				Wait: 100 * time.Millisecond}})
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
func TestSweepAfterKilledJobs(t *testing.T) {
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
				rounds = 4 * live // more than may be left over
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
