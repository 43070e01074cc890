package zonal

import (
	"encoding/binary"
	"errors"
	"math"
	"math/big"
	"math/bits"
)

// exact is a number m * 2^exp of any precision, such as a sum of floating-point numbers. m is odd,
// or 0 with exp 0, so that a number has one encoding.
type exact struct {
	m   big.Int
	exp int
}

// Bounds on what decode accepts. No sum of weighted squares of float64 values exceeds them.
const (
	maxExactExp   = 4500
	maxExactBytes = 1200
)

// add adds m * 2^exp. It may change m.
func (s *exact) add(m *big.Int, exp int) {
	switch {
	case m.Sign() == 0:
		return
	case s.m.Sign() == 0:
		s.m.Set(m)
		s.exp = exp
	case exp >= s.exp:
		s.m.Add(&s.m, m.Lsh(m, uint(exp-s.exp)))
	default:
		s.m.Lsh(&s.m, uint(s.exp-exp))
		s.m.Add(&s.m, m)
		s.exp = exp
	}
	if s.m.Sign() == 0 {
		s.exp = 0
	} else if n := s.m.TrailingZeroBits(); n > 0 {
		s.m.Rsh(&s.m, n)
		s.exp += int(n)
	}
}

// addInt128 adds the signed number hi * 2^64 + lo.
func (s *exact) addInt128(hi int64, lo uint64) {
	if hi == 0 && lo == 0 {
		return
	}
	neg := hi < 0
	h := uint64(hi)
	if neg {
		var borrow uint64
		lo, borrow = bits.Sub64(0, lo, 0)
		h, _ = bits.Sub64(0, h, borrow)
	}
	m := bigUint128(h, lo)
	if neg {
		m.Neg(m)
	}
	s.add(m, 0)
}

func bigUint128(hi, lo uint64) *big.Int {
	m := new(big.Int).SetUint64(hi)
	return m.Add(m.Lsh(m, 64), new(big.Int).SetUint64(lo))
}

// append appends the encoding: exponent, sign and length in bytes, magnitude.
func (s *exact) append(dst []byte) []byte {
	dst = binary.AppendVarint(dst, int64(s.exp))
	n := (s.m.BitLen() + 7) / 8
	sign := uint64(0)
	if s.m.Sign() < 0 {
		sign = 1
	}
	dst = binary.AppendUvarint(dst, uint64(n)<<1|sign)
	dst = append(dst, make([]byte, n)...)
	s.m.FillBytes(dst[len(dst)-n:])
	return dst
}

var errState = errors.New("zone state: malformed")

// decode reads what append wrote and returns the bytes that follow.
func (s *exact) decode(b []byte) ([]byte, error) {
	exp, n := binary.Varint(b)
	if n <= 0 || exp < -maxExactExp || exp > maxExactExp {
		return nil, errState
	}
	b = b[n:]
	size, n := binary.Uvarint(b)
	if n <= 0 || size>>1 > maxExactBytes || size>>1 > uint64(len(b)-n) {
		return nil, errState
	}
	b = b[n:]
	s.m.SetBytes(b[:size>>1])
	if size&1 != 0 {
		s.m.Neg(&s.m)
	}
	s.exp = int(exp)
	if s.m.Sign() == 0 && (exp != 0 || size != 0) || s.m.Sign() != 0 && (s.m.Bit(0) == 0 || b[0] == 0) {
		return nil, errState
	}
	return b[size>>1:], nil
}

// float returns the float64 closest to m * 2^exp.
func float(m *big.Int, exp int) float64 {
	f := new(big.Float).SetInt(m) // exact
	v, _ := f.SetMantExp(f, exp).Float64()
	return v
}

// quotient returns the float64 closest to num * 2^exp / den. den is above 0.
func quotient(num *big.Int, exp int, den *big.Int) float64 {
	if num.Sign() == 0 {
		return 0
	}
	// At least 66 bits of the quotient, with the last bit set if there is a remainder, round to the
	// same float64 as the exact quotient.
	shift := max(66-num.BitLen()+den.BitLen(), 0)
	n := new(big.Int).Lsh(num, uint(shift))
	q, rem := n.QuoRem(n, den, new(big.Int))
	if rem.Sign() != 0 && q.Bit(0) == 0 {
		q.Add(q, big.NewInt(int64(rem.Sign())))
	}
	return float(q, exp-shift)
}

// A wide adds integers times powers of two without rounding. Chunk i holds a multiple of
// 2^(wideBase + 32 i), with 31 bits to spare for carries.
type wide struct {
	chunks [wideChunks]int64
	lo, hi int // chunks in use
	adds   int // since the last carry
}

// The least weighted square of a float64 is 2^-2188, the greatest below 2^2048; 2^64 of them may be
// added.
const (
	wideBase   = -2208
	wideChunks = (2208+2048+64)/32 + 6
)

// add adds m * 2^exp, or subtracts it.
func (w *wide) add(hi, lo uint64, exp int, negative bool) {
	if hi|lo == 0 {
		return
	}
	i, shift := (exp-wideBase)>>5, uint(exp-wideBase)&31
	var d [5]int64
	d[0] = int64(lo << shift & math.MaxUint32)
	mid := lo >> (32 - shift)
	d[1] = int64(mid & math.MaxUint32)
	d[2] = int64(mid>>32 | hi<<shift&math.MaxUint32)
	if hi != 0 {
		top := hi >> (32 - shift)
		d[3], d[4] = int64(top&math.MaxUint32), int64(top>>32)
	}
	c := w.chunks[i : i+5 : i+5]
	if negative {
		for j := range c {
			c[j] -= d[j]
		}
	} else {
		for j := range c {
			c[j] += d[j]
		}
	}
	w.use(i, i+5)
}

// use notes that chunks from a to b have changed by less than 2^32 each.
func (w *wide) use(a, b int) {
	w.extend(a, b)
	if w.adds++; w.adds >= 1<<30 {
		w.carry()
	}
}

// carry leaves 32 bits in each chunk but the last, which keeps the sign.
func (w *wide) carry() {
	w.adds = 0
	if w.hi == 0 {
		return
	}
	for i := w.lo; i+1 < wideChunks; i++ {
		if c := w.chunks[i] >> 32; c != 0 {
			w.chunks[i] -= c << 32
			w.chunks[i+1] += c
			w.hi = max(w.hi, i+2)
		}
	}
}

// drain adds the number to s and sets it to 0.
func (w *wide) drain(s *exact) {
	if w.hi == 0 {
		return
	}
	m, part := new(big.Int), new(big.Int)
	for i := w.hi - 1; i >= w.lo; i-- {
		m.Add(m.Lsh(m, 32), part.SetInt64(w.chunks[i]))
		w.chunks[i] = 0
	}
	s.add(m, wideBase+32*w.lo)
	w.lo, w.hi, w.adds = 0, 0, 0
}

// split returns the mantissa of a finite number and its exponent.
func split(v float64) (m uint64, exp int, negative bool) {
	b := math.Float64bits(v)
	e := int(b >> 52 & 0x7ff)
	m = b & (1<<52 - 1)
	if e > 0 {
		m |= 1 << 52
	} else {
		e = 1
	}
	return m, e - 1075, b>>63 != 0
}

// maxRow is the number of values that one call may add.
const maxRow = 1 << 20

// addFloats adds up to maxRow finite numbers.
func (w *wide) addFloats(row []float64) {
	w.reserve(len(row))
	lo, hi := wideChunks, 0
	for _, v := range row {
		m, exp, _ := split(v)
		sign := int64(math.Float64bits(v)) >> 63
		i, shift := (exp-wideBase)>>5, uint(exp-wideBase)&31
		mid := m >> (32 - shift)
		c := w.chunks[i : i+3 : i+3]
		c[0] += (int64(m<<shift&math.MaxUint32) ^ sign) - sign
		c[1] += (int64(mid&math.MaxUint32) ^ sign) - sign
		c[2] += (int64(mid>>32) ^ sign) - sign
		lo, hi = min(lo, i), max(hi, i+3)
	}
	w.extend(lo, hi)
}

// addSquares32 adds the squares of up to maxRow finite numbers.
func (w *wide) addSquares32(row []float32) {
	w.reserve(len(row))
	lo, hi := wideChunks, 0
	for _, v := range row {
		m, exp, _ := split(float64(v))
		m >>= 29 // exact, and m * m fits
		i, shift := (2*exp+58-wideBase)>>5, uint(2*exp+58-wideBase)&31
		m *= m
		mid := m >> (32 - shift)
		c := w.chunks[i : i+3 : i+3]
		c[0] += int64(m << shift & math.MaxUint32)
		c[1] += int64(mid & math.MaxUint32)
		c[2] += int64(mid >> 32)
		lo, hi = min(lo, i), max(hi, i+3)
	}
	w.extend(lo, hi)
}

// reserve carries if n more numbers could overflow a chunk.
func (w *wide) reserve(n int) {
	if w.adds += n; w.adds >= 1<<30 {
		w.carry()
		w.adds = n
	}
}

// extend notes that chunks from a to b have changed.
func (w *wide) extend(a, b int) {
	if a >= b {
		return
	}
	if w.hi == 0 {
		w.lo = a
	}
	w.lo, w.hi = min(w.lo, a), max(w.hi, b)
}

// addFloat adds v * w * 2^-40 for a finite v.
func (w *wide) addFloat(v float64, weight Weight) {
	m, exp, negative := split(v)
	hi, lo := bits.Mul64(m, uint64(weight))
	w.add(hi, lo, exp-weightBits, negative)
}

// addSquare adds v * v * w * 2^-40 for a finite v.
func (w *wide) addSquare(v float64, weight Weight) {
	m, exp, _ := split(v)
	hi, lo := bits.Mul64(m, m) // below 2^106
	w.addProduct(hi, lo, weight, 2*exp-weightBits)
}

// addProduct adds (hi * 2^64 + lo) * weight * 2^exp.
func (w *wide) addProduct(hi, lo uint64, weight Weight, exp int) {
	if weight == One {
		w.add(hi, lo, exp+weightBits, false)
		return
	}
	h, l := bits.Mul64(lo, uint64(weight))
	w.add(h, l, exp, false)
	if hi != 0 {
		h, l = bits.Mul64(hi, uint64(weight))
		w.add(h, l, exp+64, false)
	}
}
