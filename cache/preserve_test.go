//go:build linux

package cache

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

// preserveKinds are the ways by which a file gets its name.
var preserveKinds = map[string]struct {
	refuse  string
	another bool // file system
}{
	"linked": {}, "copied": {another: true}, "hidden name": {refuse: "tempfile.no O_TMPFILE"},
	"copied, hidden": {another: true, refuse: "tempfile.no O_TMPFILE"},
}

// pfio: preserve does not freeze; deep copy deletes the file.
func TestPreserve(t *testing.T) {
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
			must(t, preserve(c, path, false))
			if put(t, c, 999, "late") || put(t, other, 999, "late") {
				t.Error("it was put to")
			}
			wantErr(t, preserve(c, path, false), fs.ErrExist)
			wantErr(t, preserve(other, path, false), fs.ErrExist)
			must(t, preserve(other, path, true))
			must(t, preserve(c, path, true)) // onto itself
			must(t, preserve(c, path+"2", false))
			must(t, os.WriteFile(path+"3", []byte("old"), 0o644))
			must(t, preserve(c, path+"3", true))
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
				if rep := check(t, c); !rep.OK() || !rep.Preserved || rep.FilledSlots != 49 {
					t.Errorf("%+v", rep)
				}
				a := attachTo(t, c, nil) // by the handle of one who loaded it
				wantEntry(t, a, 0, string(content(0)))
				if put(t, a, 999, "late") {
					t.Error("it was put to")
				}
				must(t, preserve(c, p+"b", false)) // a second name
				must(t, c.Close())
			}
		})
	}
}

func TestPreserveBadName(t *testing.T) {
	c := create(t, 10, nil)
	dir := t.TempDir()
	for name, text := range map[string]string{"": "empty file name", dir: "directory", dir + "/": "names a directory",
		dir + "/missing/x": "no such file", "/proc/self/x": "/proc/self"} {
		if err := preserve(c, name, true); err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("%q: %v", name, err)
		}
	}
	// Nothing was lost by it.
	must(t, preserve(c, dir+"/x", false))
}

func TestPreserveNamedCache(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "named")
	c := ok(Open(path, 10, nil))(t)
	put(t, c, 1, "entry")
	must(t, preserve(c, path, true))
	must(t, preserve(c, path+"2", false))
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

func TestPreserveUnlinkedFile(t *testing.T) {
	dir := t.TempDir()
	c := ok(Open(filepath.Join(dir, "named"), 10, nil))(t)
	put(t, c, 1, "entry")
	must(t, os.Remove(filepath.Join(dir, "named")))
	must(t, preserve(c, filepath.Join(dir, "kept"), false))
	must(t, c.Close())
	c = ok(Load(filepath.Join(dir, "kept"), nil))(t)
	wantEntry(t, c, 1, "entry")
	must(t, c.Close())
}

func TestFailedPreserve(t *testing.T) {
	dir := t.TempDir()
	c := create(t, 10, nil)
	put(t, c, 1, "entry")
	failAt(t, "cache.write", errNoSpace)
	for _, overwrite := range []bool{false, true} {
		if err := preserve(c, filepath.Join(dir, "kept"), overwrite); !errors.Is(err, unix.ENOSPC) {
			t.Errorf("%v", err)
		}
	}
	if names := allNames(t, dir); len(names) > 0 {
		t.Errorf("left: %q", names)
	}
	faults(t, func(string) error { return nil })
	must(t, preserve(c, filepath.Join(dir, "kept"), false))
}

// leftName is a name as that of a nameless cache.
func leftName(k int) string { return fmt.Sprintf("%s%032x", namelessPrefix, k) }

func TestListInspectGCRemove(t *testing.T) {
	dir := t.TempDir()
	c := ok(Open(filepath.Join(dir, "named"), 10, &Options{MaxBytes: 1 << 20}))(t)
	put(t, c, 1, "entry")
	must(t, preserve(c, filepath.Join(dir, "kept"), false))
	open := ok(Open(filepath.Join(dir, "other"), 20, nil))(t)
	must(t, os.WriteFile(filepath.Join(dir, "plain"), []byte("text"), 0o600))
	must(t, os.WriteFile(filepath.Join(dir, leftName(1)), nil, 0o600))
	must(t, os.WriteFile(filepath.Join(dir, ".kept.0123456789abcdef.leat-new"), nil, 0o600))
	must(t, os.WriteFile(filepath.Join(dir, ".kept.0123456789abcdeX.leat-new"), nil, 0o600))
	must(t, os.Symlink("plain", filepath.Join(dir, leftName(2))))
	must(t, c.Close())
	infos := ok(List(dir))(t)
	if len(infos) != 3 {
		t.Fatalf("%+v", infos)
	}
	kept, named, other := infos[0], infos[1], infos[2]
	if !kept.Preserved || !named.Frozen || kept.Held || !other.Held || other.Frozen || named.Entries != 1 ||
		kept.Slots != 10 || named.MaxBytes != 1<<20 ||
		other.Slots != 20 || kept.Path != filepath.Join(dir,
		"kept") || kept.UUID != named.UUID || kept.DiskBytes == 0 || kept.Modified.IsZero() || kept.Leftover {
		t.Errorf("%+v", infos)
	}
	if info := ok(Inspect(other.Path))(t); info != other {
		t.Errorf("%+v, not %+v", info, other)
	}
	_, err := Inspect(filepath.Join(dir, "plain"))
	wantErr(t, err, ErrFormat)
	_, err = Inspect(filepath.Join(dir, "none"))
	wantErr(t, err, fs.ErrNotExist)
	if err := Remove(other.Path, false); err == nil || !strings.Contains(err.Error(), "open in a process") {
		t.Errorf("%v", err)
	}
	wantErr(t, Remove(filepath.Join(dir, "plain"), true), ErrFormat)
	put(t, open, 1, "entry")
	must(t, Remove(other.Path, true))
	wantEntry(t, open, 1, "entry")
	must(t, open.Close())
	must(t, Remove(kept.Path, false))
	removed := ok(GC(dir, false))(t)
	if len(removed) != 2 {
		t.Errorf("removed %q", removed)
	}
	if diff := cmp.Diff([]string{".kept.0123456789abcdeX.leat-new", leftName(2), "named", "plain"},
		allNames(t, dir)); diff != "" {
		t.Error(diff)
	}
	if _, err := List(filepath.Join(dir, "missing")); err == nil {
		t.Error("a missing directory was listed")
	}
}

func TestBadNameDoesNotFreeze(t *testing.T) {
	c := create(t, 10, nil)
	dir := t.TempDir()
	must(t, os.WriteFile(filepath.Join(dir, "taken"), nil, 0o600))
	for name, text := range map[string]string{
		"/proc/x": "/proc", dir: "directory", filepath.Join(dir, "taken"): "exists",
		filepath.Join(dir, "missing", "x"):           "no such file",
		filepath.Join(dir, strings.Repeat("x", 300)): "too long", filepath.Join(dir, leftName(1)): "reserved",
		filepath.Join(dir, ".x.0123456789abcdef.leat-new"): "reserved",
	} {
		if err := preserve(c, name, false); err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("%.40s: %v", name, err)
		}
		if _, err := c.ExportPFIO(t.Context(), name, false); err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("%.40s: %v", name, err)
		}
	}
	if stats(t, c).Frozen {
		t.Error("it is frozen")
	}
	failAt(t, "tempfile.no O_TMPFILE", errTest) // what is made to try goes
	must(t, ignore(c.ExportPFIO(t.Context(), filepath.Join(dir, "x"), false)))
	if diff := cmp.Diff([]string{"taken", "x"}, allNames(t, dir)); diff != "" {
		t.Error(diff)
	}
}

func TestGC(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	_, err := Open(at(leftName(1)), 10, nil)
	if err == nil || !strings.Contains(err.Error(), "reserved") {
		t.Errorf("%v", err)
	}
	for _, name := range []string{"named", ".leat-cache-train"} {
		c := ok(Open(at(name), 10, nil))(t)
		must(t, preserve(c, at(name+"-kept"), false))
		must(t, c.Close())
	}
	nameless := create(t, 10, nil)
	must(t, preserve(nameless, at("nameless"), false))
	write := func(name string, b []byte) { must(t, os.WriteFile(at(name), b, 0o600)) }
	write(".leat-cache-notes.txt", []byte("dear"))
	write(leftName(1), []byte("dear, with a name that looks so"))
	write(leftName(2), ok(os.ReadFile(at("named")))(t))
	stay := allNames(t, dir)
	write(leftName(3), nil)
	write(leftName(4), make([]byte, 10_000))
	write(leftName(5), ok(os.ReadFile(at("nameless")))(t)) // sealed, and never named
	all := allNames(t, dir)
	would := ok(GC(dir, true))(t)
	if diff := cmp.Diff(all, allNames(t, dir)); diff != "" {
		t.Error(diff)
	}
	if removed := ok(GC(dir, false))(t); len(removed) != 3 || !slices.Equal(removed, would) {
		t.Errorf("removed %q, not %q", removed, would)
	}
	if diff := cmp.Diff(stay, allNames(t, dir)); diff != "" {
		t.Error(diff)
	}
	if would := ok(GC(dir, true))(t); len(would) != 0 {
		t.Errorf("left: %q", would)
	}
	failAt(t, "tempfile.no O_TMPFILE", errTest)
	must(t, ok(Create(1, &Options{Dir: dir}))(t).Close())
	if diff := cmp.Diff(stay, allNames(t, dir)); diff != "" {
		t.Error(diff)
	}
}

func TestExportIsFlushedBeforeLink(t *testing.T) {
	c := create(t, 10, nil)
	put(t, c, 1, "entry")
	dir := t.TempDir()
	failAt(t, "cache.flush copy", unix.EIO)
	for _, overwrite := range []bool{false, true} {
		_, err := c.ExportPFIO(t.Context(), filepath.Join(dir, "x"), overwrite)
		wantErr(t, err, unix.EIO)
	}
	if names := allNames(t, dir); len(names) > 0 {
		t.Errorf("%q", names)
	}
}

func TestDirectoryFlushError(t *testing.T) {
	c := create(t, 10, nil)
	put(t, c, 1, "entry")
	dir := t.TempDir()
	calls := map[string]func() error{
		"export":   func() error { return ignore(c.ExportPFIO(t.Context(), filepath.Join(dir, "x"), true)) },
		"preserve": func() error { return preserve(c, filepath.Join(dir, "kept"), true) },
	}
	for name, call := range calls {
		failAt(t, "cache.flush names", unix.EIO)
		if err := call(); !errors.Is(err, unix.EIO) || !strings.Contains(err.Error(), dir) {
			t.Errorf("%s: %v", name, err)
		}
		faults(t, func(string) error { return nil })
		if err := call(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestExportOmitsDamagedEntries(t *testing.T) {
	c := create(t, 10, nil)
	put(t, c, 1, string(make([]byte, 4<<20)))
	put(t, c, 2, "entry")
	damage(t, c, slotOf(t, c, 1)+recordHead)
	c.verified.remove(1)
	path := filepath.Join(inMemory(t), "x")
	if n := ok(c.ExportPFIO(t.Context(), path, false))(t); n != 1 {
		t.Errorf("%d entries", n)
	}
	var st unix.Stat_t
	must(t, unix.Stat(path, &st))
	if st.Size != 10*pfioSlot+5 || st.Blocks*512 > 1<<20 {
		t.Errorf("%d bytes, %d on the disk", st.Size, st.Blocks*512)
	}
}

func TestExportWithoutSpace(t *testing.T) {
	c := create(t, 10, nil)
	put(t, c, 1, "entry")
	dir := t.TempDir()
	written := false
	for _, err := range []error{unix.ENOSPC, errors.ErrUnsupported} {
		faults(t, func(point string) error {
			switch point {
			case "cache.space":
				return err
			case "cache.write":
				written = true
			}
			return nil
		})
		_, got := c.ExportPFIO(t.Context(), filepath.Join(dir, "x"), false)
		if errors.Is(err, unix.ENOSPC) {
			if !errors.Is(got, err) || written || !strings.Contains(got.Error(), "165 bytes, 160 of them the index") {
				t.Errorf("%v, written %v", got, written)
			}
		} else if got != nil || !written {
			t.Errorf("%v, written %v", got, written)
		}
	}
}

func TestExportOntoItself(t *testing.T) {
	path := filepath.Join(t.TempDir(), "named")
	c := ok(Open(path, 10, nil))(t)
	put(t, c, 1, "entry")
	if _, err := c.ExportPFIO(t.Context(), path, true); err == nil || !strings.Contains(err.Error(),
		"the cache itself") {
		t.Errorf("%v", err)
	}
	must(t, c.Close())
	c = ok(Open(path, 10, nil))(t)
	wantEntry(t, c, 1, "entry")
	must(t, c.Close())
}

func TestRemoveReplacedFile(t *testing.T) {
	dir := t.TempDir()
	a, b := filepath.Join(dir, "a"), filepath.Join(dir, "b")
	must(t, ok(Open(a, 10, nil))(t).Close())
	must(t, ok(Open(b, 20, nil))(t).Close())
	faults(t, func(point string) error {
		if point == "cache.removing" {
			return os.Rename(b, a)
		}
		return nil
	})
	for _, force := range []bool{false, true} {
		if err := Remove(a, force); err == nil || !strings.Contains(err.Error(), "replaced") {
			t.Errorf("%v", err)
		}
		if info := ok(Inspect(a))(t); info.Slots != 20 {
			t.Errorf("%+v", info)
		}
		must(t, ok(Open(b, 20, nil))(t).Close())
	}
	// Who opens it at that moment waits, and makes another one.
	opened := make(chan *Cache, 1)
	faults(t, func(point string) error {
		if point == "cache.removing" {
			go func() {
				c, err := Open(b, 30, nil)
				if err != nil {
					t.Error(err)
				}
				opened <- c
			}()
			time.Sleep(20 * time.Millisecond)
		}
		return nil
	})
	must(t, Remove(b, false))
	must(t, (<-opened).Close())
	if info := ok(Inspect(b))(t); info.Slots != 30 {
		t.Errorf("%+v", info)
	}
}

func TestLoadSymbolicLink(t *testing.T) {
	dir := t.TempDir()
	c := create(t, 10, nil)
	must(t, preserve(c, filepath.Join(dir, "v1"), false))
	link := filepath.Join(dir, "now")
	must(t, os.Symlink("v1", link))
	if info := ok(Inspect(link))(t); !info.Preserved || info.UUID == "" || info.Path != link {
		t.Errorf("%+v", info)
	}
	must(t, ok(Load(link, nil))(t).Close())
	if infos := ok(List(dir))(t); len(infos) != 1 {
		t.Errorf("%+v", infos)
	}
	wantErr(t, Remove(link, true), ErrForeign)
}
