package npy

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"leat/internal/pytest"
	"leat/ndarray"
)

type point struct {
	X, Y, Z float32
}

type kelvin float64

type pixel struct {
	Quality  bool
	Position point
	Bands    [2][3]uint16 `numpy:"bands"`
	T        kelvin       `numpy:"t [K]"`
	hidden   int32        //lint:ignore U1000 padding
	Count    uint8
}

type embedding struct {
	point
	Pixel  pixel `numpy:"p"`
	Tagged int8  `numpy:"-"`
	_      [0]func()
	Last   complex64
}

type Exported struct{ A int16 }

// allKinds and the others here are checked with NumPy, too.
type allKinds struct {
	B    bool
	I8   int8
	I16  int16
	I32  int32
	I64  int64
	U8   uint8
	U16  uint16
	U32  uint32
	U64  uint64
	F32  float32
	F64  float64
	C64  complex64
	C128 complex128
	Int  int
	Uint uint
	Exported
}

var goTypes = []struct {
	value any
	descr string
}{
	{false, "'|b1'"},
	{uint8(0), "'|u1'"},
	{int8(0), "'|i1'"},
	{int(0), "'<i8'"},
	{uint(0), "'<u8'"},
	{kelvin(0), "'<f8'"},
	{complex(float32(0), 0), "'<c8'"},
	{complex128(0), "'<c16'"},
	{point{}, "[('X', '<f4'), ('Y', '<f4'), ('Z', '<f4')]"},
	{pixel{}, "[('Quality', '|b1'), ('', '|V3'), ('Position', [('X', '<f4'), ('Y', '<f4'), ('Z', '<f4')]), ('bands', '<u2', (2, 3)), " +
		"('', '|V4'), ('t [K]', '<f8'), ('', '|V4'), ('Count', '|u1'), ('', '|V3')]"},
	{embedding{}, "[('', '|V16'), ('p', [('Quality', '|b1'), ('', '|V3'), ('Position', [('X', '<f4'), ('Y', '<f4'), ('Z', '<f4')]), " +
		"('bands', '<u2', (2, 3)), ('', '|V4'), ('t [K]', '<f8'), ('', '|V4'), ('Count', '|u1'), ('', '|V3')]), " +
		"('', '|V8'), ('Last', '<c8')]"},
	{struct{ P [3]struct{ A, B int8 } }{}, "[('P', [('A', '|i1'), ('B', '|i1')], (3,))]"},
	{struct {
		A int8
		_ [5]byte
		B int64
	}{}, "[('A', '|i1'), ('', '|V7'), ('B', '<i8')]"},
	{allKinds{}, "[('B', '|b1'), ('I8', '|i1'), ('I16', '<i2'), ('I32', '<i4'), ('I64', '<i8'), ('U8', '|u1'), ('', '|V1'), ('U16', '<u2'), " +
		"('U32', '<u4'), ('U64', '<u8'), ('F32', '<f4'), ('', '|V4'), ('F64', '<f8'), ('C64', '<c8'), ('C128', '<c16'), ('Int', '<i8'), " +
		"('Uint', '<u8'), ('Exported', [('A', '<i2')]), ('', '|V6')]"},
}

func TestElemOf(t *testing.T) {
	for _, c := range goTypes {
		e, _, err := ElemOf(reflect.TypeOf(c.value))
		if err != nil {
			t.Errorf("%T: %v", c.value, err)
			continue
		}
		if d := cmp.Diff(c.descr, e.Descr()); d != "" {
			t.Errorf("%T (-expected +got):\n%s", c.value, d)
		}
		if want := int(reflect.TypeOf(c.value).Size()); e.Size() != want {
			t.Errorf("%T has %d bytes, its Elem %d", c.value, want, e.Size())
		}
		back, err := ParseElem(c.descr)
		if err != nil || !back.Equal(e) || !e.Equal(back) {
			t.Errorf("%T: ParseElem gives %v, %v", c.value, back, err)
		}
	}
}

func TestElemOfArray(t *testing.T) {
	e, shape, err := ElemOf(reflect.TypeFor[[2][3]point]())
	if err != nil {
		t.Fatal(err)
	}
	want, _, _ := ElemOf(reflect.TypeFor[point]())
	if d := cmp.Diff([]int{2, 3}, shape); d != "" || !e.Equal(want) {
		t.Errorf("%v %s", e, d)
	}
	if e, shape, err := ElemOf(reflect.TypeFor[float32]()); err != nil || shape != nil ||
		e.DType() != ndarray.Float32 {
		t.Errorf("float32 is %v, %v, %v", e, shape, err)
	}
}

func TestElemOfErrors(t *testing.T) {
	type named struct {
		ID   int
		Name string
	}
	type deep struct {
		A [4]struct{ B []named }
	}
	type inner struct{ err error }
	type outer struct{ Inner inner }
	structOf := func(t reflect.Type) reflect.Type {
		return reflect.StructOf([]reflect.StructField{{Name: "A", Type: t}})
	}
	huge := reflect.ArrayOf(1<<31, reflect.TypeFor[byte]())
	for _, c := range []struct {
		value any
		want  string
	}{
		{named{}, "named.Name is a string"},
		{deep{}, "deep.A[].B is a slice"},
		{outer{inner{nil}}, "outer.Inner.err is a interface"},
		{"", "element is a string"},
		{[]int{}, "element is a slice"},
		{[2]*int{}, "element[] is a ptr"},
		{struct{ _ *int }{}, "struct._ is a ptr"},
		{struct{ M map[int]int }{}, "struct.M is a map"},
		{struct{ C chan int }{}, "struct.C is a chan"},
		{struct{ F func() }{}, "struct.F is a func"},
		{struct{ U uintptr }{}, "struct.U is a uintptr"},
		{struct{ E any }{}, "struct.E is a interface"},
		{struct {
			P *int `numpy:"-"`
		}{}, "struct.P is a ptr"},
		{struct{}{}, "without a named field"},
		{struct{ _ int }{}, "without a named field"},
		{struct{ A [0]int }{}, "struct.A: field \"A\": array without bytes"},
		{[0]int{}, "array without bytes"},
		{struct {
			A int `numpy:"B"`
			B int
		}{}, `duplicate field "B"`},
		{struct {
			A int `numpy:""`
		}{}, "field name of 0 characters"},
		{struct {
			A int `numpy:"it's"`
		}{}, "field name \"it's\""},
		{struct{ Größe int }{}, "field name \"Größe\""},
		{struct {
			a int8 `numpy:"a"`
			B int8
		}{}, "struct.a is unexported and has a numpy tag"},
		{structOf(huge), "larger than"},
		{structOf(structOf(huge)), "larger than"},
		{huge, "larger than"},
	} {
		typ, ok := c.value.(reflect.Type)
		if !ok {
			typ = reflect.TypeOf(c.value)
		}
		_, _, err := ElemOf(typ)
		if !errors.Is(err, ErrUnsupported) || !strings.Contains(fmt.Sprint(err), c.want) {
			t.Errorf("%.80v: error %v, expected %q", typ, err, c.want)
		}
	}
	if _, _, err := ElemOf(nil); !errors.Is(err, ErrUnsupported) {
		t.Errorf("no type: %v", err)
	}
	typ := reflect.TypeFor[int]()
	for range maxNesting {
		typ = structOf(typ)
	}
	if _, _, err := ElemOf(typ); err != nil {
		t.Error(err)
	}
	typ = structOf(typ)
	if _, _, err := ElemOf(typ); err == nil || !strings.Contains(err.Error(), "nested") {
		t.Errorf("nested structs: %v", err)
	}
}

func TestParseElem(t *testing.T) {
	nested := func(n int) string {
		return strings.Repeat("[('a', ", n) + "'<f4'" + strings.Repeat(")]", n)
	}
	for _, c := range []struct{ descr, want string }{
		{"'<f4'", "'<f4'"},
		{`"<f4"`, "'<f4'"},
		{" '<u1' ", "'|u1'"},
		{"[('a', '<f4',),]", "[('a', '<f4')]"},
		{"[( \"a\" ,'<f4',(3,),) , ('','|V2'),('','|V3')]", "[('a', '<f4', (3,)), ('', '|V5')]"},
		{"[('a', '<f4', ())]", "[('a', '<f4')]"},
		{nested(8), nested(8)},
	} {
		e, err := ParseElem(c.descr)
		if err != nil || e.Descr() != c.want {
			t.Errorf("%q: %v, %v", c.descr, e, err)
		}
	}
	for _, c := range []struct{ name, descr, want string }{
		{"nothing", "", "expected a string"},
		{"no quotes", "<f4", "expected a string"},
		{"an open quote", "'<f4", "unterminated"},
		{"two types", "'<f4' '<f4'", "text after"},
		{"big-endian", "'>f4'", "big-endian"},
		{"big-endian bytes", "'>u1'", "big-endian"},
		{"native order", "'=f4'", "unsupported"},
		{"no order", "'|f4'", "unsupported"},
		{"objects", "'|O'", "Python objects"},
		{"dates", "'<M8[ns]'", "dates"},
		{"texts", "'<U3'", "<U3"},
		{"bytes", "'|S3'", ""},
		{"a void", "'|V4'", ""},
		{"extended floats", "'<f16'", ""},
		{"an escape", `'\x3cf4'`, "backslash"},
		{"no fields", "[]", "without a named field"},
		{"padding alone", "[('', '|V4')]", "without a named field"},
		{"a field without type", "[('a',)]", "expected a string"},
		{"a name that is not text", "[(3, '<f4')]", "expected a string"},
		{"a title", "[(('t', 'a'), '<f4')]", "title"},
		{"a name twice", "[('a', '<f4'), ('a', '<f4')]", "duplicate field"},
		{"a name that is not ASCII", "[('é', '<f4')]", "ASCII"},
		{"a name with a newline", "[('a\n', '<f4')]", "ASCII"},
		{"a long name", "[('" + strings.Repeat("a", 256) + "', '<f4')]", "255"},
		{"no name for a number", "[('', '<f4')]", "expected padding"},
		{"padding of nothing", "[('', '|V0')]", "expected padding"},
		{"padding of less", "[('a', '<f4'), ('', '|V-4')]", "expected padding"},
		{"huge padding", "[('a', '<f4'), ('', '|V2147483647')]", "larger"},
		{"padding beyond numbers", "[('a', '<f4'), ('', '|V99999999999999999999')]", "expected padding"},
		{"padding with a shape", "[('', '|V4', (3,)), ('a', '<f4')]", "expected ')'"},
		{"an empty shape", "[('a', '<f4', (0,))]", "without bytes"},
		{"a negative shape", "[('a', '<f4', (-1,))]", "expected a dimension"},
		{"a huge shape", "[('a', '<f4', (65536, 65536))]", "larger"},
		{"a shape whose size is 0 in 64 bits", "[('a', '<f4', (65536, 65536, 65536, 65536))]", "larger"},
		{"a shape beyond numbers", "[('a', '<f4', (99999999999999999999,))]", "expected a dimension"},
		{"a number for a shape", "[('a', '<f4', 3)]", "expected '('"},
		{"a number in brackets", "[('a', '<f4', (3))]", "expected a tuple"},
		{"33 dimensions", "[('a', '<f4', (" + strings.Repeat("1, ", 33) + "))]", "32"},
		{"four parts", "[('a', '<f4', (3,), 4)]", "expected ')'"},
		{"nine records", nested(9), "nested"},
		{"brackets without end", strings.Repeat("[('a', ", 1000), "nested"},
		{"a comma at the begin", "[, ('a', '<f4')]", "expected '('"},
		{"two commas", "[('a', '<f4'),, ('b', '<f4')]", "expected '('"},
		{"no comma", "[('a', '<f4') ('b', '<f4')]", "expected ','"},
		{"a NUL", "'<f4'\x00", "text after"},
		{"a text that is too long with its blanks", "[" + denseFields(540) + "]", "description longer"},
		{"a long text", "'<f4'" + strings.Repeat(" ", maxDescr), "characters"},
		{"a call", "[('a', f())]", "expected a string"},
	} {
		e, err := ParseElem(c.descr)
		if !errors.Is(err, ErrFormat) && !errors.Is(err, ErrUnsupported) || !strings.Contains(fmt.Sprint(err), c.want) {
			t.Errorf("%s: %v, error %v, expected %q", c.name, e, err, c.want)
		}
		if len(fmt.Sprint(err)) > 500 {
			t.Errorf("%s: the error is too long: %v", c.name, err)
		}
	}
}

// denseFields are fields with names of three digits, without blanks between them.
func denseFields(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "('%03d','|u1'),", i)
	}
	return b.String()
}

func TestFields(t *testing.T) {
	e, _, err := ElemOf(reflect.TypeFor[pixel]())
	if err != nil {
		t.Fatal(err)
	}
	position, _, err := ElemOf(reflect.TypeFor[point]())
	if err != nil {
		t.Fatal(err)
	}
	want := []Field{
		{"Quality", elemBool, nil, 0},
		{"Position", position, nil, 4},
		{"bands", ElemOfDType(ndarray.Uint16), []int{2, 3}, 16},
		{"t [K]", ElemOfDType(ndarray.Float64), nil, 32},
		{"Count", ElemOfDType(ndarray.Uint8), nil, 44},
	}
	if d := cmp.Diff(want, e.Fields(), cmp.Comparer(Elem.Equal)); d != "" {
		t.Errorf("(-expected +got):\n%s", d)
	}
	if elemBool.Fields() != nil {
		t.Error("a truth value has fields")
	}
}

func TestElemOfDType(t *testing.T) {
	for d := ndarray.Uint8; d.Valid(); d++ {
		e := ElemOfDType(d)
		back, err := ParseElem(e.Descr())
		if err != nil || e.DType() != d || e.Size() != d.Size() || !back.Equal(e) || back != e {
			t.Errorf("%v is %v of %d bytes, read back as %v, %v", d, e, e.Size(), back, err)
		}
	}
	for _, d := range []ndarray.DType{ndarray.NoType, 200} {
		if e := ElemOfDType(d); e != (Elem{}) || e.Size() != 0 {
			t.Errorf("%v is %v", d, e)
		}
	}
}

// elems draws element types, those of records too.
func elems(depth int) *rapid.Generator[Elem] {
	return rapid.Custom(func(t *rapid.T) Elem {
		if depth == 0 || rapid.IntRange(0, 2).Draw(t, "kind") == 0 {
			return Elem{kind: uint8(rapid.IntRange(1, len(plains)-1).Draw(t, "plain"))}
		}
		var b recordBuilder
		for i, n := 0, rapid.IntRange(1, 4).Draw(t, "fields"); i < n; i++ {
			if err := b.pad(rapid.IntRange(0, 9).Draw(t, "padding")); err != nil {
				t.Fatal(err)
			}
			name := rapid.StringMatching(`[a-zA-Z][a-z0-9_ :,"%\]]{0,5}`).Draw(t, "name") + fmt.Sprint(i)
			shape := rapid.SliceOfN(rapid.IntRange(1, 4), 0, 3).Draw(t, "shape")
			if err := b.add(name, elems(depth-1).Draw(t, "element"), shape); err != nil {
				t.Fatal(err)
			}
		}
		if err := b.pad(rapid.IntRange(0, 9).Draw(t, "padding")); err != nil {
			t.Fatal(err)
		}
		e, err := b.done()
		if err != nil {
			t.Fatal(err)
		}
		return e
	})
}

func TestElemRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := elems(3).Draw(t, "element")
		back, err := ParseElem(e.Descr())
		if err != nil {
			t.Fatal(err)
		}
		if !sameElem(e, back) {
			t.Fatalf("%v came back as %v", e, back)
		}
	})
}

// sameElem compares structures, not descriptions.
func sameElem(a, b Elem) bool {
	if a.rec == nil || b.rec == nil {
		return a == b
	}
	if a.Size() != b.Size() || len(a.Fields()) != len(b.Fields()) {
		return false
	}
	for i, f := range a.Fields() {
		g := b.Fields()[i]
		if f.Name != g.Name || f.Offset != g.Offset || !slices.Equal(f.Shape, g.Shape) || !sameElem(f.Elem, g.Elem) {
			return false
		}
	}
	return a.Equal(b)
}

// layout is what NumPy reports about a type.
type layout struct {
	Size    int
	Names   []string
	Offsets []int
	Shapes  [][]int
	Fields  []string
	Descr   string
}

func TestNumPyAgreesOnElements(t *testing.T) {
	var list []Elem
	for _, c := range goTypes {
		e, _, err := ElemOf(reflect.TypeOf(c.value))
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, e)
	}
	for i := range 300 {
		list = append(list, elems(3).Example(i))
	}
	var descrs []string
	var want, got []layout
	for _, e := range list {
		descrs = append(descrs, e.Descr())
		l := layout{Size: e.Size(), Names: []string{}, Offsets: []int{}, Shapes: [][]int{}, Fields: []string{},
			Descr: e.Descr()}
		for _, f := range e.Fields() {
			l.Names, l.Offsets = append(l.Names, f.Name), append(l.Offsets, f.Offset)
			l.Shapes, l.Fields = append(l.Shapes, append([]int{}, f.Shape...)), append(l.Fields, f.Elem.Descr())
		}
		want = append(want, l)
	}
	pytest.Run(t, []string{"numpy"}, `
import ast, json, sys
import numpy as np
describe = np.lib.format.dtype_to_descr
out = []
for text in json.load(sys.stdin):
    d = np.lib.format.descr_to_dtype(ast.literal_eval(text))
    names = d.names or ()
    fields = [d.fields[n][0] for n in names]
    out.append(dict(Size=d.itemsize, Names=list(names),
        Offsets=[d.fields[n][1] for n in names], Shapes=[f.shape for f in fields],
        Fields=[repr(describe(f.base)) for f in fields], Descr=repr(describe(d))))
json.dump(out, sys.stdout)
`, descrs, &got)
	for i := range want {
		if d := cmp.Diff(want[i], got[i]); d != "" {
			t.Errorf("%s (-ours +NumPy's):\n%s", descrs[i], d)
		}
	}
}

func FuzzParseElem(f *testing.F) {
	for _, c := range goTypes {
		f.Add(c.descr)
	}
	f.Add("[('a', '<f4', (3, 4)), ('', '|V4'), (\"b\", [('c', '|b1'),])]")
	f.Fuzz(func(t *testing.T, s string) {
		e, err := ParseElem(s)
		if err != nil {
			if !errors.Is(err, ErrFormat) && !errors.Is(err, ErrUnsupported) {
				t.Fatalf("%v", err)
			}
			return
		}
		if e.Size() < 1 || e.Size() > maxElem || len(e.Descr()) > maxDescr {
			t.Fatalf("%v has %d bytes", e, e.Size())
		}
		back, err := ParseElem(e.Descr())
		if err != nil || !sameElem(e, back) || back.Descr() != e.Descr() {
			t.Fatalf("%v came back as %v, %v", e, back, err)
		}
	})
}
