package expr

import (
	"math"
	"math/bits"

	"leat/ndarray"
)

const (
	maxExact16 = 1 << 11 // integers up to here are exact in float16
	maxExact32 = 1 << 24 // and up to here in float32
	maxExact   = 1 << 53 // and up to here in float64
)

type kind uint8

const (
	kindBool   kind = iota // 0 and 1 in bytes
	kindInt                // exact, in the range lo..hi
	kindFloat              // of a class
	kindNodata             // the word nodata, which takes the type of the other branch
)

// class is the floating-point type that carries a value. An integer is carried in the narrower one
// in which its whole range is exact.
type class uint8

const (
	c32 class = iota
	c64
)

func (c class) String() string {
	if c == c32 {
		return "float32"
	}
	return "float64"
}

// typ is the static type of a value.
type typ struct {
	kind   kind
	float  class           // of kindFloat
	lo, hi int64           // of kindInt
	from   []ndarray.DType // of kindInt: the widest integer types of its inputs, in order of appearance
}

func intType(lo, hi int64, from ...[]ndarray.DType) typ {
	t := typ{kind: kindInt, lo: lo, hi: hi}
	for _, f := range from {
		t.from = widest(t.from, f)
	}
	return t
}

func floatType(c class) typ { return typ{kind: kindFloat, float: c} }

// class returns the class that carries t. A bool counts as the integers 0 and 1.
func (t typ) class() class {
	switch t.kind {
	case kindFloat:
		return t.float
	case kindInt:
		if t.lo < -maxExact32 || t.hi > maxExact32 {
			return c64
		}
	}
	return c32
}

func (t typ) exact() bool { return t.lo >= -maxExact && t.hi <= maxExact }

// isInt reports whether t takes part in integer arithmetic.
func (t typ) isInt() bool { return t.kind == kindInt || t.kind == kindBool }

// asInt returns a bool as an integer type from 0 to 1.
func (t typ) asInt() typ {
	if t.kind == kindBool {
		return intType(0, 1)
	}
	return t
}

// widest merges two lists of integer types and keeps those with the most bytes.
func widest(a, b []ndarray.DType) []ndarray.DType {
	size := 0
	for _, t := range a {
		size = max(size, t.Size())
	}
	for _, t := range b {
		size = max(size, t.Size())
	}
	var out []ndarray.DType
	for _, l := range [2][]ndarray.DType{a, b} {
		for _, t := range l {
			known := t.Size() < size
			for _, o := range out {
				known = known || o == t
			}
			if !known {
				out = append(out, t)
			}
		}
	}
	return out
}

// output returns the pixel type that holds t without loss.
func (t typ) output() ndarray.DType { return t.smallest(t.fits) }

// outputWithNodata returns the pixel type that holds t and, if t is an integer, a value that t
// never has.
func (t typ) outputWithNodata() ndarray.DType {
	return t.smallest(func(d ndarray.DType) bool {
		_, free := t.freeEnd(d)
		return free && t.fits(d)
	})
}

// smallest returns the first pixel type that suits accepts.
func (t typ) smallest(suits func(ndarray.DType) bool) ndarray.DType {
	switch t = t.asInt(); {
	case t.kind == kindFloat && t.float == c32:
		return ndarray.Float32
	case t.kind == kindFloat:
		return ndarray.Float64
	}
	for _, d := range t.from {
		if suits(d) {
			return d
		}
	}
	for _, d := range [...]ndarray.DType{ndarray.Uint8, ndarray.Int16, ndarray.Uint16, ndarray.Int32, ndarray.Uint32} {
		if suits(d) {
			return d
		}
	}
	return ndarray.Float64
}

// freeEnd returns the value of d that marks invalid pixels: NaN of floats, the largest of unsigned
// and the smallest of signed integers, or the other end if t is known to have the first but not the
// other. free reports whether t is known never to have this value.
func (t typ) freeEnd(d ndarray.DType) (s ndarray.Scalar, free bool) {
	if d.IsFloat() {
		nan, err := ndarray.ScalarFromFloat(math.NaN(), d)
		return nan, err == nil
	}
	lowest, highest := ndarray.Scalar{Type: d}, ndarray.Scalar{Type: d, Bits: math.MaxUint64 >> (64 - 8*d.Size())}
	if d.IsSigned() {
		lowest.Bits = uint64(int64(math.MinInt64) >> (64 - 8*d.Size()))
		highest.Bits >>= 1
	}
	t = t.asInt()
	lo, hi := d.Limits()
	lowestFree, highestFree := t.kind == kindInt && float64(t.lo) > lo, t.kind == kindInt && float64(t.hi) < hi
	switch {
	case d.IsSigned() && (lowestFree || !highestFree):
		return lowest, lowestFree
	case highestFree || !lowestFree:
		return highest, highestFree
	}
	return lowest, true
}

// fits reports whether d holds every value of t, an integer or bool.
func (t typ) fits(d ndarray.DType) bool {
	t = t.asInt()
	if t.kind != kindInt || !d.IsInteger() {
		return false
	}
	lo, hi := d.Limits()
	return float64(t.lo) >= lo && float64(t.hi) <= hi
}

// heldBy reports whether d holds every value of t exactly.
func (t typ) heldBy(d ndarray.DType) bool {
	t = t.asInt()
	switch {
	case t.kind == kindFloat:
		return d == ndarray.Float64 || d == ndarray.Float32 && t.float == c32
	case d.IsInteger():
		return t.fits(d)
	}
	limit := int64(maxExact)
	switch d {
	case ndarray.Float16:
		limit = maxExact16
	case ndarray.Float32:
		limit = maxExact32
	}
	return t.kind == kindInt && t.lo >= -limit && t.hi <= limit
}

// bandType returns the type of the pixels of a band, and false if the package cannot compute with
// it.
func bandType(d ndarray.DType) (typ, bool) {
	switch {
	case d == ndarray.Uint64:
		return intType(0, maxExact, []ndarray.DType{d}), true
	case d == ndarray.Int64:
		return intType(-maxExact, maxExact, []ndarray.DType{d}), true
	case d.IsInteger():
		lo, hi := d.Limits()
		return intType(int64(lo), int64(hi), []ndarray.DType{d}), true
	case d == ndarray.Float32:
		return floatType(c32), true
	case d == ndarray.Float64:
		return floatType(c64), true
	}
	return typ{}, false
}

// beyond replaces a bound that exceeds the exact integers.
const beyond = math.MaxInt64

func mulExact(a, b int64) int64 {
	ua, ub := uint64(max(a, -a)), uint64(max(b, -b))
	hi, lo := bits.Mul64(ua, ub)
	if hi != 0 || lo > maxExact {
		if (a < 0) != (b < 0) {
			return -beyond
		}
		return beyond
	}
	return a * b
}

// arithRange returns the range of a op b for exact integer operations. zero reports whether the
// result may be NaN, because of a remainder by 0.
func arithRange(op string, a, b typ) (lo, hi int64, zero bool) {
	switch op {
	case "+":
		return a.lo + b.lo, a.hi + b.hi, false
	case "-":
		return a.lo - b.hi, a.hi - b.lo, false
	case "*":
		p := [4]int64{mulExact(a.lo, b.lo), mulExact(a.lo, b.hi), mulExact(a.hi, b.lo), mulExact(a.hi, b.hi)}
		return min(p[0], p[1], p[2], p[3]), max(p[0], p[1], p[2], p[3]), false
	}
	// The remainder has the sign of the divisor and a smaller absolute value.
	lo, hi = min(0, b.lo+1), max(0, b.hi-1)
	if a.lo >= 0 && b.lo >= 0 {
		hi = min(hi, a.hi)
	}
	if a.hi <= 0 && b.hi <= 0 {
		lo = max(lo, a.lo)
	}
	return lo, hi, b.lo <= 0 && b.hi >= 0
}

// powRange returns the range of a ** n for n >= 0.
func powRange(a typ, n int64) (lo, hi int64) {
	pow := func(v int64) int64 {
		r := int64(1)
		for i := int64(0); i < n; i++ {
			r = mulExact(r, v)
			if r == beyond || r == -beyond {
				// The bound has the sign of the power.
				if v < 0 && n%2 == 1 {
					return -beyond
				}
				return beyond
			}
			if r == 0 || r == 1 && v == 1 {
				return r
			}
			if v == -1 {
				if n%2 == 1 {
					return -1
				}
				return 1
			}
		}
		return r
	}
	p, q := pow(a.lo), pow(a.hi)
	lo, hi = min(p, q), max(p, q)
	if n > 0 && n%2 == 0 && a.lo <= 0 && a.hi >= 0 {
		lo = 0
	}
	return lo, hi
}
