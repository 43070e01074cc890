package shm

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"unsafe"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"leat/internal/pytest"
	"leat/ndarray"
)

func TestAHeaderEndsAtTheAlignmentAndIsReadBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := elems(2).Draw(t, "element")
		shape := rapid.SliceOfN(rapid.IntRange(0, 300), 0, 6).Draw(t, "shape")
		fortran := rapid.Bool().Draw(t, "fortran")
		align := rapid.SampledFrom([]int{1, 64, 4096}).Draw(t, "align")
		b, err := npyHeader(e, shape, fortran, align)
		if err != nil {
			t.Fatal(err)
		}
		if len(b)%align != 0 || b[len(b)-1] != '\n' {
			t.Fatalf("%d bytes, aligned to %d: %q", len(b), align, b)
		}
		gotElem, gotShape, gotFortran, offset, err := parseNPYHeader(append(b, "elements"...))
		if err != nil {
			t.Fatal(err)
		}
		if !sameElem(e, gotElem) || fmt.Sprint(shape) != fmt.Sprint(gotShape) || fortran != gotFortran ||
			offset != len(b) {
			t.Fatalf("%v %v %v %d came back as %v %v %v %d", e, shape, fortran, len(b), gotElem, gotShape, gotFortran,
				offset)
		}
	})
}

func TestPlainHeadersAreThoseOfNDArray(t *testing.T) {
	for _, shape := range [][]int{nil, {3}, {3, 4}, {0, 5, 1}} {
		got, err := npyHeader(ElemOfDType(ndarray.Float32), shape, false, 64)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(string(ndarray.AppendNPYHeader(nil, ndarray.Float32, shape...)), string(got)); d != "" {
			t.Errorf("%v (-want +got):\n%s", shape, d)
		}
	}
}

// record of n fields with names of 202 characters.
func wideRecord(t *testing.T, n int) Elem {
	t.Helper()
	var b recordBuilder
	for i := range n {
		if err := b.add(fmt.Sprintf("%0202d", i), ElemOfDType(ndarray.Uint8), nil); err != nil {
			t.Fatal(err)
		}
	}
	e, err := b.done()
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func TestArraysWithoutAHeaderAreRefused(t *testing.T) {
	f4 := ElemOfDType(ndarray.Float32)
	for _, c := range []struct {
		name  string
		e     Elem
		shape []int
		want  string
	}{
		{"no type", Elem{}, []int{1}, "no type"},
		{"a negative dimension", f4, []int{3, -1}, "negative"},
		{"a shape beyond memory", f4, []int{math.MaxInt32, math.MaxInt32, 8}, "larger than any memory"},
		{"an empty shape beyond memory", f4, []int{math.MaxInt32, math.MaxInt32, 8, 0}, "larger than any memory"},
		{"an empty shape beyond memory, the other way round", f4, []int{0, 8, math.MaxInt32, math.MaxInt32},
			"larger than any memory"},
		{"33 dimensions", f4, make([]int, 33), "33 dimensions"},
		{"a header that NumPy refuses", wideRecord(t, 38), []int{1}, "NumPy reads at most"},
	} {
		if b, err := npyHeader(c.e, c.shape, false, 4096); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %d bytes, error %v", c.name, len(b), err)
		}
	}
}

// npy puts a header of a version around a dictionary.
func npy(version byte, dict string) []byte {
	b := []byte{0x93, 'N', 'U', 'M', 'P', 'Y', version, 0, byte(len(dict)), byte(len(dict) >> 8)}
	if version > 1 {
		b = append(b, 0, 0)
	}
	return append(b, dict...)
}

func TestHeadersOfOthersAreRead(t *testing.T) {
	for _, c := range []struct {
		version byte
		dict    string
		descr   string
		shape   []int
		fortran bool
	}{
		{1, "{'descr': '|b1', 'fortran_order': False, 'shape': (3L,), }\n", "'|b1'", []int{3}, false},
		{2, `{"shape":(2,3),"fortran_order":True,"descr":"<u1"}`, "'|u1'", []int{2, 3}, true},
		{3, "{'descr': [('a', '<f4'), ('b', [('c', '|b1'), ('', '|V3')], (2, 2))], 'fortran_order': False, 'shape': (), }",
			"[('a', '<f4'), ('b', [('c', '|b1'), ('', '|V3')], (2, 2))]", nil, false},
	} {
		b := npy(c.version, c.dict)
		e, shape, fortran, offset, err := parseNPYHeader(append(b, 1, 2, 3))
		if err != nil || e.Descr() != c.descr || !cmp.Equal(shape,
			c.shape) || fortran != c.fortran || offset != len(b) {
			t.Errorf("%q: %v %v %v %d, %v", c.dict, e, shape, fortran, offset, err)
		}
	}
}

func TestWhatIsNoHeaderOfASharedArrayIsRefused(t *testing.T) {
	dict := func(descr, shape string) []byte {
		return npy(1, "{'descr': "+descr+", 'fortran_order': False, 'shape': "+shape+", }")
	}
	for _, c := range []struct {
		name string
		b    []byte
		want error
	}{
		{"nothing", nil, ndarray.ErrNPYFormat},
		{"a header cut short", dict("'<f4'", "(1,)")[:30], ndarray.ErrNPYFormat},
		{"a huge header", []byte("\x93NUMPY\x02\x00\xff\xff\xff\xff"), ndarray.ErrNPYFormat},
		{"big-endian", dict("'>f4'", "(1,)"), ndarray.ErrNPYUnsupported},
		{"big-endian in a record", dict("[('a', [('b', '>f4')])]", "(1,)"), ndarray.ErrNPYUnsupported},
		{"objects", dict("'|O'", "(1,)"), ndarray.ErrNPYUnsupported},
		{"titles", dict("[(('t', 'a'), '<f4')]", "(1,)"), ndarray.ErrNPYUnsupported},
		{"names that are not ASCII", dict("[('\xe9', '<f4')]", "(1,)"), ndarray.ErrNPYUnsupported},
		{"no fields", dict("[]", "(1,)"), ndarray.ErrNPYFormat},
		{"a long type", dict("[('a', '<f4')"+strings.Repeat(" ", maxDescr)+"]", "(1,)"), ndarray.ErrNPYFormat},
		{"a shape beyond memory", dict("'<f4'", "(9999999999, 9999999999)"), ndarray.ErrNPYFormat},
		{"a negative shape", dict("'<f4'", "(-1,)"), ndarray.ErrNPYFormat},
		{"a number for a shape", dict("'<f4'", "(1)"), ndarray.ErrNPYFormat},
		{"33 dimensions", dict("'<f4'", "("+strings.Repeat("1, ", 33)+")"), ndarray.ErrNPYFormat},
		{"no dictionary", npy(1, ""), ndarray.ErrNPYFormat},
		{"an open dictionary", npy(1, "{'descr': '<f4', 'fortran_order': False, 'shape': (1,)"), ndarray.ErrNPYFormat},
		{"more than a dictionary", append(npy(1, "{'descr': '<f4', 'fortran_order': False, 'shape': (1,)}}"),
			"data"...), ndarray.ErrNPYFormat},
		{"a missing key", npy(1, "{'descr': '<f4', 'shape': (1,)}"), ndarray.ErrNPYFormat},
		{"a key twice", npy(1, "{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (1,)}"),
			ndarray.ErrNPYFormat},
		{"an unknown key", npy(1, "{'descr': '<f4', 'order': False, 'shape': (1,)}"), ndarray.ErrNPYFormat},
		{"a number for an order", npy(1, "{'descr': '<f4', 'fortran_order': 0, 'shape': (1,)}"), ndarray.ErrNPYFormat},
	} {
		if e, _, _, _, err := parseNPYHeader(c.b); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, error %v", c.name, e, err)
		}
	}
}

type sample struct {
	ID     uint32
	Valid  bool
	Centre struct{ Lon, Lat float64 }
	Bands  [2][3]int16
	Phase  complex64
}

// samples are told by their index, so that both sides can make them.
func samples(n int) []sample {
	list := make([]sample, n)
	for i := range list {
		s := &list[i]
		s.ID, s.Valid, s.Phase = uint32(i), i%3 == 0, complex(float32(i), -1)
		s.Centre.Lon, s.Centre.Lat = float64(i)/8, -float64(i)/4
		for j := range 6 {
			s.Bands[j/3][j%3] = int16(100*i - j)
		}
	}
	return list
}

func sampleBytes(list []sample) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(list))), len(list)*int(unsafe.Sizeof(sample{})))
}

func TestNumPyReadsTheRecordsOfGoAndGoThoseOfNumPy(t *testing.T) {
	dir := t.TempDir()
	e, err := ElemOf(reflect.TypeFor[sample]())
	if err != nil {
		t.Fatal(err)
	}
	list := samples(12)
	header, err := npyHeader(e, []int{3, 4}, false, 4096)
	if err != nil {
		t.Fatal(err)
	}
	ours, theirs := filepath.Join(dir, "ours.npy"), filepath.Join(dir, "theirs.npy")
	if err := os.WriteFile(ours, append(header, sampleBytes(list)...), 0o600); err != nil {
		t.Fatal(err)
	}
	var shape []int
	pytest.Run(t, []string{"numpy"}, `
import json, sys
import numpy as np
ours, theirs = json.load(sys.stdin)
a = np.load(ours, mmap_mode="r")
assert a.offset % 4096 == 0, a.offset
r = a.reshape(-1)
i = np.arange(12)
np.testing.assert_array_equal(r["ID"], i)
np.testing.assert_array_equal(r["Valid"], i % 3 == 0)
np.testing.assert_array_equal(r["Centre"]["Lon"], i / 8)
np.testing.assert_array_equal(r["Centre"]["Lat"], -i / 4)
np.testing.assert_array_equal(r["Bands"].reshape(12, 6), 100 * i[:, None] - np.arange(6))
np.testing.assert_array_equal(r["Phase"], i - 1j)
aligned = np.dtype([("ID", "<u4"), ("Valid", "?"), ("Centre", np.dtype([("Lon", "<f8"), ("Lat", "<f8")], align=True)), ("Bands", "<i2", (2, 3)),
    ("Phase", "<c8")], align=True)
assert aligned == a.dtype, (aligned, a.dtype)
b = np.zeros((3, 4), aligned)
for n in aligned.names:
    b[n] = a[n]
np.save(theirs, b)
json.dump(a.shape, sys.stdout)
`, []string{ours, theirs}, &shape)
	if d := cmp.Diff([]int{3, 4}, shape); d != "" {
		t.Error(d)
	}
	b, err := os.ReadFile(theirs)
	if err != nil {
		t.Fatal(err)
	}
	got, shape, fortran, offset, err := parseNPYHeader(b)
	if err != nil {
		t.Fatal(err)
	}
	if !got.Equal(e) || !cmp.Equal(shape, []int{3, 4}) || fortran {
		t.Fatalf("NumPy's file has %v %v %v, want %v", got, shape, fortran, e)
	}
	back := make([]sample, 12)
	copy(sampleBytes(back), b[offset:])
	if d := cmp.Diff(list, back); d != "" {
		t.Errorf("(-written +read):\n%s", d)
	}
}

func TestNumPyReadsEveryHeader(t *testing.T) {
	type header struct {
		Header  string
		Descr   string
		Shape   []int
		Fortran bool
		Offset  int
	}
	var list []header
	add := func(e Elem, shape []int, fortran bool, align int) {
		b, err := npyHeader(e, shape, fortran, align)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, header{base64.StdEncoding.EncodeToString(b), e.Descr(), append([]int{}, shape...), fortran,
			len(b)})
	}
	shapes := [][]int{nil, {5}, {2, 3}, {4, 0, 2}, {1, 2, 3, 4, 5}, ones(32)}
	for i := range 60 {
		add(elems(3).Example(i), shapes[i%len(shapes)], i%5 == 0, []int{64, 4096}[i%2])
	}
	add(wideRecord(t, 20), []int{3}, false, 4096) // more than a page
	var out []header
	pytest.Run(t, []string{"numpy"}, `
import ast, base64, io, json, sys
import numpy as np
out = []
for h in json.load(sys.stdin):
    f = io.BytesIO(base64.b64decode(h["Header"]))
    assert np.lib.format.read_magic(f) == (1, 0)
    shape, fortran, dtype = np.lib.format.read_array_header_1_0(f)
    out.append(dict(Header=h["Header"], Descr=repr(np.lib.format.dtype_to_descr(dtype)), Shape=shape, Fortran=fortran, Offset=f.tell()))
json.dump(out, sys.stdout)
`, list, &out)
	if d := cmp.Diff(list, out); d != "" {
		t.Errorf("(-ours +NumPy's):\n%s", d)
	}
}

func ones(n int) []int {
	list := make([]int, n)
	for i := range list {
		list[i] = 1
	}
	return list
}

// FuzzParseNPYHeader holds the parser against that of ndarray, which is older, for plain types.
func FuzzParseNPYHeader(f *testing.F) {
	f.Add(npy(1, "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }\n"))
	f.Add(npy(2, "{'shape': (), 'fortran_order': True, 'descr': '|b1'}"))
	f.Add(npy(3, "{'descr': [('a', '<f4', (3,)), ('', '|V4')], 'fortran_order': False, 'shape': (3L,), }"))
	f.Add(npy(1, "{'descr': '<u2', 'fortran_order': False, 'shape': (3, 0), }"))
	f.Fuzz(func(t *testing.T, b []byte) {
		before := bytes.Clone(b)
		e, shape, fortran, offset, err := parseNPYHeader(b)
		if !bytes.Equal(before, b) {
			t.Fatal("the text was changed")
		}
		h, other := ndarray.ParseNPYHeader(b)
		if err != nil {
			if !errors.Is(err, ndarray.ErrNPYFormat) && !errors.Is(err, ndarray.ErrNPYUnsupported) {
				t.Fatal(err)
			}
			return
		}
		if e.DType().Valid() {
			if other != nil || h.Type != e.DType() || h.Fortran != fortran || h.DataOffset != offset ||
				fmt.Sprint(h.Shape) != fmt.Sprint(shape) {
				t.Fatalf("%v %v %v %d, ndarray says %v, %v", e, shape, fortran, offset, h, other)
			}
		}
		if offset > len(b) {
			t.Fatalf("elements at %d of %d", offset, len(b))
		}
		if _, err := npyHeader(e, shape, fortran, 1); err != nil {
			t.Fatal(err)
		}
	})
}
