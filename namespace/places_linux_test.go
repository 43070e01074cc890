package namespace

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func mustPlace(t testing.TB, open func(string) (*place, error), path string) *place {
	t.Helper()
	p, err := open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return p
}

// inside reports whether p is q or lies in it.
func (p *place) inside(q *place) bool { return p.ID == q.ID || slices.Contains(p.Ancestors, q.ID) }

func mkdirs(t testing.TB, base string, names ...string) string {
	t.Helper()
	path := filepath.Join(append([]string{base}, names...)...)
	if err := os.MkdirAll(path, 0o777); err != nil {
		t.Fatal(err)
	}
	return path
}

func symlink(t testing.TB, to, at string) {
	t.Helper()
	if err := os.Symlink(to, at); err != nil {
		t.Fatal(err)
	}
}

// mount mounts until the test's end, or skips it.
func mount(t testing.TB, source, target, kind string, flags uintptr) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("only root may mount")
	}
	if err := unix.Mount(source, target, kind, flags, ""); err != nil {
		t.Skipf("mounting is not possible here: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(target, 0); err != nil {
			unix.Unmount(target, unix.MNT_DETACH)
			t.Errorf("%s: %v", target, err)
		}
	})
}

func bind(t testing.TB, source, target string) {
	t.Helper()
	mount(t, source, target, "", unix.MS_BIND)
}

// related opens two directories and checks how they lie; places are closed before mounts go.
func related(t *testing.T, a, b string, want bool) {
	t.Helper()
	pa, err := makePlace(a)
	if err != nil {
		t.Fatal(err)
	}
	defer pa.Close()
	pb, err := makePlace(b)
	if err != nil {
		t.Fatal(err)
	}
	defer pb.Close()
	if got := pa.inside(pb); got != want {
		t.Errorf("%s inside %s: %v, not %v", a, b, got, want)
	}
	for _, p := range []*place{pa, pb} {
		if slices.Contains(p.Ancestors, p.ID) {
			t.Errorf("%s is its own ancestor", p.Path)
		}
		seen := map[dirID]bool{}
		for _, id := range p.Ancestors {
			if seen[id] {
				t.Errorf("%s has an ancestor twice", p.Path)
			}
			seen[id] = true
		}
	}
}

func TestPathsOfSameDirectory(t *testing.T) {
	base := t.TempDir()
	data := mkdirs(t, base, "data", "train")
	symlink(t, filepath.Join(base, "data"), filepath.Join(base, "link"))
	t.Chdir(base)
	want := mustPlace(t, makePlace, data)
	if want.Path != data || want.ID.Ino == 0 {
		t.Errorf("%+v", want)
	}
	for path, shown := range map[string]string{
		data + "/":                   data,
		data + "//.":                 data,
		base + "/data/../data/train": data,
		base + "/link/train":         base + "/link/train",
		base + "/link/../data/train": data,
		"data/train":                 data,
		"./link/train/../train/":     base + "/link/train",
	} {
		p := mustPlace(t, makePlace, path)
		if p.ID != want.ID || !slices.Equal(p.Ancestors, want.Ancestors) {
			t.Errorf("%s: %+v, not %+v", path, p, want)
		}
		if p.Path != shown {
			t.Errorf("%s is shown as %s, not %s", path, p.Path, shown)
		}
	}
}

func TestDotDotAfterSymbolicLink(t *testing.T) {
	base := t.TempDir()
	mkdirs(t, base, "a", "b")
	symlink(t, filepath.Join(base, "a", "b"), filepath.Join(base, "link"))
	p := mustPlace(t, makePlace, base+"/link/../new")
	want := mustPlace(t, makePlace, filepath.Join(base, "a", "new"))
	if p.ID != want.ID || p.Path != want.Path {
		t.Errorf("%+v, not %+v", p, want)
	}
	if _, err := os.Stat(filepath.Join(base, "new")); err == nil {
		t.Error("the directory that the text alone would say was made")
	}
}

func TestAncestorsNearestFirst(t *testing.T) {
	path := mkdirs(t, t.TempDir(), "größe", "with space", `back\slash\040`, "new\nline")
	p := mustPlace(t, makePlace, path)
	var want []dirID
	for dir := path; dir != "/"; {
		dir = filepath.Dir(dir)
		var st unix.Stat_t
		if err := unix.Stat(dir, &st); err != nil {
			t.Fatal(err)
		}
		want = append(want, dirID{uint64(st.Dev), st.Ino})
	}
	if len(p.Ancestors) < len(want) || !slices.Equal(p.Ancestors[:len(want)], want) {
		t.Errorf("%v, not %v", p.Ancestors, want)
	}
	if root := mustPlace(t, makePlace, "/"); slices.Contains(root.Ancestors, root.ID) {
		t.Error("/ lies in itself")
	}
}

func TestMissingDirectories(t *testing.T) {
	mask := unix.Umask(0o027)
	defer unix.Umask(mask)
	path := filepath.Join(t.TempDir(), "a", "b")
	p := mustPlace(t, makePlace, path)
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o750 {
		t.Fatalf("%v %v", info, err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	for range 20 { // an inode number that is free is given again soon
		q := mustPlace(t, makePlace, path)
		if q.ID == p.ID {
			t.Fatal("another directory got the number of one that is still held")
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	if err := p.Close(); err != nil {
		t.Errorf("a second Close: %v", err)
	}
}

func TestBindMounts(t *testing.T) {
	base := t.TempDir()
	src, dst := mkdirs(t, base, "src", "deep", "er"), mkdirs(t, base, "dst place")
	bind(t, src, dst)
	related(t, dst, src, true)
	related(t, src, dst, true)
	related(t, dst, filepath.Join(base, "src"), true) // what is above the source, beyond the mount
	related(t, filepath.Join(dst, "sub"), filepath.Join(base, "src", "deep"), true)
	related(t, dst, filepath.Join(base, "src", "other"), false)
	related(t, filepath.Join(base, "src"), dst, false)
	related(t, filepath.Join(src, "sub"), dst, true)
	related(t, dst, base, true)
}

func TestBindMountOfBindMount(t *testing.T) {
	base := t.TempDir()
	src, one, two := mkdirs(t, base, "src", "a", "b"), mkdirs(t, base, "one"), mkdirs(t, base, "two")
	bind(t, filepath.Join(base, "src", "a"), one)
	bind(t, filepath.Join(one, "b"), two)
	related(t, filepath.Join(two, "x"), one, true)
	related(t, filepath.Join(two, "x"), src, true)
	related(t, two, filepath.Join(base, "src"), true)
}

func TestBindMountIntoItself(t *testing.T) {
	base := t.TempDir()
	a := mkdirs(t, base, "a")
	c := mkdirs(t, a, "b", "c")
	bind(t, a, c)
	related(t, c, a, true)
	related(t, a, filepath.Join(a, "b"), false)
	related(t, c, filepath.Join(a, "b"), true) // by path it does lie there
	related(t, filepath.Join(c, "x"), a, true)
}

func TestBindMountOfCoveredSource(t *testing.T) {
	base := t.TempDir()
	src, dst := mkdirs(t, base, "src", "a", "b"), mkdirs(t, base, "dst")
	bind(t, src, dst)
	mount(t, "none", filepath.Join(base, "src", "a"), "tmpfs", 0)
	related(t, dst, filepath.Join(base, "src"), true)
	related(t, dst, filepath.Join(base, "src", "a"), false) // the tmpfs
}

func TestMountInDirectory(t *testing.T) {
	base := t.TempDir()
	at := mkdirs(t, base, "a", "disk with space")
	mount(t, "none", at, "tmpfs", 0)
	related(t, filepath.Join(at, "x"), filepath.Join(base, "a"), true)
	related(t, filepath.Join(at, "x"), at, true)
	other := mkdirs(t, base, "other")
	bind(t, mkdirs(t, at, "x", "y"), other) // a part of it
	related(t, other, filepath.Join(at, "x"), true)
	related(t, filepath.Join(other, "z"), at, true)
	related(t, other, filepath.Join(at, "w"), false)
	// Through a mount point that is covered the file system is not to be seen; then as much is
	// found as another one shows.
	second := mkdirs(t, base, "second")
	bind(t, filepath.Join(at, "x"), second)
	mount(t, "none", at, "tmpfs", 0)
	mkdirs(t, at, "x", "y")
	related(t, other, second, true)
	related(t, other, at, false)
	related(t, other, filepath.Join(at, "x"), false) // a directory of the tmpfs on top
}

func TestFilePlace(t *testing.T) {
	base := t.TempDir()
	mkdirs(t, base, "out", "deep")
	symlink(t, filepath.Join("out", "deep", "real.tif"), filepath.Join(base, "link.tif"))
	symlink(t, "out", filepath.Join(base, "dir"))
	t.Chdir(base)
	want := mustPlace(t, openFilePlace, base+"/out/deep/real.tif")
	if want.Path != base+"/out/deep/real.tif" || want.ID.Ino>>63 != 1 {
		t.Errorf("%+v", want)
	}
	if err := os.WriteFile("out/deep/real.tif", nil, 0o666); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"out/deep/real.tif", "link.tif", "dir/deep/../deep/real.tif",
		base + "//dir/deep/real.tif", "dir/../out/deep/real.tif"} {
		p := mustPlace(t, openFilePlace, path)
		if p.ID != want.ID || !slices.Equal(p.Ancestors, want.Ancestors) {
			t.Errorf("%s: %+v, not %+v", path, p, want)
		}
		if a, b := mustStat(t, p.Path), mustStat(t, want.Path); a != b {
			t.Errorf("%s is shown as %s, which is another", path, p.Path)
		}
	}
	deep := mustPlace(t, makePlace, "out/deep")
	if !slices.Equal(want.Ancestors, append([]dirID{deep.ID}, deep.Ancestors...)) {
		t.Errorf("%v do not begin with the directory, %v", want.Ancestors, deep)
	}
	for _, path := range []string{"out/deep/real.tif2", "out/real.tif"} {
		if p := mustPlace(t, openFilePlace, path); p.ID == want.ID {
			t.Errorf("%s has the same ID", path)
		}
	}
	if hidden := mustPlace(t, openFilePlace, "out/deep/.."+"x"); hidden.ID == want.ID {
		t.Error("..x")
	}
}

func mustStat(t *testing.T, path string) dirID {
	t.Helper()
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		t.Fatal(err)
	}
	return dirID{uint64(st.Dev), st.Ino}
}

func TestNotDirectory(t *testing.T) {
	base := t.TempDir()
	if err := os.WriteFile(filepath.Join(base, "file"), nil, 0o666); err != nil {
		t.Fatal(err)
	}
	symlink(t, "nowhere", filepath.Join(base, "dangling"))
	symlink(t, "loop", filepath.Join(base, "loop"))
	symlink(t, "file", filepath.Join(base, "tofile"))
	anyError := error(nil)
	for path, want := range map[string]error{
		"":                                    anyError,
		base + "/file":                        unix.ENOTDIR,
		base + "/tofile":                      unix.ENOTDIR,
		base + "/file/x/y":                    unix.ENOTDIR,
		base + "/dangling":                    unix.EEXIST,
		base + "/dangling/x":                  unix.EEXIST,
		base + "/loop":                        unix.ELOOP,
		base + "/" + strings.Repeat("n", 256): unix.ENAMETOOLONG,
		base + strings.Repeat("/deep", 1000):  unix.ENAMETOOLONG,
		base + "/nul\x00":                     unix.EINVAL,
		"/proc/none":                          anyError,
	} {
		p, err := makePlace(path)
		if err == nil || want != nil && !errors.Is(err, want) || !strings.Contains(err.Error(), path) {
			t.Errorf("%q: %+v %v, expected %v", path, p, err, want)
		}
	}
	for path, want := range map[string]error{
		"":                                    anyError,
		base:                                  anyError,
		base + "/x/":                          anyError,
		base + "/.":                           anyError,
		base + "/none/x.tif":                  unix.ENOENT,
		base + "/file/x.tif":                  unix.ENOTDIR,
		base + "/loop":                        unix.ELOOP,
		base + "/" + strings.Repeat("n", 256): unix.ENAMETOOLONG,
	} {
		p, err := openFilePlace(path)
		if err == nil || want != nil && !errors.Is(err, want) || !strings.Contains(err.Error(), filepath.Dir(path)) && path != "" {
			t.Errorf("%q: %+v %v, expected %v", path, p, err, want)
		}
	}
	entries, err := os.ReadDir(base)
	if err != nil || len(entries) != 4 {
		t.Errorf("something was made: %v %v", entries, err)
	}
}

func TestDeletedWorkingDirectory(t *testing.T) {
	gone := mkdirs(t, t.TempDir(), "gone")
	t.Chdir(gone)
	if err := os.Remove(gone); err != nil {
		t.Fatal(err)
	}
	for _, open := range []func(string) (*place, error){makePlace, openFilePlace} {
		if p, err := open("sub"); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "working directory") {
			t.Errorf("%+v %v", p, err)
		}
	}
}

func TestMissingPermissions(t *testing.T) {
	base := t.TempDir()
	locked := mkdirs(t, base, "locked")
	for _, dir := range []string{filepath.Dir(base), base} {
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(locked, 0); err != nil {
		t.Fatal(err)
	}
	defer os.Chmod(locked, 0o755)
	asNobody(t, func() {
		mustPlace(t, makePlace, base) // what lies around them may be entered
		for _, path := range []string{locked, locked + "/x", base + "/new"} {
			if p, err := makePlace(path); err == nil || !errors.Is(err, fs.ErrPermission) {
				t.Errorf("%s: %+v %v", path, p, err)
			}
		}
		if p, err := openFilePlace(locked + "/x"); err == nil || !errors.Is(err, fs.ErrPermission) {
			t.Errorf("%+v %v", p, err)
		}
	})
}

func TestDeepDirectories(t *testing.T) {
	path := t.TempDir() + strings.Repeat("/d", 1000)
	p := mustPlace(t, makePlace, path)
	if len(p.Ancestors) < strings.Count(path, "/") {
		t.Errorf("%d ancestors of a path of %d parts", len(p.Ancestors), strings.Count(path, "/"))
	}
}

func TestMountNumbersWithoutStatx(t *testing.T) {
	for _, path := range []string{"/", "/proc", t.TempDir()} {
		p := mustPlace(t, makePlace, path)
		_, mnt, err := identify(p.fd)
		if err != nil {
			t.Fatal(err)
		}
		if slow := mountOf(p.fd); slow != mnt || mnt == 0 {
			t.Errorf("%s: %d and %d", path, slow, mnt)
		}
	}
}

func TestAncestorsOnRandomTrees(t *testing.T) {
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 1))
		base := t.TempDir()
		paths := []string{base}
		for i := range 30 {
			parent := paths[r.IntN(len(paths))]
			path := filepath.Join(parent, fmt.Sprint("n", i))
			if r.IntN(3) == 0 {
				symlink(t, paths[r.IntN(len(paths))], path)
			} else {
				mkdirs(t, path)
			}
			if len(path) < 1000 {
				paths = append(paths, path)
			}
		}
		real := make([]string, len(paths))
		places := make([]*place, len(paths))
		for i, p := range paths {
			var err error
			if real[i], err = filepath.EvalSymlinks(p); err != nil {
				t.Fatal(err)
			}
			if r.IntN(2) == 0 {
				p += "/n0/../.././" + filepath.Base(p) // goes through whatever n0 is, if it is there
				if st, err := os.Stat(p); err != nil || !sameFile(t, st, paths[i]) {
					p = paths[i] + "/"
				}
			}
			places[i] = mustPlace(t, makePlace, p)
		}
		for i := range places {
			for j := range places {
				want := real[i] == real[j] || strings.HasPrefix(real[i], real[j]+"/")
				if got := places[i].inside(places[j]); got != want {
					t.Fatalf("seed %d: %s inside %s: %v, not %v", seed, paths[i], paths[j], got, want)
				}
			}
		}
	}
}

func sameFile(t *testing.T, st os.FileInfo, path string) bool {
	other, err := os.Stat(path)
	return err == nil && os.SameFile(st, other)
}

func BenchmarkOpenPlace(b *testing.B) {
	path := mkdirs(b, b.TempDir(), "c", "d", "e")
	p := mustPlace(b, makePlace, path)
	b.Run(fmt.Sprintf("depth=%d", strings.Count(p.Path, "/")), func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			p, err := makePlace(path)
			if err != nil {
				b.Fatal(err)
			}
			p.Close()
		}
	})
}

func TestShowsAll(t *testing.T) {
	base := t.TempDir()
	part, whole, long := mkdirs(t, base, "part"), mkdirs(t, base, "whole"), mkdirs(t, base, "long")
	bind(t, mkdirs(t, base, "a"), part)
	bind(t, mkdirs(t, base, strings.Repeat("long", 60)), long)
	mount(t, "none", whole, "tmpfs", 0)
	text, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	known := 0
	for _, m := range parseMountinfo(string(text)) {
		fd, err := openDir(unix.AT_FDCWD, m.point)
		if err != nil {
			continue // a file
		}
		_, mnt, err := identify(fd)
		if showsAll(fd) {
			known++
			if err == nil && mnt == m.id && m.root != "/" {
				t.Errorf("%s shows %s only", m.point, m.root)
			}
		}
		unix.Close(fd)
	}
	if known == 0 {
		t.Log("this kernel does not tell")
	}
}

func TestBindMountOfCoveredDirectory(t *testing.T) {
	base := t.TempDir()
	disk, dst := mkdirs(t, base, "disk"), mkdirs(t, base, "dst")
	mount(t, "none", disk, "tmpfs", 0)
	src := mkdirs(t, disk, "a")
	bind(t, src, dst)
	mount(t, "none", src, "tmpfs", 0)
	related(t, dst, disk, true)
	related(t, dst, src, false)
}

func TestSamePathInOtherFileSystem(t *testing.T) {
	base := t.TempDir()
	other, disk, dst := mkdirs(t, base, "other"), mkdirs(t, base, "disk"), mkdirs(t, base, "dst")
	mount(t, "none", other, "tmpfs", 0)
	mount(t, "none", mkdirs(t, other, "a", "b"), "tmpfs", 0) // covered, so that its inode is hidden
	mount(t, "none", disk, "tmpfs", 0)
	bind(t, mkdirs(t, disk, "a", "b"), dst)
	related(t, dst, filepath.Join(other, "a"), false)
	related(t, dst, filepath.Join(disk, "a"), true)
}

func TestReplacedDirectory(t *testing.T) {
	base := t.TempDir()
	mount(t, "none", base, "tmpfs", 0)
	p := mustPlaceUntilClosed(t, mkdirs(t, base, "a"))
	_, mnt, err := identify(p.fd)
	if err != nil {
		t.Fatal(err)
	}
	p.Close()
	m := mountLine{id: mnt, root: "/", point: base}
	if fd, id := m.open("a", p.ID); fd < 0 || id != p.ID {
		t.Errorf("the directory itself: %d %v", fd, id)
	} else {
		unix.Close(fd)
	}
	if fd, id := m.open("a", dirID{p.ID.Dev, p.ID.Ino + 1}); fd >= 0 {
		unix.Close(fd)
		t.Errorf("another directory: %v", id)
	}
}

// mustPlaceUntilClosed is mustPlace for a mount that the test's end unmounts.
func mustPlaceUntilClosed(t *testing.T, path string) *place {
	t.Helper()
	p, err := makePlace(path)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func makePlace(path string) (*place, error) { return openPlace(path, true) }
