package ndarray

import (
	"fmt"
	"strings"
)

// DType is the type of an array's elements.
type DType uint8

// The element types. Go has no float16: Float16 elements are uint16 bit patterns, see
// [Float16ToFloat32]. The zero DType is not an element type.
const (
	NoType DType = iota
	Uint8
	Int8
	Uint16
	Int16
	Uint32
	Int32
	Uint64
	Int64
	Float16
	Float32
	Float64
	Complex64
	Complex128
	numTypes
)

var dtypes = [numTypes]struct {
	name string // NumPy's
	gdal string
	size int
}{
	NoType: {"none", "", 0}, Uint8: {"uint8", "Byte", 1}, Int8: {"int8", "Int8", 1},
	Uint16: {"uint16", "UInt16", 2}, Int16: {"int16", "Int16", 2}, Uint32: {"uint32", "UInt32", 4},
	Int32: {"int32", "Int32", 4}, Uint64: {"uint64", "UInt64", 8}, Int64: {"int64", "Int64", 8},
	Float16: {"float16", "Float16", 2}, Float32: {"float32", "Float32", 4}, Float64: {"float64", "Float64", 8},
	Complex64: {"complex64", "CFloat32", 8}, Complex128: {"complex128", "CFloat64", 16},
}

// String returns NumPy's name of the type, such as "uint16".
func (t DType) String() string {
	if t >= numTypes {
		return fmt.Sprintf("DType(%d)", uint8(t))
	}
	return dtypes[t].name
}

// Size returns the size of one element in bytes, 0 for an unknown type.
func (t DType) Size() int {
	if t >= numTypes {
		return 0
	}
	return dtypes[t].size
}

// Valid reports whether t is one of the element types.
func (t DType) Valid() bool { return t > NoType && t < numTypes }

// IsInteger reports whether t is a signed or unsigned integer type.
func (t DType) IsInteger() bool { return t >= Uint8 && t <= Int64 }

// IsSigned reports whether t is a signed integer type.
func (t DType) IsSigned() bool { return t == Int8 || t == Int16 || t == Int32 || t == Int64 }

// IsFloat reports whether t is a real floating-point type.
func (t DType) IsFloat() bool { return t >= Float16 && t <= Float64 }

// IsComplex reports whether t is a complex type.
func (t DType) IsComplex() bool { return t == Complex64 || t == Complex128 }

// otherTypeNames are C's names of types.
var otherTypeNames = map[string]DType{"float": Float32, "double": Float64}

// ParseDType returns the type that has NumPy's name s ("uint8", "float32"), GDAL's ("Byte",
// "UInt16", "CFloat32") or C's ("float", "double"), in upper or lower case.
func ParseDType(s string) (DType, error) {
	var names []string
	for t := Uint8; t < numTypes; t++ {
		if strings.EqualFold(dtypes[t].name, s) || strings.EqualFold(dtypes[t].gdal, s) {
			return t, nil
		}
		names = append(names, dtypes[t].name)
	}
	if t, ok := otherTypeNames[strings.ToLower(s)]; ok {
		return t, nil
	}
	return NoType, fmt.Errorf("ndarray: unknown element type %q: expected one of %s", s, strings.Join(names, " "))
}

// Element lists the Go types that array elements can have.
type Element interface {
	uint8 | int8 | uint16 | int16 | uint32 | int32 | uint64 | int64 | float32 | float64 | complex64 | complex128
}

// Real lists the ordered Go types that array elements can have.
type Real interface {
	uint8 | int8 | uint16 | int16 | uint32 | int32 | uint64 | int64 | float32 | float64
}

// TypeOf returns the DType of the Go type T.
func TypeOf[T Element]() DType {
	var z T
	switch any(z).(type) {
	case uint8:
		return Uint8
	case int8:
		return Int8
	case uint16:
		return Uint16
	case int16:
		return Int16
	case uint32:
		return Uint32
	case int32:
		return Int32
	case uint64:
		return Uint64
	case int64:
		return Int64
	case float32:
		return Float32
	case float64:
		return Float64
	case complex64:
		return Complex64
	default:
		return Complex128
	}
}
