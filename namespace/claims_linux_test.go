package namespace

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"leat/internal/proctest"
)

func read(dir string) []Dir { return []Dir{{dir, ""}} }

// What one process has, and what another may have at the same time, in every combination.
func TestClaimCompatibility(t *testing.T) {
	ownRoot(t)
	base := t.TempDir()
	mkdirs(t, base, "a", "b")
	mkdirs(t, base, "c")
	holder, other := newAgent(t, nil), newAgent(t, nil)
	ways := map[string]func(string) []Dir{"exclusive": write, "shared": read}
	for _, place := range []struct{ name, first, second, how string }{
		{"the same", "a", "a", "is"},
		{"what contains it", "a/b", "a", "contains"},
		{"what lies inside", "a", "a/b", "lies inside"},
		{"another", "a", "c", ""},
	} {
		for first, firstWay := range ways {
			for second, secondWay := range ways {
				t.Run(fmt.Sprintf("%s, then %s %s", first, second, place.name), func(t *testing.T) {
					holder.join(orderSpec{Key: "holder", Dirs: firstWay(filepath.Join(base, place.first))})
					got := other.tryJoin(orderSpec{Key: "other", Dirs: secondWay(filepath.Join(base, place.second))})
					granted := place.how == "" || first == "shared" && second == "shared"
					switch {
					case granted && got.Err != "":
						t.Errorf("refused: %s", got.Err)
					case !granted && got.Claimed == nil:
						t.Errorf("granted, or another error: %+v", got)
					case !granted && (got.Claimed.How != place.how || got.Claimed.Path != filepath.Join(base,
						place.second) || got.Claimed.Theirs != filepath.Join(base, place.first)):
						t.Errorf("%+v", got.Claimed)
					case !granted && got.Took > 20*time.Second:
						t.Errorf("it took %v", got.Took)
					}
					if got.Err == "" {
						other.must(order{Op: "close"})
					}
					holder.must(order{Op: "close"})
					// What was refused has left nothing: the same is granted now.
					if !granted {
						other.join(orderSpec{Key: "other", Dirs: secondWay(filepath.Join(base, place.second))})
						other.must(order{Op: "close"})
					}
				})
			}
		}
	}
}

func TestOutputFileClaims(t *testing.T) {
	ownRoot(t)
	base := t.TempDir()
	dir := mkdirs(t, base, "out")
	symlink(t, dir, base+"/link")
	symlink(t, dir+"/a.tif", base+"/a-link.tif")
	symlink(t, dir+"/dangling.tif", base+"/dangling-link.tif")
	if err := os.WriteFile(dir+"/a.tif", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	holder, other := newAgent(t, nil), newAgent(t, nil)
	holder.join(orderSpec{Key: "holder", Files: []string{dir + "/a.tif", dir + "/dangling.tif"},
		Dirs: write(mkdirs(t, base, "work"))})
	for name, c := range map[string]struct {
		spec orderSpec
		how  string // "": granted
	}{
		"the same file":                    {orderSpec{Files: []string{dir + "/a.tif"}}, "is"},
		"by a linked directory":            {orderSpec{Files: []string{base + "/link/a.tif"}}, "is"},
		"by a link to it":                  {orderSpec{Files: []string{base + "/a-link.tif"}}, "is"},
		"by a link, not yet made":          {orderSpec{Files: []string{base + "/dangling-link.tif"}}, "is"},
		"with dots":                        {orderSpec{Files: []string{dir + "/../out/./a.tif"}}, "is"},
		"another of the directory":         {orderSpec{Files: []string{dir + "/b.tif"}}, ""},
		"of the same name elsewhere":       {orderSpec{Files: []string{base + "/a.tif"}}, ""},
		"inside of an exclusive directory": {orderSpec{Files: []string{base + "/work/b.tif"}}, "lies inside"},
		"its directory, exclusively":       {orderSpec{Dirs: write(dir)}, "contains"},
		"its directory, to be read":        {orderSpec{Dirs: read(dir)}, "contains"},
		"the second of several":            {orderSpec{Files: []string{base + "/x.tif", dir + "/a.tif"}}, "is"},
	} {
		c.spec.Key = "other"
		got := other.tryJoin(c.spec)
		switch {
		case c.how == "" && got.Err != "":
			t.Errorf("%s: %s", name, got.Err)
		case c.how != "" && (got.Claimed == nil || got.Claimed.How != c.how):
			t.Errorf("%s: %+v", name, got)
		}
		if got.Err == "" {
			other.must(order{Op: "close"})
		}
	}
}

func TestSpecWithOnePlaceTwice(t *testing.T) {
	ownRoot(t)
	base := t.TempDir()
	a := mkdirs(t, base, "a")
	mkdirs(t, a, "b")
	symlink(t, a, base+"/link")
	for name, c := range map[string]struct {
		spec Spec
		ok   bool
	}{
		"the same":                 {Spec{Dirs: []Dir{{a, "s3://x"}, {a, "s3://y"}}}, false},
		"the same, to be read":     {Spec{Dirs: []Dir{{a, ""}, {a + "/", ""}}}, false},
		"the same by a link":       {Spec{Dirs: []Dir{{a, "s3://x"}, {base + "/link", "s3://x"}}}, false},
		"inside":                   {Spec{Dirs: []Dir{{a, "s3://x"}, {a + "/b", ""}}}, false},
		"outside":                  {Spec{Dirs: []Dir{{a + "/b", "s3://x"}, {a, ""}}}, false},
		"inside, both to be read":  {Spec{Dirs: []Dir{{a, ""}, {a + "/b", ""}}}, true},
		"a file twice":             {Spec{Files: []string{a + "/f", base + "/link/f"}}, false},
		"a file inside":            {Spec{Dirs: []Dir{{a, "s3://x"}}, Files: []string{a + "/f"}}, false},
		"two files of a directory": {Spec{Files: []string{a + "/f", a + "/g"}}, true},
	} {
		c.spec.Key = "job"
		before, _ := descriptors()
		n, err := Join(t.Context(), c.spec)
		if (err == nil) != c.ok {
			t.Errorf("%s: %v", name, err)
		}
		if err != nil && !strings.Contains(err.Error(), "which the job uses too") {
			t.Errorf("%s: %v", name, err)
		}
		if err == nil {
			n.Close()
		}
		if after, _ := descriptors(); after != before {
			t.Errorf("%s: %d descriptors, %d before", name, after, before)
		}
	}
}

// A directory that was removed while it was claimed is another one when it is made again.
func TestNewDirectoryOfSameName(t *testing.T) {
	ownRoot(t)
	dir := filepath.Join(t.TempDir(), "a")
	n, err := Join(t.Context(), Spec{Key: "a", Dirs: write(dir)})
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	for range 100 { // the inode is not given to another one while the claim holds
		if err := os.Remove(dir); err != nil {
			t.Fatal(err)
		}
		m, err := Join(t.Context(), Spec{Key: "b", Dirs: write(dir)})
		if err != nil {
			t.Fatal(err)
		}
		m.Close()
	}
}

// Several processes claim at random in a small tree and write down what they were granted and when.
// At no time two hold what excludes each other.
func TestHeldClaims(t *testing.T) {
	ownRoot(t)
	long := 4 * time.Second
	switch {
	case testing.Short():
		long = time.Second
	case os.Getenv("LEAT_TEST_DIST") != "":
		long = 10 * time.Second
	}
	// What they get done in that time may tell nothing on a machine that does much else: then they
	// go on for longer.
	for ; !claimAtRandom(t, long); long *= 4 {
		if long > time.Minute {
			t.Fatal("too few to tell anything")
		}
	}
}

func claimAtRandom(t *testing.T, long time.Duration) (enough bool) {
	base := t.TempDir()
	until := fmt.Sprint(time.Now().Add(long).UnixNano())
	var list []*proctest.Command
	var logs []string
	for i := range 6 {
		logs = append(logs, filepath.Join(t.TempDir(), "log"))
		list = append(list, proctest.New("walker", "claims", until, base, fmt.Sprint(i), logs[i]).Start(t))
	}
	// One of them is killed now and then.
	killed := 0
	for end := time.Now().Add(long); time.Now().Before(end); killed++ {
		w := proctest.New("walker", "claims", until, base, fmt.Sprint(100+killed),
			filepath.Join(t.TempDir(), "log")).Start(t)
		time.Sleep(50 * time.Millisecond)
		w.Kill()
		w.Wait()
	}
	var held []heldClaim
	refused := 0
	for i, w := range list {
		if _, output, err := w.Wait(); err != nil {
			t.Fatalf("%v\n%s", err, output)
		}
		more, no := readHeld(t, logs[i], i)
		held, refused = append(held, more...), refused+no
	}
	together := 0
	for i, a := range held {
		for _, b := range held[:i] {
			if a.who == b.who || a.until <= b.from || b.until <= a.from {
				continue
			}
			together++
			for _, x := range a.places {
				for _, y := range b.places {
					if excludes(x, y) {
						t.Fatalf("process %d held %s %v from %d to %d, process %d held %s %v from %d to %d",
							a.who, x, a.places, a.from, a.until, b.who, y, b.places, b.from, b.until)
					}
				}
			}
		}
	}
	t.Logf("%d sets of claims granted, %d refused, %d pairs of processes held theirs at the same time, %d killed",
		len(held), refused, together, killed)
	return len(held) >= 20 && refused >= 20 && together >= 20
}

// A single process that asks while nobody changes anything gets exactly what brute force says.
func TestGrantsAgainstBruteForce(t *testing.T) {
	ownRoot(t)
	base := t.TempDir()
	rounds := 40
	if testing.Short() {
		rounds = 6
	}
	for seed := range rounds {
		random := newClaimsRandom(uint64(seed))
		var granted [][]string
		var spaces []*Namespace
		for i := range 12 {
			places := random.places(base)
			want := true
			for _, set := range granted {
				for _, x := range set {
					for _, y := range places {
						want = want && !excludes(x, y)
					}
				}
			}
			spec := claimsSpec(places)
			spec.Key = fmt.Sprint("job", i)
			begin := time.Now()
			n, err := Join(t.Context(), spec)
			if (err == nil) != want {
				t.Fatalf("seed %d: %v and %v: %v", seed, places, granted, err)
			}
			if err == nil {
				granted, spaces = append(granted, places), append(spaces, n)
			} else if took := time.Since(begin); took > 20*time.Second {
				t.Errorf("the refusal took %v", took)
			}
			if len(spaces) > 0 && i%4 == 3 { // one leaves
				if err := spaces[0].Close(); err != nil {
					t.Error(err)
				}
				granted, spaces = granted[1:], spaces[1:]
			}
		}
		for _, n := range spaces {
			if err := n.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}
