package expr

import (
	"math/bits"
)

// maxShift bounds shifts: an exact integer has no more bits.
const maxShift = 53

// bitwise compiles & | << >>. As in NumPy, & and | of two bools are and, or.
func (c *compiler) bitwise(pos int, text string, a, b val) (val, error) {
	if err := c.noNodata(pos, a, b); err != nil {
		return val{}, err
	}
	if a.t.kind == kindBool && b.t.kind == kindBool && (text == "&" || text == "|") {
		return c.logic(pos, map[string]string{"&": "and", "|": "or"}[text], a, b)
	}
	a, b = c.number(a), c.number(b)
	for _, v := range []val{a, b} {
		if v.t.kind != kindInt {
			return val{}, c.fail(pos, "%s computes with integers, not with %v", text, v.t.class())
		}
	}
	var o op
	t := intType(0, 0, a.t.from, b.t.from)
	switch text {
	case "&":
		o = opBitAnd
		t.lo, t.hi = andRange(a.t, b.t)
	case "|": // by De Morgan: ~(~a & ~b)
		o = opBitOr
		lo, hi := andRange(inverted(a.t), inverted(b.t))
		t.lo, t.hi = ^hi, ^lo
	default:
		if b.t.lo < 0 || b.t.hi > maxShift {
			return val{}, c.fail(pos, "the number of bits to shift by is from %d to %d: it must be from 0 to %d", b.t.lo, b.t.hi,
				maxShift)
		}
		o = opShiftRight
		t.lo, t.hi = min(a.t.lo>>b.t.lo, a.t.lo>>b.t.hi), max(a.t.hi>>b.t.lo, a.t.hi>>b.t.hi)
		if text == "<<" {
			o = opShiftLeft
			least, most := int64(1)<<b.t.lo, int64(1)<<b.t.hi
			t.lo = min(mulExact(a.t.lo, least), mulExact(a.t.lo, most))
			t.hi = max(mulExact(a.t.hi, least), mulExact(a.t.hi, most))
		}
	}
	if !t.exact() {
		return val{}, c.tooWide(pos, "this shift")
	}
	if constants(a, b) {
		r := int64(apply64(o, []val{a, b}))
		return val{t: intType(r, r), konst: true, c: float64(r), weak: true}, nil
	}
	cls := max(a.t.class(), b.t.class(), t.class())
	n := node{op: o, reg: cls.reg(), args: []int{c.vec(a, cls), c.vec(b, cls)}}
	return c.result(n, t, c.both(c.validMask(a), c.validMask(b)), false), nil
}

// andRange returns the range of a & b.
func andRange(a, b typ) (lo, hi int64) {
	if a.lo < 0 && b.lo < 0 {
		// The result has the leading ones that both have.
		lo = -(int64(1) << bits.Len64(uint64(max(^a.lo, ^b.lo))))
	}
	switch {
	case a.lo >= 0 && b.lo >= 0:
		hi = min(a.hi, b.hi)
	case a.lo >= 0:
		hi = a.hi
	case b.lo >= 0:
		hi = b.hi
	default:
		hi = max(a.hi, b.hi)
	}
	return lo, hi
}

// inverted returns the type of ~a.
func inverted(t typ) typ { return intType(^t.hi, ^t.lo, t.from) }

// flip compiles ~a, which is -a - 1.
func (c *compiler) flip(pos int, a val) (val, error) {
	if a.t.kind != kindInt {
		return val{}, c.fail(pos, "~ computes with integers, not with %v", a.t.class())
	}
	minus := val{t: intType(-1, -1), konst: true, c: -1, weak: true}
	return c.arith(pos, "-", minus, a)
}

// bits compiles bits(a, low, high) and bit(a, n).
func (c *compiler) bits(n *ast, vs []val) (val, error) {
	whole := make([]int64, len(vs))
	for i, v := range vs[1:] {
		if !v.konst || v.t.kind != kindInt || v.c < 0 || v.c >= maxShift {
			return val{}, c.fail(n.args[1+i].pos, "the number of a bit must be a literal integer from 0 to %d", maxShift-1)
		}
		whole[i] = int64(v.c)
	}
	low, high := whole[0], whole[len(vs)-2]
	if low > high {
		return val{}, c.fail(n.args[1].pos, "bits %d to %d: write the lower one first", low, high)
	}
	if err := c.noNodata(n.pos, vs[0]); err != nil {
		return val{}, err
	}
	if t := c.number(vs[0]).t; t.kind != kindInt {
		return val{}, c.fail(n.pos, "%s computes with integers, not with %v", n.text, t.class())
	}
	integer := func(k int64) val { return val{t: intType(k, k), konst: true, c: float64(k), weak: true} }
	v, err := c.bitwise(n.pos, ">>", vs[0], integer(low))
	if err != nil {
		return val{}, err
	}
	if v, err = c.bitwise(n.pos, "&", v, integer(1<<(high-low+1)-1)); err != nil || n.text == "bits" {
		return v, err
	}
	return c.compare(n.pos, opNe, v, integer(0))
}

// The integers of invalid pixels are arbitrary, also beyond int64.

func bitAnd[T real](d, a, b []T) {
	a, b = a[:len(d)], b[:len(d)]
	for i := range d {
		d[i] = T(int64(a[i]) & int64(b[i]))
	}
}

func bitAndK[T real](d, a []T, k T) {
	a = a[:len(d)]
	for i := range d {
		d[i] = T(int64(a[i]) & int64(k))
	}
}

func bitOr[T real](d, a, b []T) {
	a, b = a[:len(d)], b[:len(d)]
	for i := range d {
		d[i] = T(int64(a[i]) | int64(b[i]))
	}
}

func shiftLeft[T real](d, a, b []T) {
	a, b = a[:len(d)], b[:len(d)]
	for i := range d {
		d[i] = T(int64(a[i]) << (uint64(int64(b[i])) & 63))
	}
}

func shiftRight[T real](d, a, b []T) {
	a, b = a[:len(d)], b[:len(d)]
	for i := range d {
		d[i] = T(int64(a[i]) >> (uint64(int64(b[i])) & 63))
	}
}

func shiftRightK[T real](d, a []T, k T) {
	a = a[:len(d)]
	n := uint64(k) & 63
	for i := range d {
		d[i] = T(int64(a[i]) >> n)
	}
}
