package expr

import (
	"math"
	"math/big"
	"sync"

	"leat/internal/elementary"
)

// pi/2 in three words.
const (
	halfPi1 = 0x1.921fb54442d18p+0
	halfPi2 = 0x1.1a62633145c07p-54
	halfPi3 = -0x1.f1976b7ed8fbcp-110
)

var (
	sinSeries  = factorials(3, 2, -1, 10) // of (r - sin r) / r**3, in powers of r**2
	cosSeries  = factorials(4, 2, -1, 10) // of (cos r - 1 + r**2/2) / r**4
	sinhSeries = factorials(3, 2, 1, 8)
	coshSeries = factorials(4, 2, 1, 8)
)

// bigPi returns pi with enough bits to reduce any float64 modulo pi/2 and keep 100 bits of the
// rest.
var bigPi = sync.OnceValue(func() *big.Float {
	const bits = 1400
	// Machin's formula: pi/4 = 4 atan(1/5) - atan(1/239)
	one := new(big.Int).Lsh(big.NewInt(1), bits+64)
	atan := func(n int64) *big.Int {
		sum, term := new(big.Int), new(big.Int).Div(one, big.NewInt(n))
		for i := int64(1); term.Sign() != 0; i += 2 {
			t := new(big.Int).Div(term, big.NewInt(i))
			if i%4 == 1 {
				sum.Add(sum, t)
			} else {
				sum.Sub(sum, t)
			}
			term.Div(term, big.NewInt(n*n))
		}
		return sum
	}
	v := new(big.Int).Mul(atan(5), big.NewInt(16))
	v.Sub(v, new(big.Int).Mul(atan(239), big.NewInt(4)))
	f := new(big.Float).SetPrec(bits).SetInt(v)
	return f.SetMantExp(f, -(bits + 64))
})

// quadrant returns x minus the nearest multiple of pi/2, in two words, and that multiple modulo 4.
func quadrant(x float64) (q int, hi, lo float64) {
	if math.Abs(x) <= math.Pi/4 {
		return 0, x, 0
	}
	if math.Abs(x) > 1<<30 {
		pi := bigPi()
		b := new(big.Float).SetPrec(pi.Prec()).SetFloat64(x)
		half := new(big.Float).SetPrec(pi.Prec()).Quo(pi, big.NewFloat(2))
		n := new(big.Float).SetPrec(pi.Prec()).Quo(b, half)
		n.Add(n, big.NewFloat(math.Copysign(0.5, x)))
		k, _ := n.Int(nil)
		b.Sub(b, half.Mul(half, n.SetInt(k)))
		hi, _ = b.Float64()
		lo, _ = b.Sub(b, new(big.Float).SetFloat64(hi)).Float64()
		return int(new(big.Int).And(k, big.NewInt(3)).Int64()), hi, lo
	}
	k := math.RoundToEven(float64(x * (2 / math.Pi)))
	ph, pl := twoProd(k, halfPi1)
	uh, ul := twoProd(k, halfPi2)
	h1, e1 := twoSum(x-ph, -pl)
	h2, e2 := twoSum(h1, -uh)
	lo = e1 + e2 - ul - float64(k*halfPi3)
	hi, lo = fastSum(h2, lo)
	return int(int64(k) & 3), hi, lo
}

// sinCos returns sine and cosine in two words each.
func sinCos(x float64) (sh, sl, ch, cl float64) {
	q, h, l := quadrant(x)
	z := float64(h * h)
	sh, sl = fastSum(h, float64(float64(-h*z)*poly(z, sinSeries))+float64(l*(1-float64(z/2))))
	zh, zl := twoProd(h, h)
	ch, cl = fastSum(1, -float64(zh/2))
	cl += float64(float64(z*z)*poly(z, cosSeries)) - float64(zl/2) - float64(h*l)
	ch, cl = fastSum(ch, cl)
	switch q {
	case 1:
		return ch, cl, -sh, -sl
	case 2:
		return -sh, -sl, -ch, -cl
	case 3:
		return -ch, -cl, sh, sl
	}
	return sh, sl, ch, cl
}

func sin(x float64) float64 {
	if x == 0 || x-x != 0 {
		return elementary.Sin(x)
	}
	h, _, _, _ := sinCos(x)
	return h
}

func cos(x float64) float64 {
	if x-x != 0 {
		return elementary.Cos(x)
	}
	_, _, h, _ := sinCos(x)
	return h
}

func tan(x float64) float64 {
	if math.Abs(x) < 0x1p-30 {
		return x
	}
	if x-x != 0 {
		return elementary.Tan(x)
	}
	sh, sl, ch, cl := sinCos(x)
	h, _ := div2(sh, sl, ch, cl)
	return h
}

// angle returns the angle of the point (x, y), whose coordinates are not 0 and of moderate size. It
// corrects a first estimate by its error, which it computes with sine and cosine of the estimate.
func angle(yh, yl, xh, xl float64) float64 {
	a := elementary.Atan2(yh, xh)
	sh, sl, ch, cl := sinCos(a)
	ph, pl := mul2(yh, yl, ch, cl)
	qh, ql := mul2(xh, xl, sh, sl)
	dh, dl := add2(ph, pl, -qh, -ql)
	return a + (dh+dl)/(float64(xh*ch)+float64(yh*sh))
}

func atan2(y, x float64) float64 {
	if x == 0 || y == 0 || x-x != 0 || y-y != 0 {
		return elementary.Atan2(y, x)
	}
	ex, ey := math.Ilogb(x), math.Ilogb(y)
	switch {
	case ey-ex > 70:
		return math.Copysign(math.Pi/2, y)
	case ex-ey > 70 && x < 0:
		return math.Copysign(math.Pi, y)
	case ex-ey > 70:
		return y / x
	}
	return angle(math.Ldexp(y, -ex), 0, math.Ldexp(x, -ex), 0)
}

func atan(x float64) float64 { return atan2(x, 1) }

// sideOf returns sqrt(1 - x**2).
func sideOf(x float64) (hi, lo float64) {
	ph, pl := twoProd(x, x)
	h, l := twoSum(1, -ph)
	return sqrt2(fastSum(h, l-pl))
}

func asin(x float64) float64 {
	if math.Abs(x) < 0x1p-30 {
		return x
	}
	if !(math.Abs(x) < 1) {
		return elementary.Asin(x)
	}
	h, l := sideOf(x)
	return angle(x, 0, h, l)
}

func acos(x float64) float64 {
	if !(math.Abs(x) < 1) || math.Abs(x) < 0x1p-60 {
		return elementary.Acos(x)
	}
	h, l := sideOf(x)
	return angle(h, l, x, 0)
}

// hyperbolic returns sinh(x)/2**k and cosh(x)/2**k in two words each, for 0 < x < 712.
func hyperbolic(x float64) (sh, sl, ch, cl float64, k int) {
	if x < 0.25 {
		z := float64(x * x)
		sh, sl = fastSum(x, float64(float64(x*z)*poly(z, sinhSeries)))
		zh, zl := twoProd(x, x)
		ch, cl = fastSum(1, float64(zh/2))
		cl += float64(float64(z*z)*poly(z, coshSeries)) + float64(zl/2)
		ch, cl = fastSum(ch, cl)
		return sh, sl, ch, cl, 0
	}
	eh, el, k := expParts(x, 0)
	if k > 64 {
		return eh, el, eh, el, k - 1
	}
	ih, il := div2(1, 0, eh, el)
	ih, il = scale2(ih, -2*k), scale2(il, -2*k)
	sh, sl = add2(eh, el, -ih, -il)
	ch, cl = add2(eh, el, ih, il)
	return sh, sl, ch, cl, k - 1
}

func sinh(x float64) float64 {
	a := math.Abs(x)
	if a < 0x1p-30 {
		return x
	}
	if !(a < 712) {
		return elementary.Sinh(x)
	}
	h, _, _, _, k := hyperbolic(a)
	return math.Copysign(scale2(h, k), x)
}

func cosh(x float64) float64 {
	a := math.Abs(x)
	if !(a < 712) || a == 0 {
		return elementary.Cosh(x)
	}
	_, _, h, _, k := hyperbolic(a)
	return scale2(h, k)
}

func tanh(x float64) float64 {
	a := math.Abs(x)
	if a < 0x1p-30 {
		return x
	}
	if !(a < 22) {
		return elementary.Tanh(x)
	}
	sh, sl, ch, cl, _ := hyperbolic(a)
	h, _ := div2(sh, sl, ch, cl)
	return math.Copysign(h, x)
}

func hypot(a, b float64) float64 {
	if a != a || b != b {
		return math.NaN()
	}
	a, b = math.Abs(a), math.Abs(b)
	if b > a {
		a, b = b, a
	}
	if math.IsInf(a, 0) || b == 0 {
		return a
	}
	k := math.Ilogb(a)
	x, y := math.Ldexp(a, -k), math.Ldexp(b, -k)
	ph, pl := twoProd(x, x)
	qh, ql := twoProd(y, y)
	h, _ := sqrt2(add2(ph, pl, qh, ql))
	return math.Ldexp(h, k)
}

// hypot32 is hypot for float32 results, whose squares neither overflow nor underflow in float64.
func hypot32(a, b float64) float64 {
	if math.IsInf(a, 0) || math.IsInf(b, 0) {
		return hypot(a, b)
	}
	return math.Sqrt(float64(a*a) + float64(b*b))
}
