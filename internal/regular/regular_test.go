package regular

import (
	"errors"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

func TestOnlyRegularFilesAreOpened(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	if err := os.WriteFile(at("file"), []byte("abc"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(at("pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", at("socket"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for _, name := range []string{"file", "pipe"} {
		if err := os.Symlink(name, at("link to "+name)); err != nil {
			t.Fatal(err)
		}
	}
	for name, want := range map[string]error{"file": nil, "link to file": nil, "pipe": ErrSpecial,
		"link to pipe": ErrSpecial, "socket": ErrSpecial,
		".": ErrDirectory, "none": fs.ErrNotExist} {
		f, info, err := Open(at(name))
		if !errors.Is(err, want) || !errors.Is(Check(at(name)), want) {
			t.Errorf("%s: %v, expected %v", name, err, want)
		}
		if err != nil {
			continue
		}
		if b, err := io.ReadAll(f); err != nil || string(b) != "abc" || info.Size() != 3 {
			t.Errorf("%s: %q, %v, %d bytes", name, b, err, info.Size())
		}
		f.Close()
	}
	if f, _, err := Open(os.DevNull); !errors.Is(err, ErrSpecial) {
		t.Errorf("%s: %v, %v", os.DevNull, f, err)
	}
}

func TestFindSpecialNextToFile(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	for _, name := range []string{"box.shp", "box.shx", "boxes.shp", "link.shp", "upper.shp", "a.b.tif", "folder.gdb/a"} {
		err := os.MkdirAll(filepath.Dir(at(name)), 0o700)
		if err := errors.Join(err, os.WriteFile(at(name), nil, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"box.dbf", "UPPER.DBF", "a.b.tif.aux.xml", "folder.gdb/pipe", "pipe"} {
		if err := syscall.Mkfifo(at(name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("pipe", at("link.dbf")); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"box.shp": "box.dbf", "boxes.shp": "", "link.shp": "link.dbf",
		"upper.shp": "UPPER.DBF", "a.b.tif": "a.b.tif.aux.xml", "folder.gdb": "folder.gdb/pipe", "pipe": "pipe",
		"none.shp": ""} {
		if want != "" {
			want = at(want)
		}
		if got, err := FindSpecial(at(name)); err != nil || got != want {
			t.Errorf("%s: %q, %v, expected %q", name, got, err, want)
		}
	}
}
