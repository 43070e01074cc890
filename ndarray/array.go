package ndarray

import (
	"fmt"
	"math"
	"unsafe"
)

// Array is a view of typed elements in bytes. Copying the struct copies the view, not the elements.
type Array struct {
	Type    DType
	Shape   []int  // elements along each dimension, outermost first
	Strides []int  // bytes from one element to the next along each dimension; may be negative or 0
	Offset  int    // byte of Data at which the element with all indices 0 begins
	Data    []byte // owned by whoever made the array
}

// New returns a zeroed array in C order, its data aligned to 8 bytes. It panics when the type is
// unknown or the size in bytes overflows int: check untrusted sizes with [ByteSize] first.
func New(t DType, shape ...int) *Array {
	n, ok := ByteSize(t, shape...)
	if !ok {
		panic(fmt.Sprintf("ndarray: New of type %v and shape %v", t, shape))
	}
	return FromBytes(t, BytesOf(make([]uint64, (n+7)/8)), shape...)
}

// FromBytes returns an array in C order over data, without copying it. It panics when data is
// shorter than the array.
func FromBytes(t DType, data []byte, shape ...int) *Array {
	n, ok := ByteSize(t, shape...)
	if !ok || len(data) < n {
		panic(fmt.Sprintf("ndarray: %d bytes for type %v and shape %v", len(data), t, shape))
	}
	a := &Array{Type: t, Shape: append([]int(nil), shape...), Data: data[:n:n]}
	a.Strides = make([]int, len(shape))
	step := t.Size()
	for i := len(shape) - 1; i >= 0; i-- {
		a.Strides[i] = step
		step *= shape[i]
	}
	return a
}

// FromSlice returns an array in C order over s, without copying it. It panics when s is shorter
// than the array.
func FromSlice[T Element](s []T, shape ...int) *Array {
	return FromBytes(TypeOf[T](), BytesOf(s), shape...)
}

// ByteSize returns the size of an array in bytes. It returns false when the type is unknown, a
// dimension is negative, or the size overflows int.
func ByteSize(t DType, shape ...int) (int, bool) {
	if !t.Valid() {
		return 0, false
	}
	n := t.Size()
	for _, d := range shape {
		if d < 0 || (d > 0 && n > math.MaxInt/d) {
			return 0, false
		}
		n *= d
	}
	return n, true
}

// Len returns the number of elements.
func (a *Array) Len() int {
	n := 1
	for _, d := range a.Shape {
		n *= d
	}
	return n
}

// Contiguous reports whether the elements are in C order without gaps.
func (a *Array) Contiguous() bool {
	step := a.Type.Size()
	for i := len(a.Shape) - 1; i >= 0; i-- {
		if a.Shape[i] > 1 && a.Strides[i] != step {
			return false
		}
		step *= a.Shape[i]
	}
	return true
}

// At returns the view with the first index fixed: one band of an array of bands, rows and columns.
// It panics when i is out of range.
func (a *Array) At(i int) *Array {
	if i < 0 || i >= a.Shape[0] {
		panic(fmt.Sprintf("ndarray: index %d of %d", i, a.Shape[0]))
	}
	return &Array{Type: a.Type, Shape: a.Shape[1:], Strides: a.Strides[1:], Offset: a.Offset + i*a.Strides[0],
		Data: a.Data}
}

// Raw returns the bytes of a contiguous array without copying them. It panics when the array is not
// contiguous.
func (a *Array) Raw() []byte {
	if !a.Contiguous() {
		panic("ndarray: Raw of an array that is not contiguous")
	}
	n := a.Len() * a.Type.Size()
	return a.Data[a.Offset : a.Offset+n : a.Offset+n]
}

// Slice returns the elements of a contiguous array as a Go slice that shares its memory. It panics
// when T is not the array's element type or the array is not contiguous. Float16 arrays are
// returned as uint16.
func Slice[T Element](a *Array) []T {
	want := a.Type
	if want == Float16 {
		want = Uint16
	}
	if TypeOf[T]() != want {
		panic(fmt.Sprintf("ndarray: Slice[%v] of an array of %v", TypeOf[T](), a.Type))
	}
	return Cast[T](a.Raw())
}

// Cast returns b as a slice of T without copying it, its length rounded down to whole elements.
// It panics when b is not aligned for T.
func Cast[T Element](b []byte) []T {
	var z T
	n := len(b) / int(unsafe.Sizeof(z))
	if n == 0 {
		return nil
	}
	p := unsafe.Pointer(unsafe.SliceData(b))
	if uintptr(p)%unsafe.Alignof(z) != 0 {
		panic("ndarray: bytes are not aligned for their elements")
	}
	return unsafe.Slice((*T)(p), n)
}

// BytesOf returns the memory of s as bytes without copying it.
func BytesOf[T Element](s []T) []byte {
	if len(s) == 0 {
		return nil
	}
	var z T
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(s))), len(s)*int(unsafe.Sizeof(z)))
}
