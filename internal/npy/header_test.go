package npy

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

// appendHeader returns the header h, aligned as NumPy does.
func appendHeader(t testing.TB, h Header) []byte {
	t.Helper()
	b, err := h.Append(nil, 64)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestHeaderRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := Header{Elem: elems(2).Draw(t, "element"), Shape: rapid.SliceOfN(rapid.IntRange(0, 300), 0, 6).Draw(t, "shape"),
			Fortran: rapid.Bool().Draw(t, "fortran")}
		h.BigEndian = h.Elem.DType().Size() > 1 && rapid.Bool().Draw(t, "big-endian")
		align := rapid.SampledFrom([]int{1, 64, 4096}).Draw(t, "align")
		b, err := h.Append([]byte("xyz"), align)
		if err != nil {
			t.Fatal(err)
		}
		b = b[3:]
		if len(b)%align != 0 || b[len(b)-1] != '\n' {
			t.Fatalf("%d bytes, aligned to %d: %q", len(b), align, b)
		}
		got, err := ParseHeader(append(b, "elements"...))
		if err != nil {
			t.Fatal(err)
		}
		if !sameElem(h.Elem, got.Elem) || fmt.Sprint(h.Shape) != fmt.Sprint(got.Shape) || h.Fortran != got.Fortran ||
			h.BigEndian != got.BigEndian || got.DataOffset != len(b) {
			t.Fatalf("%+v of %d bytes came back as %+v", h, len(b), got)
		}
	})
}

// The bytes are those of leat's earlier writers.
func TestHeaderBytes(t *testing.T) {
	for _, c := range []struct {
		elem  Elem
		shape []int
		dict  string
	}{
		{ElemOfDType(ndarray.Float32), nil, "{'descr': '<f4', 'fortran_order': False, 'shape': (), }"},
		{ElemOfDType(ndarray.Float32), []int{3}, "{'descr': '<f4', 'fortran_order': False, 'shape': (3,), }"},
		{ElemOfDType(ndarray.Uint8), []int{0, 5, 1}, "{'descr': '|u1', 'fortran_order': False, 'shape': (0, 5, 1), }"},
		{ElemOfDType(ndarray.Complex128), []int{1 << 40, 2}, "{'descr': '<c16', 'fortran_order': False, 'shape': (1099511627776, 2), }"},
	} {
		want := npy(1, fmt.Sprintf("%-117s\n", c.dict))
		if d := cmp.Diff(string(want), string(appendHeader(t, Header{Elem: c.elem, Shape: c.shape}))); d != "" {
			t.Errorf("%v (-expected +got):\n%s", c.shape, d)
		}
	}
}

// wideRecord returns a record of n fields with names of 202 characters.
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

func TestAppendErrors(t *testing.T) {
	f4 := ElemOfDType(ndarray.Float32)
	for _, c := range []struct {
		name  string
		e     Elem
		shape []int
		want  string
	}{
		{"no type", Elem{}, []int{1}, "without an element type"},
		{"a negative dimension", f4, []int{3, -1}, "negative"},
		{"a shape beyond memory", f4, []int{math.MaxInt32, math.MaxInt32, 8}, "larger than any memory"},
		{"an empty shape beyond memory", f4, []int{math.MaxInt32, math.MaxInt32, 8, 0}, "larger than any memory"},
		{"an empty shape beyond memory, the other way round", f4, []int{0, 8, math.MaxInt32, math.MaxInt32},
			"larger than any memory"},
		{"33 dimensions", f4, make([]int, 33), "33 dimensions"},
		{"a header that NumPy refuses", wideRecord(t, 38), []int{1}, "NumPy reads at most"},
	} {
		b, err := Header{Elem: c.e, Shape: c.shape}.Append(nil, 4096)
		if err == nil || !strings.Contains(err.Error(), c.want) {
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

func TestParseHeader(t *testing.T) {
	records := "[('a', '<f4'), ('b', [('c', '|b1'), ('', '|V3')], (2, 2))]"
	for _, c := range []struct {
		version byte
		dict    string
		descr   string
		want    Header
	}{
		{1, "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }\n", "'<f4'", Header{Shape: []int{3, 4}}},
		{1, "{'descr': '|u1', 'fortran_order': False, 'shape': (5,), }  \n", "'|u1'", Header{Shape: []int{5}}},
		{2, "{'shape': (2, 3, 4), 'fortran_order': True, 'descr': '>i2'}\n", "'<i2'",
			Header{Shape: []int{2, 3, 4}, Fortran: true, BigEndian: true}},
		{3, `{"descr": "<c16", "fortran_order": False, "shape": ()}`, "'<c16'", Header{}},
		{1, "{'descr': '<u8', 'fortran_order': False, 'shape': (3L, 0L), }", "'<u8'", Header{Shape: []int{3, 0}}},
		{1, "{'descr': '>f2', 'fortran_order': False, 'shape': (1, 1)}", "'<f2'",
			Header{Shape: []int{1, 1}, BigEndian: true}},
		{1, "{'descr': '>u1', 'fortran_order': False, 'shape': (1,)}", "'|u1'", Header{Shape: []int{1}}},
		{1, "{'descr': '=f4', 'fortran_order': False, 'shape': (1,)}", "'<f4'", Header{Shape: []int{1}}},
		{1, "{'descr': '|b1', 'fortran_order': False, 'shape': (3L,), }\n", "'|b1'", Header{Shape: []int{3}}},
		{2, `{"shape":(2,3),"fortran_order":True,"descr":"<u1"}`, "'|u1'", Header{Shape: []int{2, 3}, Fortran: true}},
		{3, "{'descr': " + records + ", 'fortran_order': False, 'shape': (), }", records, Header{}},
	} {
		b := npy(c.version, c.dict)
		var err error
		if c.want.Elem, err = ParseElem(c.descr); err != nil {
			t.Fatal(err)
		}
		c.want.DataOffset = len(b)
		got, err := ParseHeader(append(b, "elements"...))
		if err != nil {
			t.Errorf("%q: %v", c.dict, err)
			continue
		}
		if d := cmp.Diff(c.want, got, cmp.Comparer(sameElem)); d != "" {
			t.Errorf("%q (-expected +got):\n%s", c.dict, d)
		}
	}
}

func TestParseHeaderErrors(t *testing.T) {
	dict := func(descr, shape string) []byte {
		return npy(1, "{'descr': "+descr+", 'fortran_order': False, 'shape': "+shape+", }")
	}
	for _, c := range []struct {
		name string
		b    []byte
		want error
	}{
		{"nothing", nil, ErrFormat},
		{"a header cut short", dict("'<f4'", "(1,)")[:30], ErrFormat},
		{"a huge header", []byte("\x93NUMPY\x02\x00\xff\xff\xff\xff"), ErrFormat},
		{"another file", []byte("II*\x00\x08\x00\x00\x00\x00\x00\x00\x00"), ErrFormat},
		{"version 4", npy(4, "{'descr': '<f4', 'fortran_order': False, 'shape': (1,), }"), ErrFormat},
		{"texts", dict("'<U3'", "(1,)"), ErrUnsupported},
		{"big-endian texts", dict("'>U3'", "(1,)"), ErrUnsupported},
		{"extended floats", dict("'<f16'", "(1,)"), ErrUnsupported},
		{"no order", dict("'|f4'", "(1,)"), ErrUnsupported},
		{"a shape beyond numbers", dict("'<f4'", "(99999999999999999999,)"), ErrFormat},
		{"a call", dict("f()", "(1,)"), ErrFormat},
		{"no end", npy(1, "{'descr': '<f4', 'fortran_order': False, 'shape': (1,"), ErrFormat},
		{"big-endian in a record", dict("[('a', [('b', '>f4')])]", "(1,)"), ErrUnsupported},
		{"objects", dict("'|O'", "(1,)"), ErrUnsupported},
		{"titles", dict("[(('t', 'a'), '<f4')]", "(1,)"), ErrUnsupported},
		{"names that are not ASCII", dict("[('\xe9', '<f4')]", "(1,)"), ErrUnsupported},
		{"no fields", dict("[]", "(1,)"), ErrFormat},
		{"a long type", dict("[('a', '<f4')"+strings.Repeat(" ", maxDescr)+"]", "(1,)"), ErrFormat},
		{"a shape beyond memory", dict("'<f4'", "(9999999999, 9999999999)"), ErrFormat},
		{"a negative shape", dict("'<f4'", "(-1,)"), ErrFormat},
		{"a number for a shape", dict("'<f4'", "(1)"), ErrFormat},
		{"33 dimensions", dict("'<f4'", "("+strings.Repeat("1, ", 33)+")"), ErrFormat},
		{"no dictionary", npy(1, ""), ErrFormat},
		{"an open dictionary", npy(1, "{'descr': '<f4', 'fortran_order': False, 'shape': (1,)"), ErrFormat},
		{"more than a dictionary", append(npy(1, "{'descr': '<f4', 'fortran_order': False, 'shape': (1,)}}"),
			"data"...), ErrFormat},
		{"a missing key", npy(1, "{'descr': '<f4', 'shape': (1,)}"), ErrFormat},
		{"a key twice", npy(1, "{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (1,)}"),
			ErrFormat},
		{"an unknown key", npy(1, "{'descr': '<f4', 'order': False, 'shape': (1,)}"), ErrFormat},
		{"a number for an order", npy(1, "{'descr': '<f4', 'fortran_order': 0, 'shape': (1,)}"), ErrFormat},
	} {
		if h, err := ParseHeader(c.b); !errors.Is(err, c.want) {
			t.Errorf("%s: %+v, error %v", c.name, h, err)
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

// samples returns n samples made of their index, as the script below makes them.
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

func TestRecordsOfGoAndNumPy(t *testing.T) {
	dir := t.TempDir()
	e, _, err := ElemOf(reflect.TypeFor[sample]())
	if err != nil {
		t.Fatal(err)
	}
	list := samples(12)
	header, err := Header{Elem: e, Shape: []int{3, 4}}.Append(nil, 4096)
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
	got, err := ParseHeader(b)
	if err != nil {
		t.Fatal(err)
	}
	if !got.Elem.Equal(e) || !cmp.Equal(got.Shape, []int{3, 4}) || got.Fortran {
		t.Fatalf("NumPy's file has %+v, expected elements %v", got, e)
	}
	back := make([]sample, 12)
	copy(sampleBytes(back), b[got.DataOffset:])
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
		b, err := Header{Elem: e, Shape: shape, Fortran: fortran}.Append(nil, align)
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

func FuzzParseHeader(f *testing.F) {
	f.Add(npy(1, "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }\n"))
	f.Add(npy(2, "{'shape': (), 'fortran_order': True, 'descr': '|b1'}"))
	f.Add(npy(2, "{'descr': '>i2', 'fortran_order': True, 'shape': (2L, 3L)}"))
	f.Add(npy(3, "{'descr': [('a', '<f4', (3,)), ('', '|V4')], 'fortran_order': False, 'shape': (3L,), }"))
	f.Add(npy(1, "{'descr': '<u2', 'fortran_order': False, 'shape': (3, 0), }"))
	f.Fuzz(func(t *testing.T, b []byte) {
		before := bytes.Clone(b)
		h, err := ParseHeader(b)
		if !bytes.Equal(before, b) {
			t.Fatal("the text was changed")
		}
		if err != nil {
			if !errors.Is(err, ErrFormat) && !errors.Is(err, ErrUnsupported) {
				t.Fatal(err)
			}
			return
		}
		if h.DataOffset > len(b) || !bytes.HasPrefix(b, []byte(magic)) {
			t.Fatalf("elements at %d of %d", h.DataOffset, len(b))
		}
		written, err := h.Append(nil, 1)
		if err != nil {
			t.Fatal(err)
		}
		again, err := ParseHeader(written)
		h.DataOffset = again.DataOffset
		if d := cmp.Diff(h, again, cmp.Comparer(sameElem)); err != nil || d != "" {
			t.Fatalf("%v (-written +read):\n%s", err, d)
		}
	})
}
