//go:build unix

package lockfile

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"leat/internal/fault"
	"leat/internal/fdio"
	"leat/internal/proctest"
)

func TestRootPathUsesVariableOrUser(t *testing.T) {
	t.Setenv("XDG_RUNTIME_DIR", "/run/user/1")
	t.Setenv("LEAT_RUNTIME_DIR", "")
	want := "/tmp/leat-" + strconv.Itoa(os.Geteuid())
	if unix.Access("/dev/shm", unix.W_OK|unix.X_OK) == nil {
		want = "/dev/shm/leat-" + strconv.Itoa(os.Geteuid())
	}
	if got := RootPath(); got != want {
		t.Errorf("%s, not %s", got, want)
	}
	t.Setenv("LEAT_RUNTIME_DIR", "/some/where")
	if got := RootPath(); got != "/some/where" {
		t.Errorf("%s", got)
	}
}

func TestOpenRootCreatesPrivateDirectory(t *testing.T) {
	for _, umask := range []int{0, 0o022, 0o277, 0o777} {
		path := filepath.Join(fastTemp(t), "leat")
		old := unix.Umask(umask)
		d, err := OpenRoot(path, "LEAT_RUNTIME_DIR")
		unix.Umask(old)
		must(t, err)
		fi := ok(os.Stat(path))(t)
		if fi.Mode() != fs.ModeDir|0o700 {
			t.Errorf("umask %04o: mode %v", umask, fi.Mode())
		}
		if d.Path() != path || d.FilePath("x") != filepath.Join(path, "x") {
			t.Errorf("the paths are %s and %s", d.Path(), d.FilePath("x"))
		}
		var st, st2 unix.Stat_t
		must(t, unix.Fstat(d.Fd(), &st))
		must(t, unix.Stat(path, &st2))
		if idOf(&st) != idOf(&st2) {
			t.Error("Fd is another directory's")
		}
		must(t, d.Close())
		// The second time it is there.
		must(t, ok(OpenRoot(path+"/", "LEAT_RUNTIME_DIR"))(t).Close())
	}
}

// underUmask works in a directory as a user without root's rights, whose umask takes all of them
// away.
func underUmask(args []string) error {
	if err := os.Chdir(args[0]); err != nil {
		return err
	}
	if err := unix.Setuid(12345); err != nil {
		return err
	}
	unix.Umask(0o777)
	setWay(args[1], func(string) {})
	for range 2 {
		d, err := OpenRoot("root", "")
		if err != nil {
			return err
		}
		sub, err := d.MakeSub("sub")
		if err != nil {
			return err
		}
		for range 2 {
			h, _, err := sub.LockOrPublish("a", 0o600, text("whole"))
			if err != nil {
				return err
			}
			if _, err := h.RemoveIfLast(nil); err != nil {
				return err
			}
		}
		if names, err := sub.Names(); err != nil || len(names) > 0 {
			return fmt.Errorf("left: %q, %v", names, err)
		}
	}
	return nil
}

func TestUmaskThatRemovesAllRights(t *testing.T) {
	needRoot(t)
	for _, way := range ways {
		dir := fastTemp(t)
		must(t, os.Chown(dir, 12345, 12345))
		awaitEnd(t, proctest.New("umask", dir, way).Start(t))
	}
}

func TestOpenRootRefusesForeignDirectories(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	for _, test := range []struct {
		name, want string
		make       func(path string) error
	}{
		{"readable by others", "mode 0755",
			func(p string) error { return os.Mkdir(p, 0o755) }},
		{"writable by the group", "mode 0720", func(p string) error {
			if err := os.Mkdir(p, 0o700); err != nil {
				return err
			}
			return os.Chmod(p, 0o720)
		}},
		{"sticky", "mode 1777", func(p string) error {
			if err := os.Mkdir(p, 0o700); err != nil {
				return err
			}
			return os.Chmod(p, 0o777|fs.ModeSticky)
		}},
		{"a file", "link or a file", func(p string) error { return os.WriteFile(p, nil, 0o600) }},
		{"a link to a good directory", "link or a file", func(p string) error {
			if err := os.Mkdir(at("good"), 0o700); err != nil {
				return err
			}
			return os.Symlink(at("good"), p)
		}},
		{"a link to nowhere", "link or a file", func(p string) error { return os.Symlink(at("nowhere"), p) }},
		{"a pipe", "link or a file", func(p string) error { return unix.Mkfifo(p, 0o600) }},
		{"another user's", "belongs to user 12345", func(p string) error {
			if err := os.Mkdir(p, 0o700); err != nil {
				return err
			}
			return os.Chown(p, 12345, 12345)
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			if test.name == "another user's" {
				needRoot(t)
			}
			must(t, test.make(at(test.name)))
			before := ok(os.Lstat(at(test.name)))(t).Mode()
			_, err := OpenRoot(at(test.name), "LEAT_RUNTIME_DIR")
			wantErr(t, err, ErrForeign)
			for _, want := range []string{test.want, at(test.name), "LEAT_RUNTIME_DIR"} {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("%q is missing in: %v", want, err)
				}
			}
			// Below a root it is the same.
			d := openAgain(t, at("root"))
			if !exists(filepath.Join(at("root"), test.name)) {
				must(t, os.Rename(at(test.name), filepath.Join(at("root"), test.name)))
			}
			_, err = d.MakeSub(test.name)
			wantErr(t, err, ErrForeign)
			_, err = d.OpenSub(test.name)
			wantErr(t, err, ErrForeign)
			if after := ok(os.Lstat(d.FilePath(test.name)))(t).Mode(); after != before {
				t.Errorf("the mode was changed from %v to %v", before, after)
			}
		})
	}
	if exists(at("nowhere")) {
		t.Error("a link to nowhere was followed")
	}
}

func TestOpenRootNeedsParent(t *testing.T) {
	dir := t.TempDir()
	_, err := OpenRoot(filepath.Join(dir, "none", "leat"), "LEAT_RUNTIME_DIR")
	wantErr(t, err, fs.ErrNotExist)
	if err == nil || !strings.Contains(err.Error(), filepath.Join(dir, "none", "leat")) {
		t.Errorf("no path in: %v", err)
	}
	if exists(filepath.Join(dir, "none")) {
		t.Error("the parent was made")
	}
}

func TestOpenRootLocksAgainstCleaners(t *testing.T) {
	path := filepath.Join(t.TempDir(), "leat") // not in /dev/shm, where there are none
	d := ok(OpenRoot(path, "LEAT_RUNTIME_DIR"))(t)
	fd := ok(unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0))(t)
	defer unix.Close(fd)
	// As systemd-tmpfiles does.
	wantErr(t, fdio.Flock(fd, unix.LOCK_EX|unix.LOCK_NB), unix.EWOULDBLOCK)
	must(t, fdio.Flock(openAgain(t, path).fd, unix.LOCK_SH|unix.LOCK_NB)) // others share it
	must(t, d.Close())
}

func TestRemovedDirectoryIsGone(t *testing.T) {
	bothWays(t, func(t *testing.T) {
		d := openTest(t)
		if d.Gone() {
			t.Fatal("gone from the beginning")
		}
		h := ok(d.Publish("a", 0o600, nil))(t)
		must(t, os.RemoveAll(d.Path()))
		if !d.Gone() {
			t.Fatal("not gone")
		}
		must(t, os.Mkdir(d.Path(), 0o700)) // another one in its place does not count
		if !d.Gone() {
			t.Fatal("not gone, since there is another one")
		}
		_, errPublish := d.Publish("b", 0o600, nil)
		_, _, errJoin := d.LockOrPublish("b", 0o600, nil)
		_, errShare := d.LockShared("b", false)
		_, errSub := d.MakeSub("b")
		for _, err := range []error{errPublish, errJoin, errShare, errSub} {
			wantErr(t, err, fs.ErrNotExist)
		}
		for _, err := range []error{errPublish, errJoin, errShare} {
			if err == nil || !strings.Contains(err.Error(), "the directory was removed") {
				t.Errorf("the error does not name the cause: %v", err)
			}
		}
		if last, err := h.RemoveIfLast(nil); last || err != nil {
			t.Errorf("RemoveIfLast: %v, %v", last, err)
		}
	})
}

func TestMakeSubAndOpenSub(t *testing.T) {
	d := openTest(t)
	_, err := d.OpenSub("sub")
	wantErr(t, err, fs.ErrNotExist)
	sub := ok(d.MakeSub("sub"))(t)
	if mode := ok(os.Stat(d.FilePath("sub")))(t).Mode(); mode != fs.ModeDir|0o700 {
		t.Errorf("mode %v", mode)
	}
	leave(t, sub, "a", "whole")
	for _, open := range []func(string) (*Dir, error){d.MakeSub, d.OpenSub} {
		again := ok(open("sub"))(t)
		if diff := cmp.Diff([]string{"a"}, names(t, again)); diff != "" {
			t.Error(diff)
		}
		if again.Path() != d.FilePath("sub") {
			t.Errorf("its path is %s", again.Path())
		}
		must(t, again.Close())
	}
	must(t, sub.Close())
}

func TestNamesResolveThroughDescriptor(t *testing.T) {
	d := openTest(t)
	must(t, os.Rename(d.Path(), d.Path()+"-moved"))
	must(t, os.Mkdir(d.Path(), 0o755))
	leave(t, d, "a", "whole")
	if !exists(filepath.Join(d.Path()+"-moved", "a")) || exists(d.FilePath("a")) {
		t.Error("the file is not in the directory that was opened")
	}
	if diff := cmp.Diff([]string{"a"}, names(t, d)); diff != "" {
		t.Error(diff)
	}
}

func TestUseAfterCloseIsAnError(t *testing.T) {
	d := ok(OpenRoot(filepath.Join(fastTemp(t), "leat"), "LEAT_RUNTIME_DIR"))(t)
	h := ok(d.Publish("a", 0o600, nil))(t)
	must(t, d.Close())
	must(t, h.Release()) // needs no directory
	// Their numbers would be these files' now.
	r, w, err := os.Pipe()
	must(t, err)
	defer r.Close()
	defer w.Close()
	wantErr(t, d.Close(), unix.EBADF)
	wantErr(t, h.Release(), unix.EBADF)
	_, err = d.LockShared("a", false)
	wantErr(t, err, unix.EBADF)
	if _, err := w.Write([]byte("x")); err != nil {
		t.Errorf("another file was closed: %v", err)
	}
}

func TestSweepSomeVisitsNamesRoundRobin(t *testing.T) {
	d := openTest(t)
	var held []*Lock
	for i := range 30 {
		name := fmt.Sprintf("%02d", i)
		if i%6 == 0 {
			held = append(held, ok(d.Publish(name, 0o600, nil))(t))
		} else {
			leave(t, d, name, "")
		}
	}
	opened, perRound := 0, 0
	fault.Set(func(point string) error {
		if point == "lockfile.opened" {
			opened++
		}
		return nil
	})
	defer fault.Set(nil)
	removed := 0
	for range (30 + 3) / 4 {
		opened = 0
		removed += ok(d.SweepSome(4))(t)
		perRound += opened
		if opened > 4 {
			t.Errorf("%d names were opened, 4 were asked for", opened)
		}
	}
	if removed != 25 || perRound != 30 || len(names(t, d)) != 5 {
		t.Errorf("after one round %d of 30 were looked at, %d of 25 removed, %q are left", perRound, removed,
			names(t, d))
	}
	// In the middle of a round a name comes, and one is let go.
	ok(d.SweepSome(2))(t)
	leave(t, d, "new", "")
	must(t, held[0].Release())
	calls := 0
	for ; len(names(t, d)) > 4; calls++ {
		if calls > 7 { // the rest of this round, and a whole one
			t.Fatalf("still there: %q", names(t, d))
		}
		ok(d.SweepSome(2))(t)
	}
	for _, h := range held[1:] {
		must(t, h.Release())
	}
	for _, n := range []int{0, -1} {
		if removed, err := d.SweepSome(n); removed != 0 || err != nil {
			t.Errorf("SweepSome(%d): %d, %v", n, removed, err)
		}
	}
	if removed := ok(d.SweepSome(1000))(t) + ok(d.SweepSome(1000))(t); removed != 4 || len(names(t, d)) > 0 {
		t.Errorf("%d of 4 removed, %q left", removed, names(t, d))
	}
}

func TestNamesAndRemove(t *testing.T) {
	d := openTest(t)
	h := ok(d.Publish("held", 0o600, nil))(t)
	leave(t, d, "left", "")
	got := names(t, d)
	slices.Sort(got)
	if diff := cmp.Diff([]string{"held", "left"}, got); diff != "" {
		t.Error(diff)
	}
	must(t, d.Remove("held"))
	wantErr(t, d.Remove("held"), fs.ErrNotExist)
	if diff := cmp.Diff([]string{"left"}, names(t, d)); diff != "" {
		t.Error(diff)
	}
	// The name may be another's now: it is not removed by who held the old one.
	leave(t, d, "held", "new")
	if last, err := h.RemoveIfLast(func() error { t.Error("before was called"); return nil }); last || err != nil {
		t.Errorf("RemoveIfLast: %v, %v", last, err)
	}
	if content(t, d, "held") != "new" {
		t.Error("the new file is not there")
	}
}

func TestOpenRootRefusesOtherContent(t *testing.T) {
	path := filepath.Join(fastTemp(t), "own")
	must(t, os.MkdirAll(filepath.Join(path, "jobs"), 0o700))
	must(t, os.WriteFile(filepath.Join(path, "jobs", "todo.txt"), []byte("precious"), 0o600))
	_, err := OpenRoot(path, "LEAT_RUNTIME_DIR")
	wantErr(t, err, ErrForeign)
	if err == nil || !strings.Contains(err.Error(),
		`holds other files, such as "jobs"`) {
		t.Error(err)
	}
	if names := ok(os.ReadDir(path))(t); len(names) != 1 {
		t.Errorf("left %v", names)
	}
	must(t, os.RemoveAll(filepath.Join(path, "jobs")))
	d := ok(OpenRoot(path, "LEAT_RUNTIME_DIR"))(t) // an empty one is
	_ = ok(d.MakeSub("jobs"))(t).Close()
	again := ok(OpenRoot(path, "LEAT_RUNTIME_DIR"))(t) // and stays so
	must(t, again.Close())
	if gone, err := d.Sweep(marker); gone || err != nil {
		t.Errorf("the marker was swept: %v, %v", gone, err)
	}
	must(t, d.Close())
}

func TestMovedDirectoryIsGone(t *testing.T) {
	top := fastTemp(t)
	path := filepath.Join(top, "leat")
	d := ok(OpenRoot(path, "LEAT_RUNTIME_DIR"))(t)
	defer d.Close()
	sub := ok(d.MakeSub("000000"))(t)
	must(t, os.WriteFile(sub.FilePath("old"), nil, 0o600))
	must(t, os.Symlink(top, sub.FilePath("link")))
	must(t, sub.Close())
	must(t, os.Rename(path, path+".old"))
	if !d.Gone() {
		t.Error("not gone")
	}
	next := ok(OpenRoot(path, "LEAT_RUNTIME_DIR"))(t)
	defer next.Close()
	live := ok(next.MakeSub("000000"))(t)
	must(t, os.WriteFile(live.FilePath("live"), nil, 0o600))
	must(t, live.Close())
	must(t, d.RemoveAll("000000"))
	must(t, d.RemoveAll("000000")) // what is not there
	if exists(path+".old/000000") || !exists(path+"/000000/live") || !exists(top) {
		t.Error("something else was removed")
	}
}
