package namespace

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseMountinfo(t *testing.T) {
	text := `27 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw
42 27 254:0 /a\040b\134c /mnt/x\011y\012z rw - ext4 /dev/vda rw
43 27 0:4 net:[4026531992] /run/netns/a rw - nsfs nsfs rw
44 27 0:50 /@home /home rw - btrfs /dev/sdb rw
45 27
x 27 0:1 / / rw
46 27 0:51 / relative rw - tmpfs none rw
47 27 0:52 /tail\13 /q\999 rw - tmpfs none rw`
	want := []mountLine{
		{27, "254:0", "/", "/"},
		{42, "254:0", `/a b\c`, "/mnt/x\ty\nz"},
		{44, "0:50", "/@home", "/home"},
		{47, "0:52", `/tail\13`, `/q\999`},
	}
	if diff := cmp.Diff(want, parseMountinfo(text), cmp.AllowUnexported(mountLine{})); diff != "" {
		t.Errorf("(-expected +got):\n%s", diff)
	}
}

func TestBelowComparesWholeNames(t *testing.T) {
	for _, c := range []struct {
		dir, path, rest string
		ok              bool
	}{
		{"/", "/a/b", "a/b", true}, {"/", "/", "", false}, {"/a", "/a/b/c", "b/c", true}, {"/a", "/ab", "", false},
		{"/a", "/a", "", false}, {"/a/b", "/a", "", false},
	} {
		rest, ok := below(c.dir, c.path)
		if ok != c.ok || ok && rest != c.rest {
			t.Errorf("below(%s, %s) = %q, %v", c.dir, c.path, rest, ok)
		}
	}
}

func FuzzMountinfo(f *testing.F) {
	f.Add(`42 27 254:0 /a\040b\134c /mnt/x rw - ext4 /dev/vda rw`)
	f.Add("1 1 0:0 / / \n\n1 1 0:0 /\\777 /\\08 x")
	f.Fuzz(func(t *testing.T, text string) {
		for _, m := range parseMountinfo(text) {
			for _, p := range []string{m.root, m.point} {
				if !strings.HasPrefix(p, "/") {
					t.Fatalf("%q is not an absolute path", p)
				}
			}
			if rest, ok := below(m.root, m.point); ok && !strings.HasSuffix(m.point, "/"+rest) {
				t.Fatalf("%q below %q is %q", m.point, m.root, rest)
			}
		}
	})
}

func FuzzUnescapeOctalUndoesTheKernelsEscapes(f *testing.F) {
	f.Add(`a b\c	d` + "\n")
	f.Fuzz(func(t *testing.T, name string) {
		escaped := strings.NewReplacer(" ", `\040`, "\t", `\011`, "\n", `\012`, `\`, `\134`).Replace(name)
		if got := unescapeOctal(escaped); got != name {
			t.Fatalf("%q became %q", name, got)
		}
	})
}
