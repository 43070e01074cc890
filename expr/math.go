package expr

import "math"

// pow is a ** b in float64. Unlike the C function it keeps a NaN, which would otherwise turn an
// invalid value into a valid one.
func pow(a, b float64) float64 {
	if a != a || b != b {
		return math.NaN()
	}
	return math.Pow(a, b)
}

func hypot(a, b float64) float64 {
	if a != a || b != b {
		return math.NaN()
	}
	return math.Hypot(a, b)
}

// powInt multiplies out a ** n.
func powInt(a float64, n int) float64 {
	if n < 0 {
		return 1 / powInt(a, -n)
	}
	if a != a {
		return a
	}
	r := 1.0
	for {
		if n&1 != 0 {
			r *= a
		}
		if n >>= 1; n == 0 {
			return r
		}
		a *= a
	}
}
