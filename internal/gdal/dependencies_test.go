package gdal

import (
	"debug/elf"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
)

func TestDependencies(t *testing.T) {
	if leftOut != "" || runtime.GOOS != "linux" {
		t.Skip("skipped: no names of libraries on Linux here")
	}
	t.Setenv("LD_LIBRARY_PATH", "")
	name, path := "", ""
	for _, n := range candidates() {
		if path = systemLibrary(n); path != "" {
			name = n
			break
		}
	}
	if name == "" {
		t.Skip("skipped: the system has no libgdal")
	}
	names := dependencies(name)
	if !slices.ContainsFunc(names, func(n string) bool { return strings.HasPrefix(n, "libproj.so") }) {
		t.Errorf("%s needs %q", name, names)
	}
	if other := dependencies(path); !slices.Equal(other, names) {
		t.Errorf("%s needs %q, %s %q", name, names, path, other)
	}
	if names := dependencies("libleat-no-such-library.so.1"); names != nil {
		t.Errorf("a missing library needs %q", names)
	}
	text := filepath.Join(t.TempDir(), "libgdal.so")
	writeFile(t, text, "no library")
	if names := dependencies(text); names != nil {
		t.Errorf("a text needs %q", names)
	}
	t.Setenv("LD_LIBRARY_PATH", filepath.Dir(text))
	if names := dependencies(name); names != nil {
		t.Errorf("with LD_LIBRARY_PATH, %s needs %q", name, names)
	}

	// One with a search path of its own, like conda's.
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if at := dynamicTag(t, path, b); at >= 0 {
		b[at] = byte(elf.DT_RUNPATH)
		own := filepath.Join(t.TempDir(), "libgdal.so")
		writeFile(t, own, string(b))
		if names := dependencies(own); names != nil {
			t.Errorf("with a search path, %s needs %q", own, names)
		}
	}
}

// dynamicTag returns where the file has the tag of its first needed library.
func dynamicTag(t *testing.T, path string, file []byte) int {
	t.Helper()
	f, err := elf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	dynamic := f.Section(".dynamic")
	if dynamic == nil || f.Class != elf.ELFCLASS64 {
		return -1
	}
	for at := int(dynamic.Offset); at < int(dynamic.Offset+dynamic.Size); at += 16 {
		if f.ByteOrder.Uint64(file[at:]) == uint64(elf.DT_NEEDED) {
			return at
		}
	}
	return -1
}
