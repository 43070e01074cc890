package elementary

import "math"

// Exp returns e**x. It is the algorithm of math.Exp on processors with FMA (Naoki Shibata, 2010).
func Exp(x float64) float64 {
	const (
		ln2U = 0.69314718055966295651160180568695068359375
		ln2L = 0.28235290563031577122588448175013436025525412068e-12
	)
	switch {
	case x != x:
		return x
	case x > 7.09782712893384e+02:
		return math.Inf(1)
	case x < -800:
		return 0
	}
	n := math.RoundToEven(float64(math.Log2E * x))
	r := math.FMA(-n, ln2L, math.FMA(-n, ln2U, x)) * 0.0625
	p := math.FMA(r, 2.4801587301587301587e-5, 1.9841269841269841270e-4)
	p = math.FMA(r, p, 1.3888888888888888889e-3)
	p = math.FMA(r, p, 8.3333333333333333333e-3)
	p = math.FMA(r, p, 4.1666666666666666667e-2)
	p = math.FMA(r, p, 1.6666666666666666667e-1)
	p = math.FMA(r, p, 0.5)
	p = math.FMA(r, p, 1)
	// e**r - 1 from that of a sixteenth of r.
	y := float64(r * p)
	y = float64(y * (y + 2))
	y = float64(y * (y + 2))
	y = float64(y * (y + 2))
	y = math.FMA(y, y+2, 1)
	switch e := int(n) + 1023; {
	case e >= 2047:
		return float64(y*0x1p1023) * 2
	case e > 0:
		return float64(y * math.Float64frombits(uint64(e)<<52))
	case e < -52:
		return 0
	default: // subnormal
		return float64(float64(y*math.Float64frombits(uint64(e+1022)<<52)) * 0x1p-1022)
	}
}

// Expm1 returns e**x - 1, accurately near 0 too.
func Expm1(x float64) float64 {
	const (
		ln2X56    = 3.88162421113569373274e+01
		ln2HalfX3 = 1.03972077083991796413e+00
		ln2Half   = 3.46573590279972654709e-01
		q1        = -3.33333333333331316428e-02
		q2        = 1.58730158725481460165e-03
		q3        = -7.93650757867487942473e-05
		q4        = 4.00821782732936239552e-06
		q5        = -2.01099218183624371326e-07
	)
	a := math.Abs(x)
	switch {
	case x != x || math.IsInf(x, 1):
		return x
	case x <= -ln2X56:
		return -1
	case x >= 7.09782712893383973096e+02:
		return math.Inf(1)
	case a < 0x1p-54:
		return x
	}
	var c float64
	k := 0
	if a > ln2Half {
		var hi, lo float64
		switch {
		case a >= ln2HalfX3:
			k = int(float64(math.Log2E*x) + math.Copysign(0.5, x))
			n := float64(k)
			hi, lo = x-float64(n*ln2Hi), float64(n*ln2Lo)
		case x > 0:
			hi, lo, k = x-ln2Hi, ln2Lo, 1
		default:
			hi, lo, k = x+ln2Hi, -ln2Lo, -1
		}
		x = hi - lo
		c = (hi - x) - lo
	}
	hfx := float64(0.5 * x)
	hxs := float64(x * hfx)
	r := mulAdd(hxs, mulAdd(hxs, mulAdd(hxs, mulAdd(hxs, mulAdd(hxs, q5, q4), q3), q2), q1), 1)
	t := 3 - float64(r*hfx)
	e := float64(hxs * ((r - t) / (6 - float64(x*t))))
	if k == 0 {
		return x - (float64(x*e) - hxs)
	}
	e = float64(x*(e-c)) - c
	e -= hxs
	scaled := func(y float64) float64 { return math.Float64frombits(math.Float64bits(y) + uint64(k)<<52) }
	switch {
	case k == -1:
		return float64(0.5*(x-e)) - 0.5
	case k == 1 && x < -0.25:
		return float64(-2 * (e - (x + 0.5)))
	case k == 1:
		return 1 + float64(2*(x-e))
	case k <= -2 || k > 56:
		return scaled(1-(e-x)) - 1
	case k < 20:
		return scaled(math.Float64frombits(1023<<52-(1<<53>>uint(k))) - (e - x))
	}
	return scaled(x - (e + math.Float64frombits(uint64(1023-k)<<52)) + 1)
}

// Sinh returns the hyperbolic sine of x.
func Sinh(x float64) float64 {
	const ( // Hart & Cheney 2029
		p0 = -0.6307673640497716991184787251e+6
		p1 = -0.8991272022039509355398013511e+5
		p2 = -0.2894211355989563807284660366e+4
		p3 = -0.2630563213397497062819489e+2
		q0 = -0.6307673640497716991212077277e+6
		q1 = 0.1521517378790019070696485176e+5
		q2 = -0.173678953558233699533450911e+3
	)
	a := x // a zero keeps its sign
	if x < 0 {
		a = -x
	}
	var y float64
	switch {
	case a > 21:
		y = float64(Exp(a) * 0.5)
	case a > 0.5:
		e := Exp(a)
		y = float64((e - 1/e) * 0.5)
	default:
		s := float64(a * a)
		y = float64(mulAdd(mulAdd(mulAdd(p3, s, p2), s, p1), s, p0) * a)
		y /= mulAdd(mulAdd(s+q2, s, q1), s, q0)
	}
	if x < 0 {
		return -y
	}
	return y
}

// Cosh returns the hyperbolic cosine of x.
func Cosh(x float64) float64 {
	a := math.Abs(x)
	e := Exp(a)
	if a > 21 {
		return float64(e * 0.5)
	}
	return float64((e + 1/e) * 0.5)
}

// Tanh returns the hyperbolic tangent of x. It is the algorithm of the Cephes library.
func Tanh(x float64) float64 {
	const (
		p0 = -9.64399179425052238628e-1
		p1 = -9.92877231001918586564e1
		p2 = -1.61468768441708447952e3
		q0 = 1.12811678491632931402e2
		q1 = 2.23548839060100448583e3
		q2 = 4.84406305325125486048e3
	)
	a := math.Abs(x)
	switch {
	case a > 4.4014845965556527149e+01: // ln(2**127) / 2
		return math.Copysign(1, x)
	case a >= 0.625:
		return math.Copysign(1-2/(Exp(2*a)+1), x)
	case x == 0:
		return x
	}
	s := float64(x * x)
	return x + x*s*mulAdd(mulAdd(p0, s, p1), s, p2)/mulAdd(mulAdd(s+q0, s, q1), s, q2)
}
