package tempfile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

func TestCommitNewReplacesNothing(t *testing.T) {
	for _, named := range []bool{false, true} {
		dir := t.TempDir()
		path := filepath.Join(dir, "a.tif")
		f, err := Create(path, 0o666)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteString("new"); err != nil {
			t.Fatal(err)
		}
		if named && !f.named {
			if err := linkOver(f.File, hiddenName(f.final)); err != nil {
				t.Fatal(err)
			}
			f.named = true
		}
		if err := os.WriteFile(path, []byte("old"), 0o600); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if err := f.CommitNew(); !errors.Is(err, fs.ErrExist) {
				t.Fatalf("the error is %v", err)
			}
		}
		other := filepath.Join(dir, "b.tif")
		if err := f.commitNew(other); err != nil {
			t.Fatal(err)
		}
		if err := f.commitNew(filepath.Join(dir, "c.tif")); !errors.Is(err, fs.ErrClosed) {
			t.Errorf("the second time: %v", err)
		}
		if err := f.Abort(); err != nil {
			t.Error(err)
		}
		holds(t, dir, map[string]string{"a.tif": "old", "b.tif": "new"})
	}
}

func TestAbortAfterCommitNewLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a.tif")
	f, err := Create(path, 0o666)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := f.CommitNew(); !errors.Is(err, fs.ErrExist) {
		t.Fatalf("the error is %v", err)
	}
	if err := f.Abort(); err != nil {
		t.Fatal(err)
	}
	holds(t, dir, map[string]string{"a.tif": "old"})
}

func TestRenameNewReplacesNothing(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	for name, text := range map[string]string{"from": "new", "old": "old"} {
		if err := os.WriteFile(at(name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := renameNew(at("from"), at("old")); !errors.Is(err, fs.ErrExist) {
		t.Errorf("the error is %v", err)
	}
	if err := renameNew(at("from"), at("to")); err != nil {
		t.Error(err)
	}
	if err := renameNew(at("none"), at("other")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the error is %v", err)
	}
	holds(t, dir, map[string]string{"old": "old", "to": "new"})
}

func TestCommitNumberedUsesFirstFreeName(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a.tif")
	for _, want := range []string{"a.tif", "a-2.tif", "a-4.tif"} {
		f, err := Create(path, 0o666)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteString(want); err != nil {
			t.Fatal(err)
		}
		got, err := f.CommitNumbered(func(path string) bool { return filepath.Base(path) == "a-3.tif" })
		if err != nil || got != filepath.Join(dir, want) {
			t.Errorf("%s, %v; expected %s", got, err, want)
		}
	}
	holds(t, dir, map[string]string{"a.tif": "a.tif", "a-2.tif": "a-2.tif", "a-4.tif": "a-4.tif"})
}
