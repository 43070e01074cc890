package npy

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"leat/ndarray"
)

// Elem is the type of an array's elements: a number, a truth value, or a record of named fields at
// fixed offsets (a structured type of NumPy, a struct of Go). It is immutable; compare by Equal,
// not by ==. The zero Elem is not a type.
type Elem struct {
	kind uint8 // index into plains; 0 for records
	rec  *record
}

// record is a structured type. Bytes that belong to no field are padding.
type record struct {
	fields []Field
	size   int // bytes
	depth  int // records within records, 1 if all fields are plain
	descr  string
}

// Field is a named part of a record.
type Field struct {
	Name   string
	Elem   Elem
	Shape  []int // of a field that is an array in C order, outermost first; nil for a single value
	Offset int   // bytes from the start of the record
}

// Limits on untrusted descriptions. NumPy holds the size of an element in 32 bits.
const (
	maxElem     = math.MaxInt32 // bytes of an element
	maxDescr    = 8 << 10       // characters of a description
	maxNesting  = 8             // records within records
	maxDims     = 32            // dimensions of an array, as in NumPy 1
	maxNameSize = 255
)

var plains = [...]struct {
	code string // as NumPy writes it
	typ  ndarray.DType
	size int
}{
	{},
	{"|b1", ndarray.NoType, 1},
	{"|u1", ndarray.Uint8, 1}, {"|i1", ndarray.Int8, 1},
	{"<u2", ndarray.Uint16, 2}, {"<i2", ndarray.Int16, 2},
	{"<u4", ndarray.Uint32, 4}, {"<i4", ndarray.Int32, 4},
	{"<u8", ndarray.Uint64, 8}, {"<i8", ndarray.Int64, 8},
	{"<f2", ndarray.Float16, 2}, {"<f4", ndarray.Float32, 4}, {"<f8", ndarray.Float64, 8},
	{"<c8", ndarray.Complex64, 8}, {"<c16", ndarray.Complex128, 16},
}

// elemBool is the type of truth values, one byte of 0 or 1, which ndarray does not know.
var elemBool = Elem{kind: 1}

// ElemOfDType returns the type of plain numbers, the zero Elem for an unknown type. Elements of an
// [ndarray.Array] are in the machine's byte order, so it describes them on little-endian machines.
func ElemOfDType(t ndarray.DType) Elem {
	if t.Valid() {
		for i, p := range plains {
			if p.typ == t {
				return Elem{kind: uint8(i)}
			}
		}
	}
	return Elem{}
}

// Size returns the bytes of one element, padding included; 0 for the zero Elem.
func (e Elem) Size() int {
	if e.rec != nil {
		return e.rec.size
	}
	return plains[e.kind].size
}

// DType returns the type of plain numbers, ndarray.NoType for truth values and records.
func (e Elem) DType() ndarray.DType { return plains[e.kind].typ }

// Descr returns NumPy's description as the Python literal that stands in the header of a .npy file,
// with its quotes or brackets. Fields without a name are padding:
//
//	'<f4'
//	[('x', '<f4'), ('', '|V4'), ('y', '<f8', (3,))]
//
// Equal types have equal descriptions.
func (e Elem) Descr() string {
	if e.rec != nil {
		return e.rec.descr
	}
	return "'" + plains[e.kind].code + "'"
}

// String returns Descr.
func (e Elem) String() string { return e.Descr() }

// Equal reports whether the types have the same fields at the same bytes.
func (e Elem) Equal(o Elem) bool {
	if e.rec == nil || o.rec == nil {
		return e == o
	}
	return e.rec == o.rec || e.rec.descr == o.rec.descr
}

// Fields returns the fields of a record in the order of their offsets, which is NumPy's order too;
// nil for plain types. The caller must not change them.
func (e Elem) Fields() []Field {
	if e.rec == nil {
		return nil
	}
	return e.rec.fields
}

// recordBuilder lays out fields one after the other.
type recordBuilder struct {
	rec   record
	names map[string]bool
}

// pad appends n bytes of padding.
func (b *recordBuilder) pad(n int) error {
	if n < 0 || n > maxElem-b.rec.size {
		return fmt.Errorf("record larger than %d bytes", maxElem)
	}
	b.rec.size += n
	return nil
}

func (b *recordBuilder) add(name string, e Elem, shape []int) error {
	if err := checkName(name); err != nil {
		return err
	}
	if b.names[name] {
		return fmt.Errorf("duplicate field %q", name)
	}
	if b.names == nil {
		b.names = map[string]bool{}
	}
	b.names[name] = true
	size, err := arraySize(e, shape)
	if err != nil {
		return fmt.Errorf("field %q: %w", name, err)
	}
	depth := 1
	if e.rec != nil {
		depth += e.rec.depth
	}
	b.rec.depth = max(b.rec.depth, depth)
	b.rec.fields = append(b.rec.fields, Field{name, e, shape, b.rec.size})
	return b.pad(size)
}

// done returns the record of the fields so far.
func (b *recordBuilder) done() (Elem, error) {
	r := b.rec
	switch {
	case len(r.fields) == 0:
		return Elem{}, errors.New("record without a named field")
	case r.depth > maxNesting:
		return Elem{}, fmt.Errorf("records nested more than %d deep", maxNesting)
	}
	if r.descr = r.describe(); len(r.descr) > maxDescr {
		return Elem{}, fmt.Errorf("description longer than %d characters", maxDescr)
	}
	return Elem{rec: &r}, nil
}

func (r *record) describe() string {
	var b []byte
	end := 0
	pad := func(to int) {
		if to > end {
			b = append(b, "('', '|V"...)
			b = strconv.AppendInt(b, int64(to-end), 10)
			b = append(b, "'), "...)
		}
	}
	b = append(b, '[')
	for _, f := range r.fields {
		pad(f.Offset)
		b = append(b, "('"...)
		b = append(b, f.Name...)
		b = append(b, "', "...)
		b = append(b, f.Elem.Descr()...)
		if len(f.Shape) > 0 {
			b = append(b, ", "...)
			b = appendTuple(b, f.Shape)
		}
		b = append(b, "), "...)
		end = f.Offset + f.Elem.Size()*product(f.Shape)
	}
	pad(r.size)
	return string(append(b[:len(b)-2], ']'))
}

// checkName accepts only names that Python writes without escapes.
func checkName(name string) error {
	if name == "" || len(name) > maxNameSize {
		return fmt.Errorf("field name of %d characters, expected 1 to %d", len(name), maxNameSize)
	}
	for _, c := range []byte(name) {
		if c < ' ' || c > '~' || c == '\'' || c == '\\' {
			return unsupported("field name %q: expected printable ASCII without quotes and backslashes", name)
		}
	}
	return nil
}

// arraySize returns the bytes of a field that is an array of e.
func arraySize(e Elem, shape []int) (int, error) {
	if len(shape) > maxDims {
		return 0, fmt.Errorf("%d dimensions, expected at most %d", len(shape), maxDims)
	}
	n := e.Size()
	for _, d := range shape {
		if d < 1 {
			return 0, errors.New("array without bytes")
		}
		if d > maxElem/n {
			return 0, fmt.Errorf("array larger than %d bytes", maxElem)
		}
		n *= d
	}
	return n, nil
}

func product(shape []int) int {
	n := 1
	for _, d := range shape {
		n *= d
	}
	return n
}

// appendTuple appends a Python tuple as Python prints it: (), (3,), (3, 4).
func appendTuple(b []byte, shape []int) []byte {
	b = append(b, '(')
	for i, d := range shape {
		if i > 0 {
			b = append(b, ", "...)
		}
		b = strconv.AppendInt(b, int64(d), 10)
	}
	if len(shape) == 1 {
		b = append(b, ',')
	}
	return append(b, ')')
}

// plainOf returns the type that NumPy writes as code, such as <f4.
func plainOf(code string) (Elem, error) {
	norm := code
	if strings.HasPrefix(code, "<") && strings.HasSuffix(code, "1") && len(code) == 3 {
		norm = "|" + code[1:] // one byte has no order
	}
	for i, p := range plains[1:] {
		if p.code == norm {
			return Elem{kind: uint8(i + 1)}, nil
		}
	}
	kind := byte(0)
	if len(code) > 1 {
		kind = code[1]
	}
	switch {
	case kind == 'O':
		return Elem{}, unsupported("%q (Python objects)", code)
	case kind == 'M' || kind == 'm':
		return Elem{}, unsupported("%q (dates)", code)
	case strings.HasPrefix(code, ">"):
		return Elem{}, unsupported("%q (big-endian)", code)
	}
	return Elem{}, unsupported("%q", code)
}

// unsupportedError marks types that NumPy knows and this package does not.
type unsupportedError string

func (e unsupportedError) Error() string { return string(e) }

func unsupported(format string, args ...any) error {
	return unsupportedError(fmt.Sprintf(format, args...))
}
