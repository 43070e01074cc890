package elementary

import "math"

// ln(2) in two words, of which the first ends in zeros.
const (
	ln2Hi = 6.93147180369123816490e-01
	ln2Lo = 1.90821492927058770002e-10
)

// Coefficients of the logarithms.
const (
	l1 = 6.666666666666735130e-01
	l2 = 3.999999999940941908e-01
	l3 = 2.857142874366239149e-01
	l4 = 2.222219843214978396e-01
	l5 = 1.818357216161805012e-01
	l6 = 1.531383769920937332e-01
	l7 = 1.479819860511658591e-01
)

// Log returns the natural logarithm of x.
func Log(x float64) float64 {
	switch {
	case x != x || math.IsInf(x, 1):
		return x
	case x < 0:
		return math.NaN()
	case x == 0:
		return math.Inf(-1)
	}
	m, e := math.Frexp(x)
	if m < math.Sqrt2/2 {
		m *= 2
		e--
	}
	f, k := m-1, float64(e)
	s := f / (2 + f)
	s2 := float64(s * s)
	s4 := float64(s2 * s2)
	t1 := float64(s2 * mulAdd(s4, mulAdd(s4, mulAdd(s4, l7, l5), l3), l1))
	t2 := float64(s4 * mulAdd(s4, mulAdd(s4, l6, l4), l2))
	half := float64(0.5 * f * f)
	return float64(k*ln2Hi) - ((half - (float64(s*(half+(t1+t2))) + float64(k*ln2Lo))) - f)
}

// Log10 returns the decimal logarithm of x.
func Log10(x float64) float64 { return float64(Log(x) * (1 / math.Ln10)) }

// Log2 returns the binary logarithm of x, which is exact for powers of two.
func Log2(x float64) float64 {
	m, e := math.Frexp(x)
	if m == 0.5 {
		return float64(e - 1)
	}
	return mulAdd(Log(m), 1/math.Ln2, float64(e))
}

// Log1p returns ln(1 + x), accurately near 0 too.
func Log1p(x float64) float64 {
	const (
		sqrt2M1     = 4.142135623730950488017e-01
		sqrt2HalfM1 = -2.928932188134524755992e-01
	)
	switch {
	case x < -1 || x != x:
		return math.NaN()
	case x == -1:
		return math.Inf(-1)
	case math.IsInf(x, 1):
		return x
	}
	a := math.Abs(x)
	var f, c float64
	var frac uint64
	k := 1
	if a < sqrt2M1 {
		switch {
		case a < 0x1p-54:
			return x
		case a < 0x1p-29:
			return x - float64(x*x*0.5)
		case x > sqrt2HalfM1:
			k, f, frac = 0, x, 1
		}
	}
	if k != 0 {
		var u float64
		if a < 1<<53 {
			u = 1 + x
			frac = math.Float64bits(u)
			k = int((frac >> 52) - 1023)
			if k > 0 {
				c = 1 - (u - x)
			} else {
				c = x - (u - 1)
			}
			c /= u
		} else {
			u = x
			frac = math.Float64bits(u)
			k = int((frac >> 52) - 1023)
		}
		frac &= 1<<52 - 1
		if frac < 0x0006a09e667f3bcd { // that of sqrt(2)
			u = math.Float64frombits(frac | 1023<<52)
		} else {
			k++
			u = math.Float64frombits(frac | 1022<<52)
			frac = (1<<52 - frac) >> 2
		}
		f = u - 1
	}
	half, n := float64(0.5*f*f), float64(k)
	if frac == 0 { // |f| < 2**-20
		if f == 0 {
			if k == 0 {
				return 0
			}
			return mulAdd(n, ln2Hi, mulAdd(n, ln2Lo, c))
		}
		r := float64(half * (1 - float64(0.66666666666666666*f)))
		if k == 0 {
			return f - r
		}
		return float64(n*ln2Hi) - ((r - mulAdd(n, ln2Lo, c)) - f)
	}
	s := f / (2 + f)
	z := float64(s * s)
	r := float64(z * mulAdd(z, mulAdd(z, mulAdd(z, mulAdd(z, mulAdd(z, mulAdd(z, l7, l6), l5), l4), l3), l2), l1))
	if k == 0 {
		return f - (half - float64(s*(half+r)))
	}
	return float64(n*ln2Hi) - ((half - (float64(s*(half+r)) + mulAdd(n, ln2Lo, c))) - f)
}
