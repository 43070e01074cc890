package elementary

import (
	"math"
	"math/bits"
)

// The algorithms are those of the Cephes library (Stephen L. Moshier).

// pi/4 in three words, of which the first two end in zeros.
const (
	pi4A = 7.85398125648498535156e-1
	pi4B = 3.77489470793079817668e-8
	pi4C = 2.69515142907905952645e-15
)

// reduce returns x minus the nearest even multiple of pi/4, and that multiple modulo 8. x is
// positive and finite.
func reduce(x float64) (octant uint64, rest float64) {
	if x >= 1<<29 {
		return reduceLarge(x)
	}
	octant = uint64(x * (4 / math.Pi))
	octant += octant & 1
	y := float64(octant)
	return octant & 7, ((x - float64(y*pi4A)) - float64(y*pi4B)) - float64(y*pi4C)
}

func sinPoly(z float64) float64 {
	s := float64(z * z)
	return mulAdd(z*s, mulAdd(mulAdd(mulAdd(mulAdd(mulAdd(1.58962301576546568060e-10, s, -2.50507477628578072866e-8), s,
		2.75573136213857245213e-6), s, -1.98412698295895385996e-4), s, 8.33333333332211858878e-3), s,
		-1.66666666666666307295e-1), z)
}

func cosPoly(z float64) float64 {
	s := float64(z * z)
	return mulAdd(s*s, mulAdd(mulAdd(mulAdd(mulAdd(mulAdd(-1.13585365213876817300e-11, s, 2.08757008419747316778e-9), s,
		-2.75573141792967388112e-7), s, 2.48015872888517045348e-5), s, -1.38888888888730564116e-3), s,
		4.16666666666665929218e-2), 1-float64(0.5*s))
}

// Sin returns the sine of x.
func Sin(x float64) float64 {
	switch {
	case x == 0 || x != x:
		return x
	case math.IsInf(x, 0):
		return math.NaN()
	}
	j, z := reduce(math.Abs(x))
	var y float64
	if j&3 == 2 {
		y = cosPoly(z)
	} else {
		y = sinPoly(z)
	}
	if (j > 3) != (x < 0) {
		return -y
	}
	return y
}

// Cos returns the cosine of x.
func Cos(x float64) float64 {
	if x-x != 0 {
		return math.NaN()
	}
	j, z := reduce(math.Abs(x))
	var y float64
	if j&3 == 2 {
		y = sinPoly(z)
	} else {
		y = cosPoly(z)
	}
	if j == 2 || j == 4 {
		return -y
	}
	return y
}

// Tan returns the tangent of x.
func Tan(x float64) float64 {
	const (
		p0 = -1.30936939181383777646e4
		p1 = 1.15351664838587416140e6
		p2 = -1.79565251976484877988e7
		q1 = 1.36812963470692954678e4
		q2 = -1.32089234440210967447e6
		q3 = 2.50083801823357915839e7
		q4 = -5.38695755929454629881e7
	)
	switch {
	case x == 0 || x != x:
		return x
	case math.IsInf(x, 0):
		return math.NaN()
	}
	j, z := reduce(math.Abs(x))
	y, s := z, float64(z*z)
	if s > 1e-14 {
		y = mulAdd(z, float64(s*mulAdd(mulAdd(p0, s, p1), s, p2))/mulAdd(mulAdd(mulAdd(s+q1, s, q2), s, q3), s, q4), z)
	}
	if j&2 == 2 {
		y = -1 / y
	}
	if x < 0 {
		return -y
	}
	return y
}

// atanPoly returns the arctangent of x from 0 to 0.66.
func atanPoly(x float64) float64 {
	const (
		p0 = -8.750608600031904122785e-01
		p1 = -1.615753718733365076637e+01
		p2 = -7.500855792314704667340e+01
		p3 = -1.228866684490136173410e+02
		p4 = -6.485021904942025371773e+01
		q0 = +2.485846490142306297962e+01
		q1 = +1.650270098316988542046e+02
		q2 = +4.328810604912902668951e+02
		q3 = +4.853903996359136964868e+02
		q4 = +1.945506571482613964425e+02
	)
	z := float64(x * x)
	z = float64(z*mulAdd(mulAdd(mulAdd(mulAdd(p0, z, p1), z, p2), z, p3), z, p4)) /
		mulAdd(mulAdd(mulAdd(mulAdd(z+q0, z, q1), z, q2), z, q3), z, q4)
	return mulAdd(x, z, x)
}

// atanPositive returns the arctangent of x, which is not negative.
func atanPositive(x float64) float64 {
	const more = 6.123233995736765886130e-17 // pi/2 minus its float64
	switch {
	case x <= 0.66:
		return atanPoly(x)
	case x > 2.41421356237309504880: // tan(3/8 pi)
		return math.Pi/2 - atanPoly(1/x) + more
	}
	return math.Pi/4 + atanPoly((x-1)/(x+1)) + 0.5*more
}

// Atan returns the arctangent of x.
func Atan(x float64) float64 {
	switch {
	case x == 0:
		return x
	case x > 0:
		return atanPositive(x)
	}
	return -atanPositive(-x)
}

// Asin returns the arcsine of x.
func Asin(x float64) float64 {
	a := math.Abs(x)
	switch {
	case x == 0 || x != x:
		return x
	case a > 1:
		return math.NaN()
	}
	y := math.Sqrt(1 - float64(a*a))
	if a > 0.7 {
		y = math.Pi/2 - atanPositive(y/a)
	} else {
		y = atanPositive(a / y)
	}
	if x < 0 {
		return -y
	}
	return y
}

// Acos returns the arccosine of x.
func Acos(x float64) float64 { return math.Pi/2 - Asin(x) }

// Atan2 returns the angle of the point (x, y).
func Atan2(y, x float64) float64 {
	if x == 0 || y == 0 || x-x != 0 || y-y != 0 {
		return math.Atan2(y, x) // constants and their signs
	}
	q := Atan(y / x)
	switch {
	case x >= 0:
		return q
	case q <= 0:
		return q + math.Pi
	}
	return q - math.Pi
}

// reduceLarge is reduce for large x, by the method of Payne and Hanek: it multiplies by 4/pi in
// integers. (K. C. Ng et al., Argument reduction for huge arguments: good to the last bit, 1992.)
func reduceLarge(x float64) (octant uint64, rest float64) {
	const bias, shift = 1023, 52
	ix := math.Float64bits(x)
	exp := int(ix>>shift&0x7ff) - bias - shift
	ix &^= 0x7ff << shift
	ix |= 1 << shift
	digit, shifted := uint(exp+61)/64, uint(exp+61)%64
	z0 := (fourByPi[digit] << shifted) | (fourByPi[digit+1] >> (64 - shifted))
	z1 := (fourByPi[digit+1] << shifted) | (fourByPi[digit+2] >> (64 - shifted))
	z2 := (fourByPi[digit+2] << shifted) | (fourByPi[digit+3] >> (64 - shifted))
	z2hi, _ := bits.Mul64(z2, ix)
	z1hi, z1lo := bits.Mul64(z1, ix)
	lo, carry := bits.Add64(z1lo, z2hi, 0)
	hi, _ := bits.Add64(z0*ix, z1hi, carry)
	octant = hi >> 61
	hi = hi<<3 | lo>>61
	zeros := uint(bits.LeadingZeros64(hi))
	hi = (hi << (zeros + 1)) | (lo >> (64 - (zeros + 1)))
	rest = math.Float64frombits(hi>>(64-shift) | uint64(bias-(zeros+1))<<shift)
	if octant&1 == 1 {
		octant = (octant + 1) & 7
		rest--
	}
	return octant, float64(rest * (math.Pi / 4))
}

// fourByPi holds 4/pi: the sum of fourByPi[i] * 2**(-64*i).
var fourByPi = [...]uint64{
	0x0000000000000001,
	0x45f306dc9c882a53,
	0xf84eafa3ea69bb81,
	0xb6c52b3278872083,
	0xfca2c757bd778ac3,
	0x6e48dc74849ba5c0,
	0x0c925dd413a32439,
	0xfc3bd63962534e7d,
	0xd1046bea5d768909,
	0xd338e04d68befc82,
	0x7323ac7306a673e9,
	0x3908bf177bf25076,
	0x3ff12fffbc0b301f,
	0xde5e2316b414da3e,
	0xda6cfd9e4f96136e,
	0x9e8c7ecd3cbfd45a,
	0xea4f758fd7cbe2f6,
	0x7a0e73ef14a525d4,
	0xd7f6bf623f1aba10,
	0xac06608df8f6d757,
}
