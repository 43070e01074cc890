package expr

import (
	"encoding/binary"
	"math"

	"leat/ndarray"
)

type real interface{ float32 | float64 }

// The kernels process slices of one length. The result d may be one of the operands. Each kernel
// rounds once per element, so the compiler has nothing to fuse into a multiply-add.

func add[T real](d, a, b []T) {
	a, b = a[:len(d)], b[:len(d)]
	for i := range d {
		d[i] = a[i] + b[i]
	}
}

func sub[T real](d, a, b []T) {
	a, b = a[:len(d)], b[:len(d)]
	for i := range d {
		d[i] = a[i] - b[i]
	}
}

func mul[T real](d, a, b []T) {
	a, b = a[:len(d)], b[:len(d)]
	for i := range d {
		d[i] = a[i] * b[i]
	}
}

func div[T real](d, a, b []T) {
	a, b = a[:len(d)], b[:len(d)]
	for i := range d {
		d[i] = a[i] / b[i]
	}
}

func addK[T real](d, a []T, k T) {
	a = a[:len(d)]
	for i := range d {
		d[i] = a[i] + k
	}
}

func subK[T real](d, a []T, k T) {
	a = a[:len(d)]
	for i := range d {
		d[i] = a[i] - k
	}
}

func kSub[T real](d, a []T, k T) {
	a = a[:len(d)]
	for i := range d {
		d[i] = k - a[i]
	}
}

func mulK[T real](d, a []T, k T) {
	a = a[:len(d)]
	for i := range d {
		d[i] = a[i] * k
	}
}

func divK[T real](d, a []T, k T) {
	a = a[:len(d)]
	for i := range d {
		d[i] = a[i] / k
	}
}

func kDiv[T real](d, a []T, k T) {
	a = a[:len(d)]
	for i := range d {
		d[i] = k / a[i]
	}
}

func minVV[T real](d, a, b []T) {
	a, b = a[:len(d)], b[:len(d)]
	for i := range d {
		d[i] = min(a[i], b[i])
	}
}

func maxVV[T real](d, a, b []T) {
	a, b = a[:len(d)], b[:len(d)]
	for i := range d {
		d[i] = max(a[i], b[i])
	}
}

func minK[T real](d, a []T, k T) {
	a = a[:len(d)]
	for i := range d {
		d[i] = min(a[i], k)
	}
}

func maxK[T real](d, a []T, k T) {
	a = a[:len(d)]
	for i := range d {
		d[i] = max(a[i], k)
	}
}

// mod computes the remainder with the sign of the divisor, NaN for a divisor of 0.
func mod[T real](d, a, b []T) {
	a, b = a[:len(d)], b[:len(d)]
	for i := range d {
		x, y := a[i], b[i]
		r := T(math.Mod(float64(x), float64(y)))
		switch {
		case r == 0:
			r = T(math.Copysign(0, float64(y)))
		case (r < 0) != (y < 0) && r == r:
			r += y
		}
		d[i] = r
	}
}

// modInt is mod for whole numbers within 2^53. The values of invalid pixels are arbitrary.
func modInt[T real](d, a, b []T) {
	a, b = a[:len(d)], b[:len(d)]
	for i := range d {
		x, y := int64(a[i]), int64(b[i])
		if nan := a[i] + b[i]; y == 0 || nan != nan { // a NaN operand gives NaN, as does a divisor of 0
			d[i] = T(math.NaN())
			continue
		}
		r := x % y
		if r != 0 && (r < 0) != (y < 0) {
			r += y
		}
		d[i] = T(r)
	}
}

// each2 returns the kernel of a function of two numbers, computed in float64: fast for float32
// results, whose rounding hides small errors, and exact for float64 results.
func each2[T real](fast, exact func(a, b float64) float64) func(d, a, b []T) {
	f := exact
	if isFloat32[T]() {
		f = fast
	}
	return func(d, a, b []T) {
		a, b = a[:len(d)], b[:len(d)]
		for i := range d {
			d[i] = T(f(float64(a[i]), float64(b[i])))
		}
	}
}

// each returns the kernel of a function of one number, as each2 does.
func each[T real](fast, exact func(a float64) float64) func(d, a []T) {
	f := exact
	if isFloat32[T]() {
		f = fast
	}
	return func(d, a []T) {
		a = a[:len(d)]
		for i := range d {
			d[i] = T(f(float64(a[i])))
		}
	}
}

func isFloat32[T real]() bool {
	_, ok := any(T(0)).(float32)
	return ok
}

func neg[T real](d, a []T) {
	a = a[:len(d)]
	for i := range d {
		d[i] = -a[i]
	}
}

func abs[T real](d, a []T) {
	a = a[:len(d)]
	for i := range d {
		d[i] = T(math.Abs(float64(a[i])))
	}
}

func sqrt[T real](d, a []T) {
	a = a[:len(d)]
	for i := range d {
		d[i] = T(math.Sqrt(float64(a[i])))
	}
}

func floor[T real](d, a []T) {
	a = a[:len(d)]
	for i := range d {
		d[i] = T(math.Floor(float64(a[i])))
	}
}

func ceil[T real](d, a []T) {
	a = a[:len(d)]
	for i := range d {
		d[i] = T(math.Ceil(float64(a[i])))
	}
}

func round[T real](d, a []T) {
	a = a[:len(d)]
	for i := range d {
		d[i] = T(math.RoundToEven(float64(a[i])))
	}
}

// one returns 1 for true. It compiles to a single instruction.
func one(b bool) byte {
	if b {
		return 1
	}
	return 0
}

func compare[T real](o op, a, b T) bool {
	switch o {
	case opLt:
		return a < b
	case opLe:
		return a <= b
	case opGt:
		return a > b
	case opGe:
		return a >= b
	case opEq:
		return a == b
	}
	return a != b
}

func less[T real](d []byte, a, b []T) {
	a, b = a[:len(d)], b[:len(d)]
	for i := range d {
		d[i] = one(a[i] < b[i])
	}
}

func lessEqual[T real](d []byte, a, b []T) {
	a, b = a[:len(d)], b[:len(d)]
	for i := range d {
		d[i] = one(a[i] <= b[i])
	}
}

func equal[T real](d []byte, a, b []T) {
	a, b = a[:len(d)], b[:len(d)]
	for i := range d {
		d[i] = one(a[i] == b[i])
	}
}

func notEqual[T real](d []byte, a, b []T) {
	a, b = a[:len(d)], b[:len(d)]
	for i := range d {
		d[i] = one(a[i] != b[i])
	}
}

func lessK[T real](d []byte, a []T, k T) {
	a = a[:len(d)]
	for i := range d {
		d[i] = one(a[i] < k)
	}
}

func lessEqualK[T real](d []byte, a []T, k T) {
	a = a[:len(d)]
	for i := range d {
		d[i] = one(a[i] <= k)
	}
}

func greaterK[T real](d []byte, a []T, k T) {
	a = a[:len(d)]
	for i := range d {
		d[i] = one(a[i] > k)
	}
}

func greaterEqualK[T real](d []byte, a []T, k T) {
	a = a[:len(d)]
	for i := range d {
		d[i] = one(a[i] >= k)
	}
}

func equalK[T real](d []byte, a []T, k T) {
	a = a[:len(d)]
	for i := range d {
		d[i] = one(a[i] == k)
	}
}

func notEqualK[T real](d []byte, a []T, k T) {
	a = a[:len(d)]
	for i := range d {
		d[i] = one(a[i] != k)
	}
}

// where computes d = c ? a : b. For integers the compiler emits a conditional move instead of a
// branch, so floats are passed as bits.
func where[T uint32 | uint64](d []T, c []byte, a, b []T) {
	c, a, b = c[:len(d)], a[:len(d)], b[:len(d)]
	i := 0
	if d32, ok := any(d).([]uint32); ok {
		i = where32Fast(d32, c, any(a).([]uint32), any(b).([]uint32))
	}
	for ; i < len(d); i++ {
		v, w := a[i], b[i]
		if c[i] != 0 {
			w = v
		}
		d[i] = w
	}
}

// whereBytes is where for a condition of zeros and ones, eight bytes at a time.
func whereBytes(d, c, a, b []byte) {
	c, a, b = c[:len(d)], a[:len(d)], b[:len(d)]
	i := 0
	for ; i+8 <= len(d); i += 8 {
		x, y, m := binary.NativeEndian.Uint64(a[i:]), binary.NativeEndian.Uint64(b[i:]),
			binary.NativeEndian.Uint64(c[i:])
		binary.NativeEndian.PutUint64(d[i:], y^(x^y)&(m<<8-m))
	}
	for ; i < len(d); i++ {
		d[i] = b[i] ^ (a[i]^b[i])&-c[i]
	}
}

// whereFloat is where for floats.
func whereFloat[T real](d []T, c []byte, a, b []T) {
	if isFloat32[T]() {
		where(bitsOf32(d), c, bitsOf32(a), bitsOf32(b))
	} else {
		where(bitsOf64(d), c, bitsOf64(a), bitsOf64(b))
	}
}

func bitsOf32[T real](s []T) []uint32 { return ndarray.Cast[uint32](ndarray.BytesOf(s)) }
func bitsOf64[T real](s []T) []uint64 { return ndarray.Cast[uint64](ndarray.BytesOf(s)) }

// patch sets d to v where c is 0.
func patch[T uint32 | uint64](d []T, c []byte, v T) {
	c = c[:len(d)]
	i := 0
	if d32, ok := any(d).([]uint32); ok {
		i = patch32Fast(d32, c, uint32(v))
	}
	for ; i < len(d); i++ {
		w := d[i]
		if c[i] == 0 {
			w = v
		}
		d[i] = w
	}
}

// patchFloat is patch for floats.
func patchFloat[T real](d []T, c []byte, v T) {
	if isFloat32[T]() {
		patch(bitsOf32(d), c, math.Float32bits(float32(v)))
	} else {
		patch(bitsOf64(d), c, math.Float64bits(float64(v)))
	}
}
