package ndarray

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// header returns a header of the given version around a dictionary.
func header(version byte, dict string) []byte {
	b := append([]byte(npyMagic), version, 0)
	if version == 1 {
		b = append(b, byte(len(dict)), byte(len(dict)>>8))
	} else {
		b = append(b, byte(len(dict)), byte(len(dict)>>8), byte(len(dict)>>16), 0)
	}
	return append(b, dict...)
}

func TestParseNPYHeaderVersions(t *testing.T) {
	for _, c := range []struct {
		version byte
		dict    string
		want    NPYHeader
	}{
		{1, "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }\n",
			NPYHeader{Float32, []int{3, 4}, false, false, 0}},
		{1, "{'descr': '|u1', 'fortran_order': False, 'shape': (5,), }  \n",
			NPYHeader{Uint8, []int{5}, false, false, 0}},
		{2, "{'shape': (2, 3, 4), 'fortran_order': True, 'descr': '>i2'}\n",
			NPYHeader{Int16, []int{2, 3, 4}, true, true, 0}},
		{3, `{"descr": "<c16", "fortran_order": False, "shape": ()}`, NPYHeader{Complex128, []int{}, false, false, 0}},
		{1, "{'descr': '<u8', 'fortran_order': False, 'shape': (3L, 0L), }",
			NPYHeader{Uint64, []int{3, 0}, false, false, 0}},
		{1, "{'descr': '>f2', 'fortran_order': False, 'shape': (1, 1)}",
			NPYHeader{Float16, []int{1, 1}, false, true, 0}},
	} {
		b := header(c.version, c.dict)
		c.want.DataOffset = len(b)
		got, err := ParseNPYHeader(append(b, "elements"...))
		if err != nil {
			t.Errorf("%q: %v", c.dict, err)
			continue
		}
		if d := cmp.Diff(c.want, got); d != "" {
			t.Errorf("%q (-want +got):\n%s", c.dict, d)
		}
	}
}

func TestParseNPYHeaderErrors(t *testing.T) {
	dict := func(descr, shape string) string {
		return "{'descr': " + descr + ", 'fortran_order': False, 'shape': " + shape + ", }"
	}
	for _, c := range []struct {
		name string
		b    []byte
		want error
	}{
		{"nothing", nil, ErrNPYFormat},
		{"another file", []byte("II*\x00\x08\x00\x00\x00\x00\x00\x00\x00"), ErrNPYFormat},
		{"version 4", header(4, dict("'<f4'", "(1,)")), ErrNPYFormat},
		{"a header cut short", header(1, dict("'<f4'", "(1,)"))[:40], ErrNPYFormat},
		{"a huge header", []byte(npyMagic + "\x02\x00\xff\xff\xff\xff"), ErrNPYFormat},
		{"a record type", header(1, dict("[('a', '<f4'), ('b', '<i2')]", "(1,)")), ErrNPYUnsupported},
		{"objects", header(1, dict("'|O'", "(1,)")), ErrNPYUnsupported},
		{"truth values", header(1, dict("'|b1'", "(1,)")), ErrNPYUnsupported},
		{"texts", header(1, dict("'<U3'", "(1,)")), ErrNPYUnsupported},
		{"extended floats", header(1, dict("'<f16'", "(1,)")), ErrNPYUnsupported},
		{"a negative shape", header(1, dict("'<f4'", "(-1,)")), ErrNPYFormat},
		{"a shape beyond memory", header(1, dict("'<f4'", "(9999999999, 9999999999)")), ErrNPYFormat},
		{"a shape beyond numbers", header(1, dict("'<f4'", "(99999999999999999999,)")), ErrNPYFormat},
		{"a hundred dimensions", header(1, dict("'<f4'", "("+strings.Repeat("1, ", 100)+")")), ErrNPYFormat},
		{"a missing key", header(1, "{'descr': '<f4', 'shape': (1,)}"), ErrNPYFormat},
		{"a key twice", header(1, "{'descr': '<f4', 'descr': '<f4', 'shape': (1,)}"), ErrNPYFormat},
		{"an unknown key", header(1, "{'descr': '<f4', 'fortran': False, 'shape': (1,)}"), ErrNPYFormat},
		{"a call", header(1, "{'descr': f(), 'fortran_order': False, 'shape': (1,)}"), ErrNPYFormat},
		{"no end", header(1, "{'descr': '<f4', 'fortran_order': False, 'shape': (1,"), ErrNPYFormat},
		{"more after the end", header(1, dict("'<f4'", "(1,)")+"x"), ErrNPYFormat},
	} {
		if _, err := ParseNPYHeader(c.b); !errors.Is(err, c.want) {
			t.Errorf("%s: error %v, not %v", c.name, err, c.want)
		}
	}
}

func TestNPYHeaderRoundTrip(t *testing.T) {
	for ty := Uint8; ty < numTypes; ty++ {
		for _, shape := range [][]int{{}, {0}, {7}, {3, 4}, {1, 2, 3}, {1 << 40, 2, 1}} {
			b := AppendNPYHeader([]byte("xyz"), ty, shape...)[3:]
			if len(b)%64 != 0 || b[len(b)-1] != '\n' {
				t.Fatalf("header of %v %v has %d bytes", ty, shape, len(b))
			}
			got, err := ParseNPYHeader(b)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(NPYHeader{ty, shape, false, false, len(b)}, got); d != "" {
				t.Errorf("(-written +read):\n%s", d)
			}
		}
	}
}

func TestNumPyReadsHeaders(t *testing.T) {
	python := ""
	for _, p := range []string{"python3", "/usr/bin/python3"} {
		if exec.Command(p, "-c", "import numpy").Run() == nil {
			python = p
			break
		}
	}
	if python == "" {
		t.Skip("skipped: no python3 has numpy; install the Debian package python3-numpy")
	}
	dir := t.TempDir()
	var script strings.Builder
	script.WriteString("import numpy as np\n")
	for ty := Uint8; ty < numTypes; ty++ {
		path := filepath.Join(dir, ty.String()+".npy")
		b := AppendNPYHeader(nil, ty, 2, 3)
		b = append(b, make([]byte, 6*ty.Size())...)
		if err := os.WriteFile(path, b, 0o644); err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&script, "a = np.load(%q); assert a.dtype == np.dtype(%q) and a.shape == (2, 3) and not a.any()\n",
			path, ty.String())
	}
	if out, err := exec.Command(python, "-c", script.String()).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

func FuzzParseNPYHeader(f *testing.F) {
	f.Add(AppendNPYHeader(nil, Float32, 3, 4))
	f.Add(header(2, "{'descr': '>i2', 'fortran_order': True, 'shape': (2L, 3L)}"))
	f.Add(header(3, "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': ()}"))
	f.Fuzz(func(t *testing.T, b []byte) {
		h, err := ParseNPYHeader(b)
		if err != nil {
			if !errors.Is(err, ErrNPYFormat) && !errors.Is(err, ErrNPYUnsupported) {
				t.Fatalf("an error of no kind: %v", err)
			}
			return
		}
		if h.DataOffset > len(b) {
			t.Fatalf("elements begin at %d of %d", h.DataOffset, len(b))
		}
		again, err := ParseNPYHeader(AppendNPYHeader(nil, h.Type, h.Shape...))
		if err != nil || again.Type != h.Type || !cmp.Equal(again.Shape, h.Shape) {
			t.Fatalf("%+v became %+v, %v", h, again, err)
		}
		if !bytes.HasPrefix(b, []byte(npyMagic)) {
			t.Fatal("read what has no magic")
		}
	})
}
