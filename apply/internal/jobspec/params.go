package jobspec

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"time"

	"leat/codec"
)

// Params identifies the parameters of a run's function: by the SHA-256 of their encoding, and by
// that of the value decoded from it. A codec may encode equal parameters differently each time, as
// gob does with maps; a value may contain what differs from process to process, such as a seed.
type Params struct {
	Params string `json:"params,omitempty"`
	Value  string `json:"params_value,omitempty"` // "" if valueSum has no result
}

// DescribeParams returns what identifies the parameters that c encodes.
func DescribeParams(c codec.Codec[any], params any) (d Params, err error) {
	text, err := c.Encode(params)
	if err != nil {
		return d, err
	}
	d.Params = fmt.Sprintf("%x", sha256.Sum256(text))
	if v, err := c.Decode(text); err == nil { // else the workers report the error
		d.Value, _ = valueSum(v)
	}
	return d, nil
}

// Equal reports whether two runs have the same parameters.
func (d *Params) Equal(other *Params) bool {
	return d.Params == other.Params || d.Value == other.Value && d.Value != ""
}

// valueSum returns the SHA-256 of a value. Two values have the same sum if they are deeply equal,
// except that NaN equals NaN, 0 does not equal -0, and the cache in a time.Location does not count.
// ok is false for values that refer to themselves or contain functions or channels.
func valueSum(v any) (sum string, ok bool) {
	s := hashInput{path: map[reference]bool{}}
	if !s.add(reflect.ValueOf(&v).Elem(), 0) {
		return "", false
	}
	return fmt.Sprintf("%x", s.sum()), true
}

// hashInput collects the bytes to hash. Each value is preceded by its kind where its type does not
// determine that.
type hashInput struct {
	b    []byte
	past [sha256.Size]byte // sum of what was collected before
	any  bool
	path map[reference]bool // references that lead to the current value
}

// reference identifies the target of a pointer, slice or map, to detect cycles.
type reference struct {
	to  uintptr
	typ reflect.Type
	n   int // elements of a slice
}

// deepest bounds the depth of nesting.
const deepest = 10000

func (s *hashInput) sum() [sha256.Size]byte {
	if s.any {
		s.b = append(s.b, s.past[:]...)
	}
	return sha256.Sum256(s.b)
}

func (s *hashInput) number(n uint64) {
	if len(s.b) > 64<<10 {
		s.past, s.any = s.sum(), true
		s.b = s.b[:0]
	}
	s.b = binary.LittleEndian.AppendUint64(s.b, n)
}

func (s *hashInput) text(t string) {
	s.number(uint64(len(t)))
	s.b = append(s.b, t...)
}

func (s *hashInput) float(f float64) {
	if math.IsNaN(f) {
		f = math.NaN()
	}
	s.number(math.Float64bits(f))
}

// addNonNil adds whether a value is nil, and reports whether it is not.
func (s *hashInput) addNonNil(v reflect.Value) bool {
	if v.IsNil() {
		s.number(0)
		return false
	}
	s.number(1)
	return true
}

func (s *hashInput) add(v reflect.Value, depth int) bool {
	if depth > deepest {
		return false
	}
	switch v.Kind() {
	case reflect.Bool:
		n := uint64(0)
		if v.Bool() {
			n = 1
		}
		s.number(n)
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		s.number(uint64(v.Int()))
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		s.number(v.Uint())
	case reflect.Float32, reflect.Float64:
		s.float(v.Float())
	case reflect.Complex64, reflect.Complex128:
		s.float(real(v.Complex()))
		s.float(imag(v.Complex()))
	case reflect.String:
		s.text(v.String())
	case reflect.Slice:
		return !s.addNonNil(v) || s.follow(v, v.Len(), func() bool {
			s.number(uint64(v.Len()))
			return s.all(v, depth)
		})
	case reflect.Array:
		return s.all(v, depth)
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type() == zoneType && strings.HasPrefix(v.Type().Field(i).Name, "cache") {
				continue
			}
			if !s.add(v.Field(i), depth+1) {
				return false
			}
		}
	case reflect.Pointer:
		return !s.addNonNil(v) || s.follow(v, 0, func() bool { return s.add(v.Elem(), depth+1) })
	case reflect.Interface:
		if s.addNonNil(v) {
			t := v.Elem().Type()
			s.text(t.PkgPath())
			s.text(t.String())
			return s.add(v.Elem(), depth+1)
		}
	case reflect.Map:
		return !s.addNonNil(v) || s.follow(v, 0, func() bool { return s.entries(v, depth) })
	default: // functions, channels and the like
		return !s.addNonNil(v)
	}
	return true
}

// follow adds what v refers to; it returns false if v is part of a cycle.
func (s *hashInput) follow(v reflect.Value, n int, add func() bool) bool {
	r := reference{v.Pointer(), v.Type(), n}
	if s.path[r] {
		return false
	}
	s.path[r] = true
	defer delete(s.path, r)
	return add()
}

var zoneType = reflect.TypeFor[time.Location]()

func (s *hashInput) all(v reflect.Value, depth int) bool {
	for i := range v.Len() {
		if !s.add(v.Index(i), depth+1) {
			return false
		}
	}
	return true
}

// entries adds the entries of a map, in an order independent of the map's.
func (s *hashInput) entries(v reflect.Value, depth int) bool {
	sums := make([][sha256.Size]byte, 0, v.Len())
	for entries := v.MapRange(); entries.Next(); {
		e := hashInput{path: s.path}
		if !e.add(entries.Key(), depth+1) || !e.add(entries.Value(), depth+1) {
			return false
		}
		sums = append(sums, e.sum())
	}
	slices.SortFunc(sums, func(a, b [sha256.Size]byte) int { return bytes.Compare(a[:], b[:]) })
	s.number(uint64(len(sums)))
	for _, e := range sums {
		s.number(uint64(len(e)))
		s.b = append(s.b, e[:]...)
	}
	return true
}
