package expr

import "sort"

// Function describes a function of the language.
type Function struct {
	Name     string
	Min, Max int    // number of arguments; Max is -1 if there is no limit
	Kind     string // "float", "number", "choice", "nodata", "list"
	Usage    string
	Help     string // one line
}

// Functions returns all functions, ordered by name.
func Functions() []Function {
	var fs []Function
	for _, f := range functions {
		fs = append(fs, f.Function)
	}
	sort.Slice(fs, func(i, j int) bool { return fs[i].Name < fs[j].Name })
	return fs
}

// function is a Function with the way to compile its calls.
type function struct {
	Function
	op op // of float and number functions that are one vector operation, and of list functions
}

var functions = table([]function{
	{Function{Usage: "sqrt(a)", Kind: "float", Help: "square root; NaN below 0"}, opSqrt},
	{Function{Usage: "exp(a)", Kind: "float", Help: "e to the power a"}, opExp},
	{Function{Usage: "expm1(a)", Kind: "float", Help: "exp(a) - 1, exact near 0"}, opExpm1},
	{Function{Usage: "log(a)", Kind: "float", Help: "natural logarithm; -inf at 0, NaN below"}, opLog},
	{Function{Usage: "log10(a)", Kind: "float", Help: "logarithm to base 10"}, opLog10},
	{Function{Usage: "log2(a)", Kind: "float", Help: "logarithm to base 2"}, opLog2},
	{Function{Usage: "log1p(a)", Kind: "float", Help: "log(1 + a), exact near 0"}, opLog1p},
	{Function{Usage: "sin(a)", Kind: "float", Help: "sine of radians"}, opSin},
	{Function{Usage: "cos(a)", Kind: "float", Help: "cosine of radians"}, opCos},
	{Function{Usage: "tan(a)", Kind: "float", Help: "tangent of radians"}, opTan},
	{Function{Usage: "asin(a)", Kind: "float", Help: "arc sine in radians; NaN outside -1..1"}, opAsin},
	{Function{Usage: "acos(a)", Kind: "float", Help: "arc cosine in radians; NaN outside -1..1"}, opAcos},
	{Function{Usage: "atan(a)", Kind: "float", Help: "arc tangent in radians"}, opAtan},
	{Function{Usage: "sinh(a)", Kind: "float", Help: "hyperbolic sine"}, opSinh},
	{Function{Usage: "cosh(a)", Kind: "float", Help: "hyperbolic cosine"}, opCosh},
	{Function{Usage: "tanh(a)", Kind: "float", Help: "hyperbolic tangent"}, opTanh},
	{Function{Usage: "atan2(b, a)", Kind: "float", Help: "angle of the point (a, b) in radians, -pi..pi"}, opAtan2},
	{Function{Usage: "hypot(a, b)", Kind: "float", Help: "sqrt(a**2 + b**2) without overflow"}, opHypot},

	{Function{Usage: "abs(a)", Kind: "number", Help: "value without sign"}, opAbs},
	{Function{Usage: "floor(a)", Kind: "number", Help: "largest whole number not above a"}, opFloor},
	{Function{Usage: "ceil(a)", Kind: "number", Help: "smallest whole number not below a"}, opCeil},
	{Function{Usage: "round(a)", Kind: "number", Help: "nearest whole number, halves to even"}, opRound},
	{Function{Usage: "clip(a, low, high)", Kind: "number", Help: "a limited to low..high: min(max(a, low), high)"},
		opNone},
	{Function{Usage: "float32(a)", Kind: "number", Help: "a rounded to float32"}, opNone},
	{Function{Usage: "float64(a)", Kind: "number", Help: "a as float64"}, opNone},

	{Function{Usage: "where(c, a, b)", Kind: "choice", Help: "c ? a : b"}, opNone},
	{Function{Usage: "isnodata(a)", Kind: "nodata", Help: "true where a is invalid; always valid"}, opNone},
	{Function{Usage: "fill(a, number)", Kind: "nodata", Help: "a, or the number where a is invalid; always valid"},
		opNone},
	{Function{Usage: "coalesce(a, b, ...)", Kind: "nodata", Help: "the first of them that is valid"}, opNone},

	{Function{Usage: "min(a, b, ...) or min(list)", Kind: "list", Help: "smallest; of a list: of its valid items"},
		opRedMin},
	{Function{Usage: "max(a, b, ...) or max(list)", Kind: "list", Help: "largest; of a list: of its valid items"},
		opRedMax},
	{Function{Usage: "mean(list)", Kind: "list", Help: "mean of the valid items"}, opRedMean},
	{Function{Usage: "median(list)", Kind: "list",
		Help: "median of the valid items; of an even number the mean of the middle two"}, opRedMedian},
	{Function{Usage: "std(list)", Kind: "list", Help: "standard deviation of the valid items, divided by their number"},
		opRedStd},
	{Function{Usage: "sum(list)", Kind: "list", Help: "sum of the valid items"}, opRedSum},
	{Function{Usage: "count(list)", Kind: "list", Help: "number of valid items; always valid"}, opRedCount},
})

// table derives names and numbers of arguments from the usages.
func table(fs []function) map[string]function {
	m := make(map[string]function, len(fs))
	for _, f := range fs {
		for i, c := range f.Usage {
			if c == '(' {
				f.Name = f.Usage[:i]
				break
			}
		}
		f.Min, f.Max = 1, 1
		for _, c := range f.Usage {
			switch c {
			case ',':
				f.Min++
				f.Max++
			case '.':
				f.Max = -1
			case ')':
				goto done
			}
		}
	done:
		if f.Max < 0 {
			f.Min--
			if f.Kind == "list" {
				f.Min = 1
			}
		}
		m[f.Name] = f
	}
	return m
}
