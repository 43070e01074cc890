//go:build unix

package lockfile

import (
	"fmt"
	"io/fs"
	"testing"

	"leat/internal/proctest"
)

// crash does something with the name a, on the way to which it is to be killed.
func crash(args []string) error {
	path, way, what := args[0], args[1], args[2]
	setWay(way, proctest.Point)
	d, err := OpenRoot(path, "LEAT_RUNTIME_DIR")
	if err != nil {
		return err
	}
	fill := func(fd int) error {
		if err := text("half")(fd); err != nil {
			return err
		}
		proctest.Point("filling")
		return text(" and whole")(fd)
	}
	before := func() error { proctest.Point("before"); return nil }
	var h *Lock
	switch what {
	case "publish":
		_, err = d.Publish("a", 0o600, fill)
	case "join":
		_, _, err = d.LockOrPublish("a", 0o600, fill)
	case "share":
		_, err = d.LockShared("a", false)
	case "own":
		_, err = d.LockExclusive("a")
	case "leave":
		if h, err = d.Publish("a", 0o600, fill); err == nil {
			_, err = h.RemoveIfLast(before)
		}
	case "sweep":
		_, err = d.SweepWith("a", func(int) error { return before() })
	case "sweep some":
		_, err = d.SweepSome(100)
	default:
		err = fmt.Errorf("what is %q?", what)
	}
	return err
}

func TestKilledProcessLeavesOnlySweepableFiles(t *testing.T) {
	const absent, half, whole = "absent", "half", "half and whole"
	for _, test := range []struct {
		what, point string
		there       bool   // a file that nobody holds is there before
		after       string // what is under the name after it
	}{
		{"publish", "tempfile.created", false, absent},
		{"publish", "tempfile.locked", false, absent},
		{"publish", "filling", false, absent},
		{"publish", "lockfile.filled", false, absent},
		{"publish", "tempfile.linked", false, whole},
		{"publish", "lockfile.filled", true, whole},
		{"join", "tempfile.created", false, absent},
		{"join", "filling", false, absent},
		{"join", "lockfile.filled", false, absent},
		{"join", "tempfile.linked", false, whole},
		{"join", "lockfile.opened", true, whole},
		{"share", "lockfile.opened", true, whole},
		{"own", "lockfile.opened", true, whole},
		{"leave", "lockfile.last", false, whole},
		{"leave", "before", false, whole},
		{"leave", "lockfile.left", false, absent},
		{"sweep", "lockfile.opened", true, whole},
		{"sweep", "lockfile.sweeping", true, whole},
		{"sweep", "before", true, whole},
		{"sweep", "lockfile.swept", true, absent},
		{"sweep some", "lockfile.opened", true, whole},
		{"sweep some", "lockfile.sweeping", true, whole},
		{"sweep some", "lockfile.swept", true, absent},
	} {
		for _, way := range ways {
			t.Run(test.what+" at "+test.point+" "+way, func(t *testing.T) {
				d := openTest(t)
				if test.there {
					leave(t, d, "a", whole)
				}
				awaitKilled(t, proctest.New("crash", d.Path(), way, test.what).KillAt(test.point, 1).Start(t))
				switch {
				case test.after == absent && exists(d.FilePath("a")):
					t.Errorf("the name is there, with %q", content(t, d, "a"))
				case test.after != absent && content(t, d, "a") != test.after:
					t.Errorf("the name leads to %q", content(t, d, "a"))
				}
				// The next comer has it at once.
				h, created, err := d.LockOrPublish("a", 0o600, text(whole))
				must(t, err)
				if created != (test.after == absent) || content(t, d, "a") != whole {
					t.Errorf("the next one: created %v, %q", created, content(t, d, "a"))
				}
				must(t, h.Release())
				// One sweep of all names leaves nothing.
				for _, name := range names(t, d) {
					sweep(t, d, name)
				}
				if left := names(t, d); len(left) > 0 {
					t.Errorf("left: %q", left)
				}
				h, err = d.Publish("a", 0o600, text(whole))
				must(t, err)
				must(t, h.Release())
			})
		}
	}
}

func TestCrashTestCompletesWithoutKill(t *testing.T) {
	for _, way := range ways {
		for _, what := range []string{"publish", "join", "leave"} {
			d := openTest(t)
			awaitEnd(t, proctest.New("crash", d.Path(), way, what).Start(t))
			_, err := d.LockShared("a", false)
			if what == "leave" {
				wantErr(t, err, fs.ErrNotExist)
			} else {
				must(t, err)
			}
		}
	}
}
