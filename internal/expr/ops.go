package expr

import (
	"math"
	"math/bits"
)

// noNodata returns an error if one of vs is the word nodata, which has no type by itself.
func (c *compiler) noNodata(pos int, vs ...val) error {
	for _, v := range vs {
		if v.t.kind == kindNodata {
			return c.fail(pos, "nodata can only be a branch of ?: or where; to test for it write isnodata(a)")
		}
	}
	return nil
}

// vec returns the node of v as a vector of class to.
func (c *compiler) vec(v val, to class) int {
	if v.konst {
		return c.constant(v.c, to.reg())
	}
	n := v.node
	if c.nodes[n].reg == regBool {
		n = c.add(node{op: opNumber, reg: reg32, args: []int{n}})
	}
	switch from := c.nodes[n].reg; {
	case from == reg32 && to == c64:
		return c.add(node{op: opTo64, reg: reg64, args: []int{n}})
	case from == reg64 && to == c32:
		return c.add(node{op: opTo32, reg: reg32, args: []int{n}})
	}
	return n
}

func (c *compiler) constant(v float64, r regKind) int {
	if r == reg32 {
		v = float64(float32(v))
	}
	return c.add(node{op: opConst, reg: r, k: v})
}

// truth returns the node of v as a vector of bool.
func (c *compiler) truth(v val) int {
	switch {
	case v.konst && v.c != 0:
		return c.constant(1, regBool)
	case v.konst:
		return c.constant(0, regBool)
	case v.t.kind == kindBool:
		return v.node
	}
	return c.add(node{op: opTruth, reg: regBool, args: []int{v.node}})
}

// validMask returns the mask of the pixels where v is valid and not NaN, for operations that would
// hide a NaN.
func (c *compiler) validMask(v val) int {
	if !v.nan {
		return v.mask
	}
	if v.konst {
		return c.add(node{op: opMaskNone, reg: regMask})
	}
	return c.both(v.mask, c.add(node{op: opMaskNaN, reg: regMask, args: []int{v.node}}))
}

// common returns the class in which values are computed together: the widest of their classes, or
// float64 for literals alone. A literal integer beyond the exact range of float32 has a class.
func common(vs ...val) class {
	strong, out := false, c32
	for _, v := range vs {
		if v.t.kind == kindNodata {
			continue
		}
		if v.konst && (v.weak || v.t.kind == kindBool) && (v.t.kind != kindInt || v.t.class() == c32) {
			continue
		}
		strong = true
		out = max(out, v.t.class())
	}
	if !strong {
		return c64
	}
	return out
}

// fold computes an operation on constants with the same kernel as on vectors.
func (c *compiler) fold(o op, vs ...val) val {
	weak := true
	for _, v := range vs {
		weak = weak && v.weak
	}
	if weak {
		return decimal(apply64(o, vs))
	}
	cls := common(vs...)
	r := val{t: floatType(cls), konst: true}
	if cls == c32 {
		r.c = apply32(o, vs)
	} else {
		r.c = apply64(o, vs)
	}
	r.nan = math.IsNaN(r.c)
	return r
}

func constants(vs ...val) bool {
	for _, v := range vs {
		if !v.konst {
			return false
		}
	}
	return true
}

// number returns a bool as the integers 0 and 1, and any other value unchanged.
func (c *compiler) number(v val) val {
	if v.t.kind != kindBool {
		return v
	}
	if v.konst {
		return val{t: intType(int64(v.c), int64(v.c)), konst: true, c: v.c, weak: true}
	}
	v.t, v.node = v.t.asInt(), c.vec(v, c32)
	return v
}

// result returns the value of a node, converted to the class that carries t.
func (c *compiler) result(n node, t typ, mask int, nan bool) val {
	v := val{t: t, node: c.add(n), mask: mask, nan: nan}
	v.node = c.vec(v, t.class())
	return v
}

func (c *compiler) tooWide(pos int, what string) error {
	return c.fail(pos, "%s can go beyond 2^53, where integers are no longer exact: write float64(a) to compute with rounding", what)
}

var arithOps = map[string]op{"+": opAdd, "-": opSub, "*": opMul, "/": opDiv, "%": opMod}

// arith compiles + - * / %.
func (c *compiler) arith(pos int, text string, a, b val) (val, error) {
	if err := c.noNodata(pos, a, b); err != nil {
		return val{}, err
	}
	a, b = c.number(a), c.number(b)
	o := arithOps[text]
	if o == opDiv || !a.t.isInt() || !b.t.isInt() {
		if constants(a, b) {
			return c.fold(o, a, b), nil
		}
		return c.float(o, a, b), nil
	}
	lo, hi, zero := arithRange(text, a.t, b.t)
	t := intType(lo, hi, a.t.from, b.t.from)
	if !t.exact() {
		return val{}, c.tooWide(pos, "this "+map[string]string{"+": "sum", "-": "difference", "*": "product"}[text])
	}
	if o == opMod {
		o = opModInt
	}
	if constants(a, b) {
		r := apply64(o, []val{a, b})
		if math.IsNaN(r) {
			return decimal(r), nil
		}
		return val{t: intType(int64(r), int64(r)), konst: true, c: float64(int64(r)), weak: true}, nil
	}
	cls := max(a.t.class(), b.t.class(), t.class())
	n := node{op: o, reg: cls.reg(), args: []int{c.vec(a, cls), c.vec(b, cls)}}
	if o == opMul && (a.t.lo < 0 && holds0(b.t) || b.t.lo < 0 && holds0(a.t)) {
		// Integers have no negative zero: a division would distinguish it from 0.
		n = node{op: opAdd, reg: cls.reg(), args: []int{c.add(n), c.constant(0, cls.reg())}}
	}
	return c.result(n, t, c.both(a.mask, b.mask), zero || a.nan || b.nan), nil
}

func holds0(t typ) bool { return t.lo <= 0 && t.hi >= 0 }

// float compiles an operation whose result is a float of the operands' common class.
func (c *compiler) float(o op, vs ...val) val {
	cls := common(vs...)
	mask := 0
	n := node{op: o, reg: cls.reg()}
	for _, v := range vs {
		n.args = append(n.args, c.vec(v, cls))
		mask = c.both(mask, v.mask)
	}
	return val{t: floatType(cls), node: c.add(n), mask: mask, nan: true}
}

// maxPower is the largest exponent that is computed by multiplications. With float64 of two words,
// the error of so many products is much smaller than a unit in the last place.
const maxPower = 64

// power compiles a ** b.
func (c *compiler) power(pos int, a, b val) (val, error) {
	if err := c.noNodata(pos, a, b); err != nil {
		return val{}, err
	}
	a, b = c.number(a), c.number(b)
	whole := b.konst && b.c == math.Trunc(b.c)
	if a.t.isInt() && b.t.kind == kindInt && whole && b.c >= 0 {
		lo, hi := powRange(a.t, int64(b.c))
		t := intType(lo, hi, a.t.from)
		if !t.exact() {
			return val{}, c.tooWide(pos, "this power")
		}
		if a.konst {
			return val{t: intType(lo, lo), konst: true, c: float64(lo), weak: true}, nil
		}
		cls := max(a.t.class(), t.class())
		v := val{t: t, node: c.product(c.vec(a, cls), cls.reg(), int(b.c)), mask: a.mask, nan: a.nan}
		v.node = c.vec(v, t.class())
		return v, nil
	}
	if constants(a, b) {
		return c.fold(opPow, a, b), nil
	}
	if whole && b.weak && math.Abs(b.c) <= maxPower {
		return c.multiplied(a, int(b.c), common(a, b)), nil
	}
	return c.float(opPow, a, b), nil
}

// multiplied compiles a power of a float by multiplications. A float32 is computed in float64,
// whose errors disappear when the result is rounded. Powers share common factors.
func (c *compiler) multiplied(a val, k int, cls class) val {
	v := val{t: floatType(cls), mask: a.mask, nan: true}
	switch {
	case cls == c32 && k > 2:
		wide := val{t: floatType(c64), node: c.product(c.vec(val{t: floatType(c32), node: c.vec(a, c32)}, c64), reg64,
			k)}
		v.node = c.vec(wide, c32)
	case k == 1 || k == 2:
		v.node = c.product(c.vec(a, cls), cls.reg(), k)
	default:
		v.node = c.add(node{op: opPowInt, reg: cls.reg(), args: []int{c.vec(a, cls)}, k: float64(k)})
	}
	return v
}

// product returns the node of n ** k for k >= 0, computed by multiplications.
func (c *compiler) product(n int, r regKind, k int) int {
	if k == 0 {
		return c.add(node{op: opPowInt, reg: r, args: []int{n}})
	}
	if k == 1 {
		return n
	}
	top := 1 << (bits.Len(uint(k)) - 1)
	if k > top {
		return c.add(node{op: opMul, reg: r, args: []int{c.product(n, r, k-top), c.product(n, r, top)}})
	}
	half := c.product(n, r, k/2)
	return c.add(node{op: opMul, reg: r, args: []int{half, half}})
}

// unary compiles - + ~ not.
func (c *compiler) unary(pos int, text string, a val) (val, error) {
	if err := c.noNodata(pos, a); err != nil {
		return val{}, err
	}
	if text == "~" && a.t.kind != kindBool {
		return c.flip(pos, a)
	}
	if text == "not" || text == "~" {
		if a.konst && !a.nan {
			return boolean(a.c == 0), nil
		}
		n := c.add(node{op: opNot, reg: regBool, args: []int{c.truth(a)}})
		return val{t: typ{kind: kindBool}, node: n, mask: c.validMask(a)}, nil
	}
	a = c.number(a)
	if text == "+" {
		return a, nil
	}
	if a.konst {
		a.c = -a.c
		if a.t.kind == kindInt {
			a.t = intType(-a.t.lo, -a.t.lo)
			a.c = float64(a.t.lo) // integers have no negative zero
		}
		return a, nil
	}
	t := a.t
	cls := t.class()
	if t.kind == kindInt {
		t.lo, t.hi = -a.t.hi, -a.t.lo
		zero := c.constant(0, cls.reg())
		return c.result(node{op: opSub, reg: cls.reg(), args: []int{zero, c.vec(a, cls)}}, t, a.mask, a.nan), nil
	}
	return c.result(node{op: opNeg, reg: cls.reg(), args: []int{c.vec(a, cls)}}, t, a.mask, a.nan), nil
}

func boolean(b bool) val {
	v := val{t: typ{kind: kindBool}, konst: true}
	if b {
		v.c = 1
	}
	return v
}

var compareOps = map[string]op{"<": opLt, "<=": opLe, ">": opGt, ">=": opGe, "==": opEq, "!=": opNe}

// mirrored maps a comparison to the one with exchanged operands.
var mirrored = map[op]op{opLt: opGt, opLe: opGe, opGt: opLt, opGe: opLe, opEq: opEq, opNe: opNe}

// chain compiles a < b < c as (a < b) and (b < c).
func (c *compiler) chain(n *ast, vs []val) (val, error) {
	var out val
	for i, text := range n.ops {
		r, err := c.compare(n.at[i], compareOps[text], vs[i], vs[i+1])
		if err != nil {
			return val{}, err
		}
		if i == 0 {
			out = r
			continue
		}
		if out, err = c.logic(n.at[i], "and", out, r); err != nil {
			return val{}, err
		}
	}
	return out, nil
}

func (c *compiler) compare(pos int, o op, a, b val) (val, error) {
	if err := c.noNodata(pos, a, b); err != nil {
		return val{}, err
	}
	a, b = c.number(a), c.number(b)
	if constants(a, b) && !a.nan && !b.nan {
		if common(a, b) == c32 {
			return boolean(compare(o, float32(a.c), float32(b.c))), nil
		}
		return boolean(compare(o, a.c, b.c)), nil
	}
	mask := c.both(c.validMask(a), c.validMask(b))
	if a.konst {
		a, b, o = b, a, mirrored[o]
	}
	if a.t.kind == kindInt && a.t.class() == c32 && b.konst && b.weak && b.t.kind == kindFloat {
		o, b.c = exactBound(o, b.c)
	}
	cls := common(a, b)
	n := c.add(node{op: o, reg: regBool, args: []int{c.vec(a, cls), c.vec(b, cls)}})
	return val{t: typ{kind: kindBool}, node: n, mask: mask}, nil
}

// exactBound replaces a decimal that is compared with integers within 2^24 by an equivalent bound
// that float32 represents exactly: 2.9999999999 would round to 3.
func exactBound(o op, v float64) (op, float64) {
	const outside = 2 * maxExact32
	switch o {
	case opLt, opGe:
		v = math.Ceil(v)
	case opLe, opGt:
		v = math.Floor(v)
	case opEq:
		if v != math.Trunc(v) {
			return opLt, -outside
		}
	case opNe:
		if v != math.Trunc(v) {
			return opGt, -outside
		}
	}
	return o, math.Max(-outside, math.Min(outside, v))
}

// logic compiles and, or.
func (c *compiler) logic(pos int, text string, a, b val) (val, error) {
	if err := c.noNodata(pos, a, b); err != nil {
		return val{}, err
	}
	o := opAnd
	if text == "or" {
		o = opOr
	}
	if constants(a, b) && !a.nan && !b.nan {
		if o == opAnd {
			return boolean(a.c != 0 && b.c != 0), nil
		}
		return boolean(a.c != 0 || b.c != 0), nil
	}
	n := c.add(node{op: o, reg: regBool, args: []int{c.truth(a), c.truth(b)}})
	return val{t: typ{kind: kindBool}, node: n, mask: c.both(c.validMask(a), c.validMask(b))}, nil
}

// unify returns the type that can hold any of the values.
func (c *compiler) unify(pos int, vs ...val) (typ, error) {
	t := typ{kind: kindNodata}
	float := false
	for _, v := range vs {
		switch {
		case v.t.kind == kindNodata:
		case v.t.kind == kindFloat:
			float = true
		case t.kind == kindNodata || t.kind == kindBool && v.t.kind == kindBool:
			t = v.t
		default:
			a, b := t.asInt(), v.t.asInt()
			t = intType(min(a.lo, b.lo), max(a.hi, b.hi), a.from, b.from)
		}
	}
	if float {
		return floatType(common(vs...)), nil
	}
	if t.kind == kindNodata {
		return t, c.fail(pos, "nodata has no type here: at least one branch must be a value")
	}
	return t, nil
}

// as returns the node of v as a vector that carries t.
func (c *compiler) as(v val, t typ) int {
	switch {
	case v.t.kind == kindNodata:
		if t.kind == kindBool {
			return c.constant(0, regBool)
		}
		return c.constant(0, t.class().reg())
	case t.kind == kindBool:
		return c.truth(v)
	}
	return c.vec(v, t.class())
}

// choose compiles cond ? a : b.
func (c *compiler) choose(pos int, cond, a, b val) (val, error) {
	if err := c.noNodata(pos, cond); err != nil {
		return val{}, err
	}
	t, err := c.unify(pos, a, b)
	if err != nil {
		return val{}, err
	}
	if t.kind == kindFloat && constantBranches([]val{a, b}) {
		t = floatType(common(cond, a, b))
	}
	test, mc, ma, mb := c.truth(cond), c.validMask(cond), c.branchMask(a), c.branchMask(b)
	reg := t.class().reg()
	if t.kind == kindBool {
		reg = regBool
	}
	v := val{t: t, nan: a.nan || b.nan, chosen: selectionOf(a, b)}
	v.node = c.add(node{op: opWhere, reg: reg, args: []int{test, c.as(a, t), c.as(b, t)}})
	if ma == mb {
		v.mask = c.both(mc, ma)
	} else {
		v.mask = c.add(node{op: opMaskWhere, reg: regMask, args: []int{test, mc, ma, mb}})
	}
	return v, nil
}

// branchMask returns the mask of a branch, which may be the word nodata.
func (c *compiler) branchMask(v val) int {
	if v.t.kind == kindNodata {
		return c.add(node{op: opMaskNone, reg: regMask})
	}
	return v.mask
}
