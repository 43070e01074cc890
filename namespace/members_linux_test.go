package namespace

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"
)

func write(dir string) []Dir { return []Dir{{dir, "s3://bucket/data"}} }

func TestClaimsOutliveLeader(t *testing.T) {
	ownRoot(t)
	dir := t.TempDir()
	spec := func(i int) orderSpec { return orderSpec{Key: "job", Ranks: rank(i, 3), Dirs: write(dir)} }
	job, another := newAgents(t, 3), newAgent(t, nil)
	for i, a := range job {
		if got := a.join(spec(i)); got.Leader != (i == 0) || got.Number != firstNumber {
			t.Fatalf("rank %d: %+v", i, got)
		}
	}
	other := orderSpec{Key: "another", Dirs: write(dir)}
	for i, a := range job {
		got := another.tryJoin(other)
		if got.Claimed == nil || got.Claimed.Holder.Key != "job" {
			t.Fatalf("while ranks %d to 2 live: %+v", i, got)
		}
		if got.Claimed.Holder.PID != a.pid {
			t.Errorf("the holder is said to be process %d, rank %d is %d", got.Claimed.Holder.PID, i, a.pid)
		}
		if got.Took > 20*time.Second { // less than a follower waits
			t.Errorf("a live holder was waited for: %v", got.Took)
		}
		a.killWait()
	}
	another.join(other)
}

func TestLeaderGone(t *testing.T) {
	for _, how := range []string{"kill -9", "close", "exit"} {
		t.Run(how, func(t *testing.T) {
			ownRoot(t)
			job := newAgents(t, 3)
			for i, a := range job {
				a.join(orderSpec{Key: "job", Ranks: rank(i, 3)})
			}
			for _, a := range job[1:] {
				if got := a.try(order{Op: "leader gone", Timeout: 100 * time.Millisecond}); !got.is("deadline") {
					t.Fatalf("while it lives: %+v", got)
				}
				a.send(order{Op: "leader gone", Timeout: time.Minute})
			}
			switch how {
			case "kill -9":
				job[0].kill()
			case "close":
				job[0].must(order{Op: "close"})
			case "exit":
				job[0].conn.Close()
			}
			for _, a := range job[1:] {
				if got := a.receive(); got.Err != "" {
					t.Errorf("%+v", got)
				} else {
					t.Logf("noticed after %v", got.Took)
				}
			}
		})
	}
}

func TestNewLeaderWaitsForOldFollowers(t *testing.T) {
	for _, with := range []string{"directories", "no directories"} {
		t.Run(with, func(t *testing.T) {
			ownRoot(t)
			dirs := write(t.TempDir())
			if with == "no directories" {
				dirs = nil
			}
			job, next := newAgents(t, 2), newAgent(t, nil)
			for i, a := range job {
				a.join(orderSpec{Key: "job", Ranks: rank(i, 2), Dirs: dirs})
			}
			again := orderSpec{Key: "job", Ranks: rank(0, 2), Dirs: dirs}
			for _, a := range job {
				got := next.tryJoin(again)
				if got.Err == "" || got.Took > 20*time.Second {
					t.Fatalf("%+v", got)
				}
				if with == "directories" && got.Claimed == nil || with == "no directories" && !got.is("in use") {
					t.Errorf("%+v", got)
				}
				if !strings.Contains(got.Err, fmt.Sprint(a.pid)) {
					t.Errorf("process %d is not named: %s", a.pid, got.Err)
				}
				a.killWait()
			}
			next.join(again)
		})
	}
}

func TestJoinWithoutLauncherAfterLeaderEnded(t *testing.T) {
	for _, with := range []string{"directories", "no directories"} {
		t.Run(with, func(t *testing.T) {
			ownRoot(t)
			spec := orderSpec{Key: "job", Dirs: write(t.TempDir())}
			if with == "no directories" {
				spec.Dirs = nil
			}
			job, next := newAgents(t, 2), newAgent(t, nil)
			for _, a := range job {
				a.join(spec)
			}
			job[0].killWait()
			got := next.tryJoin(spec)
			if got.Err == "" || got.Took > 20*time.Second || !strings.Contains(got.Err, fmt.Sprint(job[1].pid)) {
				t.Errorf("%+v", got)
			}
			job[1].killWait()
			next.join(spec)
		})
	}
}

func TestMismatchNamesBothLists(t *testing.T) {
	ownRoot(t)
	base := t.TempDir()
	a, b := mkdirs(t, base, "a"), mkdirs(t, base, "b")
	leader := newAgent(t, nil)
	leader.join(orderSpec{Key: "job", Ranks: rank(0, 2), Dirs: []Dir{{a, "s3://x"}, {b, ""}}})
	follower := newAgent(t, nil)
	for name, dirs := range map[string][]Dir{
		"none":            nil,
		"fewer":           {{a, "s3://x"}},
		"another order":   {{b, ""}, {a, "s3://x"}},
		"another remote":  {{a, "s3://y"}, {b, ""}},
		"remote or not":   {{a, ""}, {b, ""}},
		"one directory's": {{a, "s3://x"}, {mkdirs(t, base, "c"), ""}},
	} {
		got := follower.tryJoin(orderSpec{Key: "job", Ranks: rank(1, 2), Dirs: dirs, Wait: 10 * time.Second})
		if !got.is("mismatch") || got.Took > 20*time.Second {
			t.Errorf("%s: %+v", name, got)
			continue
		}
		for _, want := range []string{a + " from s3://x, " + b, fmt.Sprint(leader.pid), "job"} {
			if !strings.Contains(got.Err, want) {
				t.Errorf("%s: %q lacks %q", name, got.Err, want)
			}
		}
		for _, d := range dirs {
			if !strings.Contains(got.Err, d.Path) {
				t.Errorf("%s: %q lacks %q", name, got.Err, d.Path)
			}
		}
	}
	// The same directories by other paths are the same.
	follower.join(orderSpec{Key: "job", Ranks: rank(1, 2), Dirs: []Dir{{a + "/../a/", "s3://x"}, {b + "//", ""}}})
}

func TestNoLeaderRegisters(t *testing.T) {
	ownRoot(t)
	a := newAgent(t, nil)
	got := a.tryJoin(orderSpec{Key: "job", Ranks: rank(1, 2), Wait: 300 * time.Millisecond})
	if !got.is("no leader") || got.Took < 300*time.Millisecond || got.Took > 20*time.Second {
		t.Errorf("%+v", got)
	}
	if !strings.Contains(got.Err, "local rank 0") || !strings.Contains(got.Err, "300ms") {
		t.Error(got.Err)
	}
	got = a.try(order{Op: "join", Timeout: 200 * time.Millisecond, Spec: orderSpec{Key: "job", Ranks: rank(1, 2)}})
	if !got.is("deadline") || got.Took > 20*time.Second {
		t.Errorf("with a context that ends: %+v", got)
	}
}

func TestNoLeaderNamesDeadLeader(t *testing.T) {
	ownRoot(t)
	leader := newAgent(t, nil)
	leader.join(orderSpec{Key: "job", Ranks: rank(0, 3)})
	other := newAgent(t, nil)
	other.join(orderSpec{Key: "job", Ranks: rank(1, 3)})
	leader.killWait()
	got := newAgent(t, nil).tryJoin(orderSpec{Key: "job", Ranks: rank(2, 3), Wait: 200 * time.Millisecond})
	if !got.is("no leader") || !strings.Contains(got.Err, fmt.Sprint(leader.pid)) {
		t.Errorf("%+v", got)
	}
}

func TestListDeadMember(t *testing.T) {
	ownRoot(t)
	job := newAgents(t, 4)
	for i, a := range job {
		a.join(orderSpec{Key: "job", Ranks: rank(i, 4)})
	}
	find := func(rank int) (m Member, found bool) {
		for _, m := range job[0].must(order{Op: "members"}).Members {
			if m.Rank == rank {
				return m, true
			}
		}
		return Member{}, false
	}
	for i, a := range job {
		if m, ok := find(i); !ok || !m.Alive || m.PID != a.pid || m.LocalRank != i || m.Leader != (i == 0) {
			t.Errorf("rank %d: %+v", i, m)
		}
	}
	job[2].killWait()
	if m, ok := find(2); !ok || m.Alive || m.PID != job[2].pid {
		t.Errorf("dead: %+v", m)
	}
	job[3].must(order{Op: "close"})
	if m, ok := find(3); ok {
		t.Errorf("it has left: %+v", m)
	}
	again := newAgent(t, nil)
	again.join(orderSpec{Key: "job", Ranks: rank(2, 4)})
	if m, ok := find(2); !ok || !m.Alive || m.PID != again.pid {
		t.Errorf("restarted: %+v", m)
	}
	if n := len(job[0].must(order{Op: "members"}).Members); n != 3 {
		t.Errorf("%d members", n)
	}
}

func TestManyMembers(t *testing.T) {
	ownRoot(t)
	dir := t.TempDir()
	const ranks = 300
	for i := range ranks {
		n, err := Join(t.Context(), Spec{Key: "job", Ranks: rank(i, ranks), Dirs: write(dir)})
		if err != nil {
			t.Fatalf("rank %d: %v", i, err)
		}
		defer n.Close()
	}
	jobs, problems := List()
	if len(jobs) != 1 || len(jobs[0].Members) != ranks || len(problems) > 0 {
		t.Errorf("%d jobs, %v", len(jobs), problems)
	}
}

func TestFullTableOfMembers(t *testing.T) {
	ownRoot(t)
	for i := range minSlots {
		n, err := Join(t.Context(), Spec{Key: "job"})
		if err != nil {
			t.Fatalf("%d: %v", i, err)
		}
		defer n.Close()
	}
	_, err := Join(t.Context(), Spec{Key: "job"})
	if err == nil || !strings.Contains(err.Error(), "256 members") {
		t.Error(err)
	}
}

// A zombie has ended, but its parent has not asked for it yet.
func TestZombieHolder(t *testing.T) {
	ownRoot(t)
	dir := t.TempDir()
	parent := newAgent(t, nil)
	point := newRendezvous(t)
	parent.must(order{Op: "spawn", Name: point.path})
	zombie := point.meet(t)
	spec := orderSpec{Key: "job", Ranks: rank(0, 2), Dirs: write(dir)}
	zombie.join(spec)
	zombie.kill()
	got := newAgent(t, nil).join(spec)
	if got.Took > 20*time.Second {
		t.Errorf("it took %v", got.Took)
	}
	if s := procState(zombie.pid); s.State != 'Z' {
		t.Errorf("not a zombie: %+v", s)
	}
}

// A stopped process lives: its claims are refused at once, and it goes on with them.
func TestStoppedHolder(t *testing.T) {
	ownRoot(t)
	dir := t.TempDir()
	holder, other := newAgent(t, nil), newAgent(t, nil)
	holder.join(orderSpec{Key: "job", Dirs: write(dir)})
	if err := syscall.Kill(holder.pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	eventually(t, "stop", func() bool { return procState(holder.pid).State == 'T' })
	got := other.tryJoin(orderSpec{Key: "other", Dirs: write(dir)})
	if got.Claimed == nil || got.Took > 20*time.Second {
		t.Errorf("%+v", got)
	}
	// Killed while it is stopped, it is gone all the same.
	holder.kill()
	other.join(orderSpec{Key: "other", Dirs: write(dir)})
}

func TestClaimsAndChildren(t *testing.T) {
	ownRoot(t)
	spec := orderSpec{Key: "job", Dirs: write(t.TempDir())}
	holder := newAgent(t, nil)
	holder.join(spec)
	child := holder.must(order{Op: "sleep"}).PID
	defer syscall.Kill(child, syscall.SIGKILL)
	holder.killWait()
	if s := procState(child); !s.Exists || s.Exiting {
		t.Fatalf("the child has ended: %+v", s)
	}
	newAgent(t, nil).join(spec)
}

func TestClaimedErrorNamesHolder(t *testing.T) {
	ownRoot(t)
	base := t.TempDir()
	dir := mkdirs(t, base, "a", "b")
	holder := newAgent(t, nil)
	before := time.Now().Add(-time.Minute)
	holder.join(orderSpec{Key: "job", Name: "train", Dirs: write(dir), Command: "leat apply --fast"})
	got := newAgent(t, nil).tryJoin(orderSpec{Key: "other", Dirs: write(base + "/a")})
	if got.Claimed == nil {
		t.Fatalf("%+v", got)
	}
	h := got.Claimed.Holder
	if got.Claimed.How != "contains" || got.Claimed.Path != base+"/a" || got.Claimed.Theirs != dir ||
		h.PID != holder.pid || h.Key != "job" || h.Name != "train" ||
		h.Command != "leat apply --fast" || h.Host == "" || h.Since.Before(before) || h.Since.After(time.Now()) {
		t.Errorf("%+v", got.Claimed)
	}
	for _, want := range []string{base + "/a contains " + dir, fmt.Sprintf("process %d on ", holder.pid),
		"leat apply --fast", "is in use by"} {
		if !strings.Contains(got.Err, want) {
			t.Errorf("%q lacks %q", got.Err, want)
		}
	}
}

func TestFirstProcessLeadsWithoutLauncher(t *testing.T) {
	ownRoot(t)
	dir := t.TempDir()
	list := newAgents(t, 4)
	for round := range 50 {
		at := time.Now().Add(5 * time.Millisecond).UnixNano()
		leaders := 0
		for i, got := range all(list, func(int) order {
			return order{Op: "join", At: at, Spec: orderSpec{Key: "job", Dirs: write(dir)}}
		}) {
			if got.Err != "" {
				t.Fatalf("round %d, process %d: %s", round, i, got.Err)
			}
			if got.Leader {
				leaders++
			}
		}
		if leaders != 1 {
			t.Fatalf("round %d: %d lead", round, leaders)
		}
		for _, got := range all(list, func(int) order { return order{Op: "close"} }) {
			if got.Err != "" {
				t.Fatalf("round %d: close: %s", round, got.Err)
			}
		}
	}
}
