package expr

import "strings"

// function is a function of the language.
type function struct {
	usage    string
	kind     string // "float", "number", "bits", "choice", "classes", "nodata", "list", "focal"
	op       op     // of float and number functions that are one vector operation, and of list functions
	min, max int    // number of arguments; max is -1 if there is no limit
}

// functions holds the functions by name. docs/guide/expressions.md describes them.
var functions = functionTable(map[string]map[string]op{
	"float": {"sqrt(a)": opSqrt, "exp(a)": opExp, "expm1(a)": opExpm1, "log(a)": opLog, "log10(a)": opLog10,
		"log2(a)": opLog2, "log1p(a)": opLog1p, "sin(a)": opSin, "cos(a)": opCos, "tan(a)": opTan, "asin(a)": opAsin,
		"acos(a)": opAcos, "atan(a)": opAtan, "sinh(a)": opSinh, "cosh(a)": opCosh, "tanh(a)": opTanh,
		"atan2(b, a)": opAtan2, "hypot(a, b)": opHypot},
	"number": {"abs(a)": opAbs, "floor(a)": opFloor, "ceil(a)": opCeil, "round(a)": opRound,
		"clip(a, low, high)": opNone, "float32(a)": opNone, "float64(a)": opNone},
	"bits":    {"bits(a, low, high)": opNone, "bit(a, n)": opNone},
	"choice":  {"where(c, a, b)": opNone},
	"classes": {"classify(a, [breaks])": opNone, "recode(a, [values], [new values], otherwise) or recode(a, @FILE, otherwise)": opNone},
	"nodata":  {"isnodata(a)": opNone, "fill(a, number)": opNone},
	"list": {"min(a, b, ...) or min(list)": opRedMin, "max(a, b, ...) or max(list)": opRedMax,
		"mean(list)": opRedMean, "median(list)": opRedMedian, "std(list)": opRedStd, "var(list)": opRedVar,
		"sum(list)": opRedSum, "count(list)": opRedCount, "mode(list)": opRedMode, "argmin(list)": opRedArgMin,
		"argmax(list)": opRedArgMax, "trend(list, times)": opRedTrend, "intercept(list, times)": opRedIntercept,
		"r2(list, times)": opRedR2, "percentile(list, p)": opRedQuantile, "quantile(list, q)": opRedQuantile,
		"first(list)": opNone, "last(list)": opNone, "any(list)": opNone, "all(list)": opNone,
		"pick(list, i)": opNone, "coalesce(a, b, ...) or coalesce(list)": opNone},
	"focal": {"focal_mean(a, side)": opNone, "focal_sum(a, side)": opNone, "focal_min(a, side)": opNone,
		"focal_max(a, side)": opNone, "focal_median(a, side)": opNone, "focal_std(a, side)": opNone,
		"focal_range(a, side)": opNone, "focal_mode(a, side)": opNone, "focal_count(a, side)": opNone,
		"convolve(a, kernel)": opNone, "shift(a, rows, columns)": opNone, "slope(dem, scale)": opNone,
		"aspect(dem)": opNone, "hillshade(dem, azimuth, altitude, scale)": opNone, "curvature(dem, scale)": opNone,
		"tpi(dem)": opNone, "tri(dem)": opNone, "roughness(dem)": opNone},
})

// omissible holds how many of the last arguments of a function can be left out. The short form of
// recode has two arguments.
var omissible = map[string]int{"recode": -1, "trend": 1, "intercept": 1, "r2": 1, "slope": 1, "hillshade": 3,
	"curvature": 1}

// lineFunctions are the functions whose second argument can be the word times.
var lineFunctions = map[string]bool{"trend": true, "intercept": true, "r2": true}

// functionTable derives names and numbers of arguments from the usages by kind.
func functionTable(kinds map[string]map[string]op) map[string]function {
	table := map[string]function{}
	for kind, usages := range kinds {
		for usage, o := range usages {
			name, rest, _ := strings.Cut(usage, "(")
			args, _, _ := strings.Cut(rest, ")")
			n := 1 + strings.Count(args, ",")
			f := function{usage, kind, o, n, n}
			if strings.HasSuffix(args, "...") {
				f.min, f.max = n-1, -1
			}
			if strings.Contains(usage, " or ") { // a list instead
				f.min = 1
			}
			f.min -= omissible[name]
			table[name] = f
		}
	}
	return table
}
