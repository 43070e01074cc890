//go:build unix

package lockfile

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"leat/internal/proctest"
)

// plant creates entries in a directory that are not files of the user, and returns what they are.
func plant(t *testing.T, dir string) map[string]string {
	t.Helper()
	at := func(name string) string { return filepath.Join(dir, name) }
	outside := filepath.Join(filepath.Dir(dir), "outside")
	must(t, os.WriteFile(outside, []byte("precious"), 0o600))
	must(t, unix.Mkfifo(at("fifo"), 0o600))
	l, err := net.Listen("unix", at("socket"))
	must(t, err)
	t.Cleanup(func() { l.Close() })
	must(t, os.Mkdir(at("folder"), 0o700))
	must(t, os.WriteFile(at("folder/inside"), []byte("precious"), 0o600))
	must(t, os.Symlink(outside, at("link")))
	must(t, os.Symlink(outside+"-none", at("dangling link")))
	must(t, os.Symlink("loop", at("loop")))
	if os.Geteuid() == 0 {
		for _, mode := range []fs.FileMode{0o600, 0o666} {
			name := at(fmt.Sprintf("another user's %o", mode))
			must(t, os.WriteFile(name, []byte("precious"), mode))
			must(t, os.Chmod(name, mode))
			must(t, os.Chown(name, 12345, 12345))
		}
	}
	return look(t, dir)
}

// look returns everything of a directory that its use could change.
func look(t *testing.T, dir string) map[string]string {
	t.Helper()
	found := map[string]string{}
	must(t, filepath.WalkDir(filepath.Dir(dir), func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		var st unix.Stat_t
		if err := unix.Lstat(path, &st); err != nil {
			return err
		}
		target, _ := os.Readlink(path)
		var b []byte
		if e.Type().IsRegular() {
			b, _ = os.ReadFile(path)
		}
		if e.Type() != fs.ModeDir {
			found[path] = fmt.Sprintf("%o %d %d %d %q %q", st.Mode, st.Uid, st.Size, st.Ino, target, b)
		}
		return nil
	}))
	return found
}

// tryAll uses a name in all ways, and checks that none of them takes it for a file of ours.
func tryAll(d *Dir, name string) error {
	fill := func(int) error { return errors.New("filled") }
	_, errRead := d.LockShared(name, false)
	_, errWrite := d.LockShared(name, true)
	_, errOwn := d.LockExclusive(name)
	_, _, errJoin := d.LockOrPublish(name, 0o600, fill)
	_, errRanges := d.OpenRanges(name)
	for i, err := range []error{errRead, errWrite, errOwn, errJoin, errRanges} {
		if !errors.Is(err, ErrForeign) {
			return fmt.Errorf("%s, try %d: %w, not ErrForeign", name, i, err)
		}
	}
	if _, err := d.Publish(name, 0o600, text("")); !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%s: Publish: %w, not ErrExist", name, err)
	}
	removed, err := d.SweepWith(name, func(int) error { return errors.New("called for what is not ours") })
	if removed || err != nil {
		return fmt.Errorf("%s: Sweep: %v, %w", name, removed, err)
	}
	return nil
}

func TestHostileEntriesAreNotFollowed(t *testing.T) {
	bothWays(t, func(t *testing.T) {
		d := openTest(t)
		before := plant(t, d.Path())
		files := openFiles(t)
		start := time.Now()
		for _, name := range names(t, d) {
			if err := tryAll(d, name); err != nil {
				t.Error(err)
			}
		}
		if removed, err := d.SweepSome(100); removed != 0 || err != nil {
			t.Errorf("SweepSome: %d, %v", removed, err)
		}
		if took := time.Since(start); took > 20*time.Second {
			t.Errorf("it took %v", took)
		}
		if after := openFiles(t); after != files {
			t.Errorf("%d descriptors are open, %d were", after, files)
		}
		after := look(t, d.Path())
		for path, was := range before {
			if after[path] != was {
				t.Errorf("%s is %s, was %s", path, after[path], was)
			}
		}
		if len(after) != len(before) {
			t.Errorf("%d things, not %d: %v", len(after), len(before), after)
		}
	})
}

// foreign is a user who has no rights to some of the files in a directory of their own.
func foreign(args []string) error {
	if err := os.Chdir(args[0]); err != nil {
		return err
	}
	if err := unix.Setuid(12345); err != nil {
		return err
	}
	d, err := OpenRoot("root", "")
	if err != nil {
		return err
	}
	if err := tryAll(d, "root's 600"); err != nil {
		return err
	}
	if err := tryAll(d, "root's 666"); err != nil {
		return err
	}
	// One's own file that can't be opened is not taken for another's, and nothing is done about it.
	_, errShare := d.LockShared("own 000", false)
	_, errOwn := d.LockExclusive("own 000")
	_, _, errJoin := d.LockOrPublish("own 000", 0o600, text(""))
	_, errRanges := d.OpenRanges("own 000")
	for _, err := range []error{errShare, errOwn, errJoin, errRanges} {
		if !errors.Is(err, fs.ErrPermission) || errors.Is(err, ErrForeign) {
			return fmt.Errorf("own 000: %w, not ErrPermission", err)
		}
	}
	if removed, err := d.Sweep("own 000"); removed || err != nil {
		return fmt.Errorf("own 000: Sweep: %v, %w", removed, err)
	}
	if _, err := d.MakeSub("root's directory"); !errors.Is(err, ErrForeign) {
		return fmt.Errorf("root's directory: %w", err)
	}
	if _, err := d.OpenSub("own directory 000"); !errors.Is(err, ErrForeign) {
		return fmt.Errorf("own directory 000: %w", err)
	}
	if _, err := OpenRoot(args[1], "LEAT_RUNTIME_DIR"); !errors.Is(err, ErrForeign) {
		return fmt.Errorf("root's root: %w", err)
	}
	return nil
}

func TestErrorsWithoutPermission(t *testing.T) {
	needRoot(t)
	dir := fastTemp(t)
	root := filepath.Join(dir, "root")
	must(t, os.Mkdir(root, 0o700))
	others := filepath.Join(dir, "root's")
	must(t, os.Mkdir(others, 0o700))
	for name, mode := range map[string]fs.FileMode{"root's 600": 0o600, "root's 666": 0o666, "own 000": 0} {
		path := filepath.Join(root, name)
		must(t, os.WriteFile(path, []byte("precious"), 0o600))
		must(t, os.Chmod(path, mode))
	}
	must(t, os.Mkdir(filepath.Join(root, "root's directory"), 0o700))
	must(t, os.Mkdir(filepath.Join(root, "own directory 000"), 0))
	must(t, os.WriteFile(filepath.Join(root, marker), nil, 0o600))
	for _, own := range []string{dir, root, filepath.Join(root, marker), filepath.Join(root, "own 000"),
		filepath.Join(root, "own directory 000")} {
		must(t, os.Chown(own, 12345, 12345))
	}
	before := look(t, root)
	awaitEnd(t, proctest.New("foreign", dir, others).Start(t))
	after := look(t, root)
	for path, was := range before {
		if after[path] != was {
			t.Errorf("%s is %s, was %s", path, after[path], was)
		}
	}
}

func TestContentDoesNotMatter(t *testing.T) {
	// A sweep reads nothing, and a name may hold anything but a slash.
	d := openTest(t)
	for _, name := range []string{" ", "-rf", ".new-", ".new-x", "a\nb", string(bytes.Repeat([]byte("x"), 255)),
		"\xff\xfe"} {
		leave(t, d, name, "x")
		must(t, ok(d.LockShared(name, false))(t).Release())
		if !sweep(t, d, name) {
			t.Errorf("%q was not swept", name)
		}
	}
	_, err := d.Publish(string(bytes.Repeat([]byte("x"), 256)), 0o600, nil)
	wantErr(t, err, unix.ENAMETOOLONG)
	if len(names(t, d)) > 0 {
		t.Errorf("%q", names(t, d))
	}
}
