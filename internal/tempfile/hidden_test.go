package tempfile

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestHiddenNamesAreUnique(t *testing.T) {
	seen := map[string]string{}
	for _, unit := range []string{"a", "ä", "語", "\xff"} {
		for n := 1; n*len(unit) <= maxName; n++ {
			name := strings.Repeat(unit, n)
			for _, suffix := range []string{".leat-new", ".01234567.leat-part"} {
				got := HiddenName("dir/"+name, suffix)
				if dir, base := filepath.Split(got); dir != "dir/" || len(base) > maxName || base[0] != '.' ||
					!strings.HasSuffix(base, suffix) {
					t.Fatalf("%d bytes: %q", len(name), got)
				}
				if utf8.ValidString(name) && !utf8.ValidString(got) {
					t.Fatalf("%d bytes: a character is split: %q", len(name), got)
				}
				if other, taken := seen[got]; taken {
					t.Fatalf("%q and %q are both hidden as %q", other, name, got)
				}
				seen[got] = name
			}
		}
	}
	if got := HiddenName("/d/a.tif", ".leat-part"); got != "/d/.a.tif.leat-part" {
		t.Errorf("a short name: %q", got)
	}
	prefix := strings.Repeat("x", 250)
	if a, b := HiddenName(prefix+"a.tif", ".s"), HiddenName(prefix+"b.tif", ".s"); a == b {
		t.Errorf("names that begin alike are both hidden as %q", a)
	}
}

func TestCommitOfLongNames(t *testing.T) {
	dir := t.TempDir()
	for _, unit := range []string{"x", "語"} {
		name := strings.Repeat(unit, 250/len(unit))
		name += strings.Repeat("y", 251-len(name)) + ".tif"
		for i, commit := range []func(f *File) error{(*File).Commit, (*File).Commit,
			func(f *File) error {
				path, err := f.CommitNumbered(func(string) bool { return false })
				if base := filepath.Base(path); err == nil && (len(base) > maxName || !strings.HasSuffix(base,
					"-2.tif") || !utf8.ValidString(base)) {
					t.Errorf("published as %q", base)
				}
				return err
			}} {
			f, err := Create(filepath.Join(dir, name), 0o600)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := f.WriteString("text"); err != nil {
				t.Fatal(err)
			}
			if err := commit(f); err != nil {
				t.Errorf("%d bytes, %d: %v", len(name), i, err)
			}
		}
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 4 {
		t.Errorf("%v, %v", entries, err)
	}
}
