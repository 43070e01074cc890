//go:build linux

package cache

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

// preserveKinds are the ways by which a file gets its name.
var preserveKinds = map[string]struct {
	refuse  string
	another bool // file system
}{
	"linked": {}, "copied": {another: true}, "hidden name": {refuse: "cache.no O_TMPFILE"}, "copied, hidden": {another: true, refuse: "cache.no O_TMPFILE"},
}

// pfio: preserve does not freeze; deep copy deletes the file.
func TestAPreservedCacheIsFinalCompleteAndStays(t *testing.T) {
	for name, kind := range preserveKinds {
		t.Run(name, func(t *testing.T) {
			failAt(t, kind.refuse, errTest)
			home, dir := t.TempDir(), ""
			if dir = t.TempDir(); kind.another {
				dir = inMemory(t)
			}
			c := ok(Create(1000, &Options{Dir: home}))(t)
			other := attachTo(t, c, nil)
			for i := range int64(50) {
				put(t, c, i*7, string(content(i)))
			}
			damage(t, c, slotOf(t, c, 7)+recordHead+3)
			path := filepath.Join(dir, "kept")
			must(t, c.Preserve(path, false))
			if put(t, c, 999, "late") || put(t, other, 999, "late") {
				t.Error("it was put to")
			}
			wantErr(t, c.Preserve(path, false), fs.ErrExist)
			wantErr(t, other.Preserve(path, false), fs.ErrExist)
			must(t, other.Preserve(path, true))
			must(t, c.Preserve(path, true)) // onto itself
			must(t, c.Preserve(path+"2", false))
			must(t, os.WriteFile(path+"3", []byte("old"), 0o644))
			must(t, c.Preserve(path+"3", true))
			must(t, c.Close())
			must(t, other.Close())
			if diff := cmp.Diff([]string{"kept", "kept2", "kept3"}, allNames(t, dir)); diff != "" {
				t.Error(diff)
			}
			if left := allNames(t, home); len(left) > 0 {
				t.Errorf("left: %q", left)
			}
			for _, p := range []string{path, path + "2", path + "3"} {
				must(t, os.Chmod(p, 0o444))
				c := ok(Load(p, nil))(t)
				for i := range int64(50) {
					if i == 1 {
						wantMiss(t, c, 7)
					} else {
						wantEntry(t, c, i*7, string(content(i)))
					}
				}
				if rep := check(t, c); !rep.OK() || !rep.Preserved || rep.Filled != 49 {
					t.Errorf("%+v", rep)
				}
				a := attachTo(t, c, nil) // by the handle of one who loaded it
				wantEntry(t, a, 0, string(content(0)))
				if put(t, a, 999, "late") {
					t.Error("it was put to")
				}
				must(t, c.Preserve(p+"b", false)) // a second name
				must(t, c.Close())
			}
		})
	}
}

func TestPreserveSaysWhatIsWrongWithItsName(t *testing.T) {
	c := create(t, 10, nil)
	dir := t.TempDir()
	for name, text := range map[string]string{"": "no file name", dir: "directory", dir + "/": "names a directory", dir + "/missing/x": "create it first", "/proc/self/x": "/proc/self"} {
		if err := c.Preserve(name, true); err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("%q: %v", name, err)
		}
	}
	// Nothing was lost by it.
	must(t, c.Preserve(dir+"/x", false))
}

func TestANamedCacheIsPreservedUnderItsOwnAndOtherNames(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "named")
	c := ok(Open(path, 10, nil))(t)
	put(t, c, 1, "entry")
	must(t, c.Preserve(path, true))
	must(t, c.Preserve(path+"2", false))
	must(t, c.Close())
	for _, p := range []string{path, path + "2"} {
		c := ok(Load(p, nil))(t)
		wantEntry(t, c, 1, "entry")
		must(t, c.Close())
	}
	c = ok(Open(path, 10, nil))(t) // still its name: frozen
	wantEntry(t, c, 1, "entry")
	if put(t, c, 2, "late") {
		t.Error("it was put to")
	}
	must(t, c.Close())
	if names := allNames(t, dir); len(names) != 2 {
		t.Errorf("%q", names)
	}
}

func TestAFileWhoseNamesWereAllRemovedIsPreservedByACopy(t *testing.T) {
	dir := t.TempDir()
	c := ok(Open(filepath.Join(dir, "named"), 10, nil))(t)
	put(t, c, 1, "entry")
	must(t, os.Remove(filepath.Join(dir, "named")))
	must(t, c.Preserve(filepath.Join(dir, "kept"), false))
	must(t, c.Close())
	c = ok(Load(filepath.Join(dir, "kept"), nil))(t)
	wantEntry(t, c, 1, "entry")
	must(t, c.Close())
}

func TestAFailedPreserveLeavesNoName(t *testing.T) {
	dir := t.TempDir()
	c := create(t, 10, nil)
	put(t, c, 1, "entry")
	failAt(t, "cache.write", errNoSpace)
	for _, overwrite := range []bool{false, true} {
		if err := c.Preserve(filepath.Join(dir, "kept"), overwrite); !errors.Is(err, unix.ENOSPC) {
			t.Errorf("%v", err)
		}
	}
	if names := allNames(t, dir); len(names) > 0 {
		t.Errorf("left: %q", names)
	}
	faults(t, func(string) error { return nil })
	must(t, c.Preserve(filepath.Join(dir, "kept"), false))
}

func TestListInspectGCAndRemoveTellWhatIsHeld(t *testing.T) {
	dir := t.TempDir()
	c := ok(Open(filepath.Join(dir, "named"), 10, &Options{MaxBytes: 1 << 20}))(t)
	put(t, c, 1, "entry")
	must(t, c.Preserve(filepath.Join(dir, "kept"), false))
	open := ok(Open(filepath.Join(dir, "other"), 20, nil))(t)
	must(t, os.WriteFile(filepath.Join(dir, "plain"), []byte("text"), 0o600))
	must(t, os.WriteFile(filepath.Join(dir, ".leat-cache-LEFT"), nil, 0o600))
	must(t, os.WriteFile(filepath.Join(dir, ".kept.0123456789abcdef.leat-new"), nil, 0o600))
	must(t, os.WriteFile(filepath.Join(dir, ".kept.0123456789abcdeX.leat-new"), nil, 0o600))
	must(t, os.Symlink("plain", filepath.Join(dir, ".leat-cache-LINK")))
	must(t, c.Close())
	infos := ok(List(dir))(t)
	if len(infos) != 3 {
		t.Fatalf("%+v", infos)
	}
	kept, named, other := infos[0], infos[1], infos[2]
	if !kept.Preserved || !named.Frozen || kept.Held || !other.Held || other.Frozen || named.Entries != 1 || kept.Slots != 10 || named.MaxBytes != 1<<20 ||
		other.Slots != 20 || kept.Path != filepath.Join(dir, "kept") || kept.UUID != named.UUID || kept.DiskBytes == 0 || kept.Modified.IsZero() || kept.Leftover {
		t.Errorf("%+v", infos)
	}
	if info := ok(Inspect(other.Path))(t); info != other {
		t.Errorf("%+v, not %+v", info, other)
	}
	_, err := Inspect(filepath.Join(dir, "plain"))
	wantErr(t, err, ErrFormat)
	_, err = Inspect(filepath.Join(dir, "none"))
	wantErr(t, err, fs.ErrNotExist)
	if err := Remove(other.Path, false); err == nil || !strings.Contains(err.Error(), "in use") {
		t.Errorf("%v", err)
	}
	wantErr(t, Remove(filepath.Join(dir, "plain"), true), ErrFormat)
	put(t, open, 1, "entry")
	must(t, Remove(other.Path, true))
	wantEntry(t, open, 1, "entry")
	must(t, open.Close())
	must(t, Remove(kept.Path, false))
	removed := ok(GC(dir))(t)
	if len(removed) != 2 {
		t.Errorf("removed %q", removed)
	}
	if diff := cmp.Diff([]string{".kept.0123456789abcdeX.leat-new", ".leat-cache-LINK", "named", "plain"}, allNames(t, dir)); diff != "" {
		t.Error(diff)
	}
	if _, err := List(filepath.Join(dir, "missing")); err == nil {
		t.Error("a missing directory was listed")
	}
}
