package elementary

import (
	"encoding/binary"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"runtime"
	"testing"
)

var functions = []struct {
	name string
	f    func(float64) float64
	std  func(float64) float64
}{
	{"Acos", Acos, math.Acos}, {"Asin", Asin, math.Asin}, {"Atan", Atan, math.Atan}, {"Cos", Cos, math.Cos},
	{"Cosh", Cosh, math.Cosh}, {"Exp", Exp, math.Exp}, {"Expm1", Expm1, math.Expm1}, {"Log", Log, math.Log},
	{"Log10", Log10, math.Log10}, {"Log1p", Log1p, math.Log1p}, {"Log2", Log2, math.Log2}, {"Sin", Sin, math.Sin},
	{"Sinh", Sinh, math.Sinh}, {"Tan", Tan, math.Tan}, {"Tanh", Tanh, math.Tanh},
	{"Atan2", func(x float64) float64 { return Atan2(x, 0.75-x/3) },
		func(x float64) float64 { return math.Atan2(x, 0.75-x/3) }},
}

// arguments returns numbers of all magnitudes, most of them moderate, and the borders of ranges.
func arguments(n int) []float64 {
	values := []float64{0, math.Copysign(0, -1), 1, -1, 0.5, -0.5, math.Inf(1), math.Inf(-1),
		math.NaN(), math.MaxFloat64,
		-math.MaxFloat64, 0x1p-1022, 1 << 29, 1 << 53, 709.78, 709.79, -745, -745.2, -746, -708.5, -720, 0.66, 0.7,
		math.Pi, math.Pi / 2, math.Pi / 4, math.Sqrt2 - 1, math.Sqrt2/2 - 1, 21, 0.625, 44.1}
	r := rand.New(rand.NewPCG(3, 5))
	for len(values) < n {
		m := 2*r.Float64() - 1
		switch r.IntN(4) {
		case 0:
			values = append(values, m)
		case 1:
			values = append(values, math.Ldexp(m, r.IntN(1900)-900))
		default:
			values = append(values, math.Ldexp(m, r.IntN(16)-4))
		}
	}
	return values
}

func sameBits(a, b float64) bool {
	return math.Float64bits(a) == math.Float64bits(b) || a != a && b != b
}

// wrongInMath reports whether math.Exp gives infinity on amd64, or math.Log a wrong number.
func wrongInMath(x float64) bool {
	return math.Abs(x) > 709.4 && math.Abs(x) < 709.79 || x > 0 && x < 0x1p-1022
}

func TestResultsNearMath(t *testing.T) {
	for _, f := range functions {
		bad := 0
		for _, x := range arguments(100_000) {
			got, want := f.f(x), f.std(x)
			// That of the arccosine near 1 has an error of a thousand units.
			if sameBits(got, want) || math.Abs(got-want) <= 1e-14*max(math.Abs(want), 1) || wrongInMath(x) {
				continue
			}
			if bad++; bad < 5 {
				t.Errorf("%s(%g) = %g, expected %g", f.name, x, got, want)
			}
		}
	}
}

// TestResultsOfMathAMD64 compares with math where math takes the same way.
func TestResultsOfMathAMD64(t *testing.T) {
	if runtime.GOARCH != "amd64" || math.Exp(0.12345) != Exp(0.12345) || math.Exp(3.3) != Exp(3.3) {
		t.Skip("math computes in another way on this processor")
	}
	for _, f := range functions {
		bad := 0
		for _, x := range arguments(300_000) {
			if got, want := f.f(x), f.std(x); !sameBits(got, want) && !wrongInMath(x) {
				if bad++; bad < 5 {
					t.Errorf("%s(%v) = %v, expected %v", f.name, x, got, want)
				}
			}
		}
	}
}

// TestSameBitsEverywhere compares with a hash of results that was computed on amd64.
func TestSameBitsEverywhere(t *testing.T) {
	want := map[string]uint64{
		"Acos": 0x56e6a76dce7c72e4, "Asin": 0x1c9e1aa36354ef99, "Atan": 0x67fd8ef19c6e4388,
		"Cos": 0x779ae9aa8fc6e70d, "Cosh": 0x44c59b4b82889f33, "Exp": 0x44bfabfe2a8506aa,
		"Expm1": 0xad220e2410523c9, "Log": 0x86a3bb6033773007, "Log10": 0x614e5a6443db340b,
		"Log1p": 0xa300e063f8e74d2d, "Log2": 0x627df19c1469c610, "Sin": 0x78ecc73574d6e36e,
		"Sinh": 0xc62ac11dcf8b0d90, "Tan": 0xa6586c927cf4fc3a, "Tanh": 0x631b9bc71b2535f6,
		"Atan2": 0x64e3055da2404dd0,
	}
	for _, f := range functions {
		h := fnv.New64a()
		for _, x := range arguments(100_000) {
			bits := math.Float64bits(f.f(x))
			if y := f.f(x); y != y {
				bits = math.Float64bits(math.NaN())
			}
			h.Write(binary.LittleEndian.AppendUint64(nil, bits))
		}
		if got := h.Sum64(); got != want[f.name] {
			t.Errorf("%q: %#x,", f.name, got)
		}
	}
}
