package ndarray

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Scalar is one value of an element type, kept exactly: 64-bit integers are not rounded, and a
// float32 is a value that a float32 file can hold. The zero Scalar has no type.
type Scalar struct {
	Type DType
	Bits uint64 // integers: two's complement in 64 bits; floats: IEEE bits of their own width
}

// ScalarOf returns v as a Scalar of T's type.
func ScalarOf[T Real](v T) Scalar {
	t := TypeOf[T]()
	switch t {
	case Float32:
		return Scalar{t, uint64(math.Float32bits(float32(v)))}
	case Float64:
		return Scalar{t, math.Float64bits(float64(v))}
	case Uint64:
		return Scalar{t, uint64(v)}
	}
	return Scalar{t, uint64(int64(v))}
}

// Float64 returns the value as a float64. Integers beyond 2^53 are rounded.
func (s Scalar) Float64() float64 {
	switch s.Type {
	case Float16:
		return float64(Float16ToFloat32(uint16(s.Bits)))
	case Float32:
		return float64(math.Float32frombits(uint32(s.Bits)))
	case Float64:
		return math.Float64frombits(s.Bits)
	case Uint64:
		return float64(s.Bits)
	}
	return float64(int64(s.Bits))
}

// IsNaN reports whether the value is a NaN.
func (s Scalar) IsNaN() bool { return s.Type.IsFloat() && math.IsNaN(s.Float64()) }

// String returns the shortest text that ParseScalar parses as the same value: "nan", "-9999",
// "0.1".
func (s Scalar) String() string {
	switch s.Type {
	case NoType:
		return "none"
	case Uint64:
		return strconv.FormatUint(s.Bits, 10)
	case Float16, Float32, Float64:
		v := s.Float64()
		switch {
		case math.IsNaN(v):
			return "nan"
		case math.IsInf(v, 1):
			return "inf"
		case math.IsInf(v, -1):
			return "-inf"
		}
		width := 64
		if s.Type != Float64 {
			width = 32
		}
		return strconv.FormatFloat(v, 'g', -1, width)
	}
	return strconv.FormatInt(int64(s.Bits), 10)
}

// ParseScalar parses text as a value of type t. Integers must be exact ("5", "5.0" and "5e2" are
// integers); floats are rounded to the nearest value of t. A finite text beyond float32's range is
// an error, except for the rounded decimals that GDAL writes for the limits of float32. For complex
// types the result holds the real part.
func ParseScalar(text string, t DType) (Scalar, error) {
	text = strings.TrimSpace(strings.TrimRight(text, "\x00"))
	switch t {
	case Uint8, Uint16, Uint32, Uint64:
		if v, err := strconv.ParseUint(text, 10, 8*t.Size()); err == nil {
			return Scalar{t, v}, nil
		}
	case Int8, Int16, Int32, Int64:
		if v, err := strconv.ParseInt(text, 10, 8*t.Size()); err == nil {
			return Scalar{t, uint64(v)}, nil
		}
	}
	v, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return Scalar{}, fmt.Errorf("ndarray: %q is not a number", text)
	}
	return ScalarFromFloat(v, t)
}

// ScalarFromFloat returns v as a value of type t. Floats are rounded to the nearest; an integer
// type must hold v exactly.
func ScalarFromFloat(v float64, t DType) (Scalar, error) {
	switch t {
	case Float16:
		return Scalar{t, uint64(Float32ToFloat16(float32(v)))}, nil
	case Float32, Complex64:
		f := float32(v)
		if math.IsInf(float64(f), 0) && !math.IsInf(v, 0) {
			// GDAL writes FLT_MAX with few digits, which can round to slightly more than FLT_MAX.
			if math.Abs(v) > math.MaxFloat32*(1+1e-6) {
				return Scalar{}, fmt.Errorf("ndarray: %v does not fit %v", v, t)
			}
			f = float32(math.Copysign(math.MaxFloat32, v))
		}
		return Scalar{Float32, uint64(math.Float32bits(f))}, nil
	case Float64, Complex128:
		return Scalar{Float64, math.Float64bits(v)}, nil
	}
	if !t.IsInteger() {
		return Scalar{}, fmt.Errorf("ndarray: %v has no scalar values", t)
	}
	lo, hi := t.Limits()
	// The limits of 64-bit types round up, so the upper one is excluded.
	if v != math.Trunc(v) || v < lo || v > hi || (t.Size() == 8 && v >= hi) {
		return Scalar{}, fmt.Errorf("ndarray: %v is not a value of %v", v, t)
	}
	if t == Uint64 {
		return Scalar{t, uint64(v)}, nil
	}
	return Scalar{t, uint64(int64(v))}, nil
}

// Limits returns the smallest and the largest finite value of a real type. The upper limit of
// 64-bit integers is rounded up to a power of two.
func (t DType) Limits() (lo, hi float64) {
	switch t {
	case Uint8, Uint16, Uint32, Uint64:
		return 0, math.Ldexp(1, 8*t.Size()) - 1
	case Int8, Int16, Int32, Int64:
		h := math.Ldexp(1, 8*t.Size()-1)
		return -h, h - 1
	case Float16:
		return -65504, 65504
	case Float32:
		return -math.MaxFloat32, math.MaxFloat32
	}
	return -math.MaxFloat64, math.MaxFloat64
}
