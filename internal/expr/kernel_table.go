package expr

import "leat/internal/elementary"

// kernels holds the vector operations of a class by op; nil where there is none.
type kernels[T real] struct {
	vv       [numOps]func(d, a, b []T)   // d = a op b
	vk       [numOps]func(d, a []T, k T) // d = a op k
	kv       [numOps]func(d, a []T, k T) // d = k op a
	v        [numOps]func(d, a []T)      // d = op a
	compare  [numOps]func(d []byte, a, b []T)
	compareK [numOps]func(d []byte, a []T, k T)
}

var kernels32, kernels64 = withRoutines(newKernels[float32](), newKernels[float64]())

func kernelsOf[T real]() *kernels[T] {
	if k, ok := any(kernels32).(*kernels[T]); ok {
		return k
	}
	return any(kernels64).(*kernels[T])
}

// newKernels returns the kernels written in Go.
func newKernels[T real]() *kernels[T] {
	k := &kernels[T]{
		vv: [numOps]func(d, a, b []T){opAdd: add[T], opSub: sub[T], opMul: mul[T], opDiv: div[T], opMod: mod[T],
			opModInt: modInt[T], opMin: minVV[T], opMax: maxVV[T],
			opBitAnd: bitAnd[T], opBitOr: bitOr[T], opShiftLeft: shiftLeft[T], opShiftRight: shiftRight[T],
			opPow: each2[T](pow32, pow), opAtan2: each2[T](elementary.Atan2, atan2), opHypot: each2[T](hypot32, hypot)},
		vk: [numOps]func(d, a []T, k T){opAdd: addK[T], opSub: subK[T], opMul: mulK[T], opDiv: divK[T], opMin: minK[T],
			opMax: maxK[T], opBitAnd: bitAndK[T], opShiftRight: shiftRightK[T]},
		kv: [numOps]func(d, a []T, k T){opAdd: addK[T], opSub: kSub[T], opMul: mulK[T], opDiv: kDiv[T], opMin: minK[T],
			opMax: maxK[T], opBitAnd: bitAndK[T]},
		v: [numOps]func(d, a []T){opNeg: neg[T], opAbs: abs[T], opFloor: floor[T], opCeil: ceil[T], opRound: round[T],
			opSqrt: sqrt[T], opExp: each[T](elementary.Exp, exp),
			opExpm1: each[T](elementary.Expm1, elementary.Expm1), opLog: each[T](elementary.Log, log),
			opLog10: each[T](elementary.Log10, log10), opLog2: each[T](elementary.Log2, log2),
			opLog1p: each[T](elementary.Log1p, elementary.Log1p), opSin: each[T](elementary.Sin, sin),
			opCos: each[T](elementary.Cos, cos), opTan: each[T](elementary.Tan, tan),
			opAsin: each[T](elementary.Asin, asin), opAcos: each[T](elementary.Acos, acos),
			opAtan: each[T](elementary.Atan, atan), opSinh: each[T](elementary.Sinh, sinh),
			opCosh: each[T](elementary.Cosh, cosh), opTanh: each[T](elementary.Tanh, tanh)},
		compare: [numOps]func(d []byte, a, b []T){opLt: less[T], opLe: lessEqual[T], opEq: equal[T], opNe: notEqual[T]},
		compareK: [numOps]func(d []byte, a []T, k T){opLt: lessK[T], opLe: lessEqualK[T], opGt: greaterK[T],
			opGe: greaterEqualK[T], opEq: equalK[T], opNe: notEqualK[T]},
	}
	k.compare[opGt] = func(d []byte, a, b []T) { less(d, b, a) }
	k.compare[opGe] = func(d []byte, a, b []T) { lessEqual(d, b, a) }
	return k
}

func apply64(o op, vs []val) float64 { return apply[float64](o, vs) }
func apply32(o op, vs []val) float64 { return float64(apply[float32](o, vs)) }

// apply computes an operation on one or two constants.
func apply[T real](o op, vs []val) T {
	var d, a, b [1]T
	a[0] = T(vs[0].c)
	if len(vs) == 1 {
		kernelsOf[T]().v[o](d[:], a[:])
		return d[0]
	}
	b[0] = T(vs[1].c)
	kernelsOf[T]().vv[o](d[:], a[:], b[:])
	return d[0]
}
