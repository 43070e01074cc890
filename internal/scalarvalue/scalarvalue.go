// Package scalarvalue takes the values of scalars out of them.
package scalarvalue

import (
	"encoding/binary"
	"math"

	"leat/ndarray"
)

// As returns the scalar as T, which must be the scalar's own type, and uint16 for the bits of a
// Float16.
func As[T ndarray.Real](s ndarray.Scalar) T {
	switch s.Type {
	case ndarray.Float32:
		return T(math.Float32frombits(uint32(s.Bits)))
	case ndarray.Float64:
		return T(math.Float64frombits(s.Bits))
	case ndarray.Uint64:
		return T(s.Bits)
	}
	return T(int64(s.Bits))
}

// Put writes the value to the first Type.Size() bytes of b, in the machine's byte order.
func Put(s ndarray.Scalar, b []byte) {
	switch s.Type.Size() {
	case 1:
		b[0] = byte(s.Bits)
	case 2:
		binary.NativeEndian.PutUint16(b, uint16(s.Bits))
	case 4:
		binary.NativeEndian.PutUint32(b, uint32(s.Bits))
	case 8:
		binary.NativeEndian.PutUint64(b, s.Bits)
	}
}
