package expr

import "math"

// kernelVV returns the kernel of an operation with two vectors.
func kernelVV[T real](o op) func(d, a, b []T) {
	switch o {
	case opAdd:
		return add[T]
	case opSub:
		return sub[T]
	case opMul:
		return mul[T]
	case opDiv:
		return div[T]
	case opMod:
		return mod[T]
	case opModInt:
		return modInt[T]
	case opMin:
		return minVV[T]
	case opMax:
		return maxVV[T]
	case opPow:
		return each2[T](pow32, pow)
	case opAtan2:
		return each2[T](math.Atan2, atan2)
	case opHypot:
		return each2[T](hypot32, hypot)
	}
	return nil
}

// kernelVK returns the kernel of an operation with a constant on the right (side 1) or left (side
// -1), or nil.
func kernelVK[T real](o op, side int) func(d, a []T, k T) {
	switch o {
	case opAdd:
		return addK[T]
	case opMul:
		return mulK[T]
	case opMin:
		return minK[T]
	case opMax:
		return maxK[T]
	case opSub:
		if side < 0 {
			return kSub[T]
		}
		return subK[T]
	case opDiv:
		if side < 0 {
			return kDiv[T]
		}
		return divK[T]
	}
	return nil
}

// kernelV returns the kernel of an operation with one vector.
func kernelV[T real](o op) func(d, a []T) {
	switch o {
	case opNeg:
		return neg[T]
	case opAbs:
		return abs[T]
	case opFloor:
		return floor[T]
	case opCeil:
		return ceil[T]
	case opRound:
		return round[T]
	case opSqrt:
		return sqrt[T]
	case opExp:
		return each[T](math.Exp, exp)
	case opExpm1:
		return each[T](math.Expm1, math.Expm1)
	case opLog:
		return each[T](math.Log, log)
	case opLog10:
		return each[T](math.Log10, log10)
	case opLog2:
		return each[T](math.Log2, log2)
	case opLog1p:
		return each[T](math.Log1p, math.Log1p)
	case opSin:
		return each[T](math.Sin, sin)
	case opCos:
		return each[T](math.Cos, cos)
	case opTan:
		return each[T](math.Tan, tan)
	case opAsin:
		return each[T](math.Asin, asin)
	case opAcos:
		return each[T](math.Acos, acos)
	case opAtan:
		return each[T](math.Atan, atan)
	case opSinh:
		return each[T](math.Sinh, sinh)
	case opCosh:
		return each[T](math.Cosh, cosh)
	case opTanh:
		return each[T](math.Tanh, tanh)
	}
	return nil
}

// comparison returns the kernel of a comparison of two vectors, and whether it takes them
// exchanged.
func comparison[T real](o op) (f func(d []byte, a, b []T), swap bool) {
	switch o {
	case opLt:
		return less[T], false
	case opLe:
		return lessEqual[T], false
	case opGt:
		return less[T], true
	case opGe:
		return lessEqual[T], true
	case opEq:
		return equal[T], false
	}
	return notEqual[T], false
}

func comparisonK[T real](o op) func(d []byte, a []T, k T) {
	switch o {
	case opLt:
		return lessK[T]
	case opLe:
		return lessEqualK[T]
	case opGt:
		return greaterK[T]
	case opGe:
		return greaterEqualK[T]
	case opEq:
		return equalK[T]
	}
	return notEqualK[T]
}

func apply64(o op, vs []val) float64 {
	if len(vs) == 1 {
		return applyTo[float64](o, vs[0].c)
	}
	return applyTo[float64](o, vs[0].c, vs[1].c)
}

func apply32(o op, vs []val) float64 {
	if len(vs) == 1 {
		return float64(applyTo[float32](o, float32(vs[0].c)))
	}
	return float64(applyTo[float32](o, float32(vs[0].c), float32(vs[1].c)))
}

func applyTo[T real](o op, vs ...T) T {
	var d [1]T
	if len(vs) == 1 {
		kernelV[T](o)(d[:], vs)
	} else {
		kernelVV[T](o)(d[:], vs[:1], vs[1:])
	}
	return d[0]
}
