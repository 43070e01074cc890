package tempfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestMain re-executes the test as a process that can be killed.
func TestMain(m *testing.M) {
	if path := os.Getenv("TEMPFILE_TEST_KILLED"); path != "" {
		f, err := Create(path, 0o666)
		if err == nil && os.Getenv("TEMPFILE_TEST_STEP") == "named" {
			err = linkOver(f.File, hiddenName(path))
		}
		if err == nil {
			_, err = f.WriteString("half")
		}
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {}
	}
	os.Exit(m.Run())
}

func publish(t *testing.T, path, text string) {
	t.Helper()
	f, err := Create(path, 0o666)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString(text); err != nil {
		t.Fatal(err)
	}
	if err := f.Commit(); err != nil {
		t.Fatal(err)
	}
}

// holds checks that dir has these files with these texts, and no other.
func holds(t *testing.T, dir string, want map[string]string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		b, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		if w, ok := want[e.Name()]; !ok || w != string(b) {
			t.Errorf("%s holds %q", e.Name(), b)
		}
	}
	if len(entries) != len(want) {
		t.Errorf("%d files, not %d", len(entries), len(want))
	}
}

func TestCommitPublishesFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "out.tif")
	publish(t, path, "old")
	f, err := Create(path, 0o666)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString("new"); err != nil {
		t.Fatal(err)
	}
	if !f.named {
		holds(t, dir, map[string]string{"out.tif": "old"})
	}
	if err := f.Commit(); err != nil {
		t.Fatal(err)
	}
	holds(t, dir, map[string]string{"out.tif": "new"})
	if err := f.Commit(); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("a second Commit: %v", err)
	}
	if err := f.Abort(); err != nil {
		t.Errorf("Abort after Commit: %v", err)
	}
	holds(t, dir, map[string]string{"out.tif": "new"})
}

func TestAbortKeepsOldFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "out.tif")
	publish(t, path, "old")
	f, err := Create(path, 0o666)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Abort(); err != nil {
		t.Fatal(err)
	}
	if err := f.Commit(); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("Commit after Abort: %v", err)
	}
	holds(t, dir, map[string]string{"out.tif": "old"})
}

func TestNilFileDoesNothing(t *testing.T) {
	var f *File
	if err := errors.Join(f.Commit(), f.Abort()); err != nil {
		t.Error(err)
	}
}

func TestKilledProcessKeepsOldFile(t *testing.T) {
	for _, step := range []string{"written", "named"} {
		dir := t.TempDir()
		path := filepath.Join(dir, "out.tif")
		publish(t, path, "old")
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), "TEMPFILE_TEST_KILLED="+path, "TEMPFILE_TEST_STEP="+step)
		out, err := cmd.CombinedOutput()
		if err == nil || len(out) > 0 {
			t.Skipf("this file system has no unnamed files, or the process was not killed: %s %v", out, err)
		}
		if b, err := os.ReadFile(path); err != nil || string(b) != "old" {
			t.Fatalf("%s: the old file holds %q, %v", step, b, err)
		}
		publish(t, path, "new")
		holds(t, dir, map[string]string{"out.tif": "new"})
	}
}

func TestFilesWithHiddenName(t *testing.T) {
	// As on file systems that have no unnamed files.
	dir := t.TempDir()
	path := filepath.Join(dir, "out.tif")
	publish(t, path, "old")
	for range 2 { // the second time over a file that the first left
		raw, err := createNamed(hiddenName(path), 0o666)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := raw.WriteString("new"); err != nil {
			t.Fatal(err)
		}
		f := &File{File: raw, path: path, final: path, named: true}
		holds(t, dir, map[string]string{"out.tif": "old", ".out.tif.leat-new": "new"})
		if err := f.Abort(); err != nil {
			t.Fatal(err)
		}
		holds(t, dir, map[string]string{"out.tif": "old"})
		if _, err := createNamed(hiddenName(path), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	raw, err := createNamed(hiddenName(path), 0o666)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := raw.WriteString("newer"); err != nil {
		t.Fatal(err)
	}
	if err := (&File{File: raw, path: path, final: path, named: true}).Commit(); err != nil {
		t.Fatal(err)
	}
	holds(t, dir, map[string]string{"out.tif": "newer"})
}

func TestPermissionsOfPublishedFile(t *testing.T) {
	mask := syscall.Umask(0o027)
	defer syscall.Umask(mask)
	path := filepath.Join(t.TempDir(), "out.tif")
	mode := func() fs.FileMode {
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		return info.Mode()
	}
	publish(t, path, "a")
	if mode() != 0o640 {
		t.Errorf("a new file has %v", mode())
	}
	if err := os.Chmod(path, 0o664); err != nil {
		t.Fatal(err)
	}
	publish(t, path, "b")
	if mode() != 0o664 {
		t.Errorf("a replaced file has %v", mode())
	}
}

func TestCommitReplacesTargetOfLink(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "big"), 0o777); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(dir, "out.tif")
	if err := os.Symlink(filepath.Join("big", "target.tif"), link); err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"first", "second"} { // the first time the link leads nowhere
		publish(t, link, text)
		if info, err := os.Lstat(link); err != nil || info.Mode()&fs.ModeSymlink == 0 {
			t.Fatalf("the link is gone: %v %v", info, err)
		}
		holds(t, filepath.Join(dir, "big"), map[string]string{"target.tif": text})
	}
}

func TestNameOfMaximumLength(t *testing.T) {
	dir := t.TempDir()
	name := strings.Repeat("n", 255)
	publish(t, filepath.Join(dir, name), "x")
	holds(t, dir, map[string]string{name: "x"})
}

func TestCreateErrors(t *testing.T) {
	dir := t.TempDir()
	publish(t, filepath.Join(dir, "file"), "x")
	if err := os.Mkdir(filepath.Join(dir, "locked"), 0o555); err != nil {
		t.Fatal(err)
	}
	cases := map[string]error{ // nil: any
		"":                                   nil,
		dir:                                  nil,
		filepath.Join(dir, "new") + "/":      nil,
		"/dev/null":                          nil,
		filepath.Join(dir, "no", "such.tif"): fs.ErrNotExist,
		filepath.Join(dir, "file", "x.tif"):  syscall.ENOTDIR,
		filepath.Join(dir, strings.Repeat("n", 256)): syscall.ENAMETOOLONG,
	}
	if os.Getuid() != 0 { // root may write anywhere
		cases[filepath.Join(dir, "locked", "x.tif")] = fs.ErrPermission
	}
	for path, want := range cases {
		_, err := Create(path, 0o666)
		if err == nil || want != nil && !errors.Is(err, want) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v, expected %v", path, err, want)
		}
	}
	holds(t, filepath.Join(dir, "locked"), nil)
}

func TestCommitInRemovedDirectory(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "folder")
	if err := os.Mkdir(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	f, err := Create(filepath.Join(dir, "out.tif"), 0o666)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if err := f.Commit(); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Commit: %v", err)
	}
}
