package expr

import (
	"math"

	"leat/internal/elementary"
)

// Functions of float64 compute with numbers of two words, hi + lo, where lo is the rounding error
// of hi. Those of package elementary have errors of up to thousands of units in the last place
// (asin near 1, sin near multiples of pi, log2 near 1); they suffice for float32 results. Products
// are exact by math.FMA, which is the same on all processors. A conversion rounds each other
// product: on some of them the compiler would fuse it with the sum.

func twoSum(a, b float64) (hi, lo float64) {
	hi = a + b
	t := hi - a
	return hi, (a - (hi - t)) + (b - t)
}

// fastSum is twoSum for |a| >= |b|.
func fastSum(a, b float64) (hi, lo float64) {
	hi = a + b
	return hi, b - (hi - a)
}

func twoProd(a, b float64) (hi, lo float64) {
	hi = float64(a * b)
	return hi, math.FMA(a, b, -hi)
}

func mul2(ah, al, bh, bl float64) (hi, lo float64) {
	hi, lo = twoProd(ah, bh)
	lo += float64(ah*bl) + float64(al*bh)
	return fastSum(hi, lo)
}

func add2(ah, al, bh, bl float64) (hi, lo float64) {
	hi, lo = twoSum(ah, bh)
	return fastSum(hi, lo+(al+bl))
}

func div2(ah, al, bh, bl float64) (hi, lo float64) {
	q := ah / bh
	r := math.FMA(-q, bh, ah) + (al - float64(q*bl))
	return fastSum(q, r/bh)
}

func sqrt2(h, l float64) (hi, lo float64) {
	r := math.Sqrt(h)
	return fastSum(r, (math.FMA(-r, r, h)+l)/float64(2*r))
}

// poly returns c[0] + c[1]x + c[2]x**2 + ...
func poly(x float64, c []float64) float64 {
	r := c[len(c)-1]
	for i := len(c) - 2; i >= 0; i-- {
		r = float64(r*x) + c[i]
	}
	return r
}

const (
	ln2Hi  = 0x1.62e42fefa39efp-1
	ln2Lo  = 0x1.abc9e3b39803fp-56
	log2eH = 0x1.71547652b82fep+0 // 1/ln(2)
	log2eL = 0x1.777d0ffda0d24p-56
	log10H = 0x1.bcb7b1526e50ep-2 // 1/ln(10)
	log10L = 0x1.95355baaafad3p-57
)

// atanhSeries holds 1/5, 1/7, ...: (atanh(s)/s - 1 - s**2/3) / s**4 in powers of s**2.
var atanhSeries = []float64{1. / 5, 1. / 7, 1. / 9, 1. / 11, 1. / 13, 1. / 15, 1. / 17, 1. / 19, 1. / 21, 1. / 23,
	1. / 25, 1. / 27}

// logParts returns ln(m) and k for x = m * 2**k with sqrt(1/2) <= m < sqrt(2). x is positive and
// finite. The relative error of ln(m) is below 2**-63.
func logParts(x float64) (hi, lo float64, k int) {
	m, k := math.Frexp(x)
	if m < math.Sqrt2/2 {
		m *= 2
		k--
	}
	dh, dl := twoSum(m, 1)
	sh, sl := div2(m-1, 0, dh, dl)
	zh, zl := mul2(sh, sl, sh, sl)
	// 1/3 in two words
	th, tl := mul2(zh, zl, 0x1.5555555555555p-2, 0x1.5555555555555p-56)
	th, tl = fastSum(th, tl+float64(float64(zh*zh)*poly(zh, atanhSeries)))
	ph, pl := mul2(sh, sl, th, tl)
	hi, lo = fastSum(sh, ph)
	hi, lo = fastSum(hi, lo+(sl+pl))
	return float64(2 * hi), float64(2 * lo), k
}

// logTwo returns ln(x) in two words.
func logTwo(x float64) (hi, lo float64) {
	h, l, k := logParts(x)
	if k == 0 {
		return h, l
	}
	kh, kl := twoProd(float64(k), ln2Hi)
	kl += float64(float64(k) * ln2Lo)
	kh, kl = fastSum(kh, kl)
	return add2(kh, kl, h, l)
}

func log(x float64) float64 {
	if x > 0 && x < 0x1p-1022 {
		h, _ := logTwo(x)
		return h
	}
	return elementary.Log(x)
}

func log10(x float64) float64 {
	if !(x > 0) || math.IsInf(x, 1) {
		return elementary.Log(x)
	}
	h, l := logTwo(x)
	h, _ = mul2(h, l, log10H, log10L)
	return h
}

func log2(x float64) float64 {
	if !(x > 0) || math.IsInf(x, 1) {
		return elementary.Log(x)
	}
	h, l, k := logParts(x)
	h, l = mul2(h, l, log2eH, log2eL)
	h, _ = add2(float64(k), 0, h, l)
	return h
}

// expSeries holds 1/2!, 1/3!, ...
var expSeries = factorials(2, 1, 1, 14)

// factorials returns sign/start!, sign**2/(start+step)!, ... as coefficients of a series.
func factorials(start, step, sign, n int) []float64 {
	c := make([]float64, n)
	s := 1.0
	for i := range c {
		f := 1.0 // exact up to 22!; rounding errors beyond are in negligible terms
		for j := 2; j <= start+i*step; j++ {
			f *= float64(j)
		}
		c[i] = s / f
		s *= float64(sign)
	}
	return c
}

// expParts returns m, in two words, and k with exp(h + l) = m * 2**k, for |h| below 800.
func expParts(h, l float64) (hi, lo float64, k int) {
	n := math.RoundToEven(float64(h * log2eH))
	ph, pl := twoProd(n, ln2Hi)
	rh, rl := twoSum(h, -ph)
	rl += l - pl - float64(n*ln2Lo)
	rh, rl = fastSum(rh, rl)
	s := rl + float64(float64(rh*rh)*poly(rh, expSeries)) + float64(rl*rh)
	hi, lo = fastSum(1, rh)
	hi, lo = fastSum(hi, lo+s)
	return hi, lo, int(n)
}

// scale2 returns h * 2**k.
func scale2(h float64, k int) float64 {
	if k > -1000 && k < 1000 {
		return h * math.Float64frombits(uint64(k+1023)<<52)
	}
	return math.Ldexp(h, k)
}

func exp2words(h, l float64) float64 {
	switch {
	case h > 720:
		return math.Inf(1)
	case h < -760:
		return 0
	}
	m, _, k := expParts(h, l)
	return scale2(m, k)
}

func exp(x float64) float64 {
	if x != x {
		return x
	}
	return exp2words(x, 0)
}

// pow returns a ** b in float64. Unlike the C function it returns NaN for any NaN operand:
// otherwise an invalid value could become valid.
func pow(a, b float64) float64 {
	if a != a || b != b {
		return math.NaN()
	}
	if b == 0 || a == 1 || a == -1 || a == 0 || math.IsInf(a, 0) || math.IsInf(b, 0) || a < 0 && b != math.Trunc(b) {
		return math.Pow(a, b)
	}
	h, l := logTwo(math.Abs(a))
	if math.Abs(h) > 1e-300 && math.Abs(b) < 1e300/math.Abs(h) {
		h, l = mul2(h, l, b, 0)
	} else {
		h, l = float64(h*b), 0
	}
	r := exp2words(h, l)
	if a < 0 && math.Mod(b, 2) != 0 {
		return -r
	}
	return r
}

// pow32 is pow for float32 results, in which an additional rounding of float64 does not show.
func pow32(a, b float64) float64 {
	if a > 0 && a <= math.MaxFloat32 && math.Abs(b) <= math.MaxFloat32 {
		return elementary.Exp(float64(b * elementary.Log(a)))
	}
	return pow(a, b)
}

// powInt computes a ** n by multiplications, exactly if the result is an integer within 2**53.
func powInt(a float64, n int) float64 {
	switch {
	case a != a || n == 1:
		return a
	case n == 2:
		return float64(a * a)
	case n < 0:
		return pow(a, float64(n))
	}
	rh, rl, ah, al := 1.0, 0.0, a, 0.0
	for k := n; ; {
		if k&1 != 0 {
			rh, rl = mul2(rh, rl, ah, al)
		}
		if k >>= 1; k == 0 {
			break
		}
		ah, al = mul2(ah, al, ah, al)
	}
	if rh != rh || math.IsInf(rh, 0) || math.Abs(rh) < 0x1p-960 {
		return pow(a, float64(n)) // the second word underflowed or overflowed
	}
	return rh
}

// powInt32 is powInt for float32 results.
func powInt32(a float64, n int) float64 {
	if a != a {
		return a
	}
	r, m := 1.0, max(n, -n)
	for {
		if m&1 != 0 {
			r = float64(r * a)
		}
		if m >>= 1; m == 0 {
			break
		}
		a = float64(a * a)
	}
	if n < 0 {
		return 1 / r
	}
	return r
}
