package expr

import (
	"maps"
	"slices"
)

// Function describes a function of the language.
type Function struct {
	Name    string
	Usage   string // how it is called, such as "clip(a, low, high)"
	Group   string // the heading below which a reference lists it
	Meaning string // a clause about its value
}

// groups are the headings of Functions in order, and the kinds of functions below each.
var groups = []struct {
	title string
	kinds []string
}{
	{"Functions of numbers", []string{"float"}},
	{"Functions that keep whole numbers", []string{"number"}},
	{"Bits of integers", []string{"bits"}},
	{"Choice and classes", []string{"choice", "classes"}},
	{"Nodata", []string{"nodata"}},
	{"Functions over a list of files, or over several values", []string{"list"}},
	{"Neighbours and terrain", []string{"focal"}},
}

// Functions returns all functions of the language, group by group and by name.
func Functions() []Function {
	var all []Function
	for _, g := range groups {
		for _, name := range slices.Sorted(maps.Keys(functions)) {
			if f := functions[name]; slices.Contains(g.kinds, f.kind) {
				all = append(all, Function{name, f.usage, g.title, meanings[name]})
			}
		}
	}
	return all
}

// Constants returns the names of values that are not inputs: constants, coordinates and nodata.
func Constants() []string {
	return slices.DeleteFunc([]string{"nodata", "nan", "inf", "pi", "x", "y", "col", "row", "lon", "lat", "pixel_area"},
		func(name string) bool { return reserved(name) == "" })
}

// meanings holds the clauses of Function.Meaning, as the guide has them.
var meanings = map[string]string{
	"sqrt": "square root; NaN below 0", "exp": "e to the power a", "expm1": "exp(a) - 1, exact near 0",
	"log": "natural logarithm; -inf at 0, NaN below", "log10": "logarithm to base 10", "log2": "logarithm to base 2",
	"log1p": "log(1 + a), exact near 0", "sin": "sine of radians", "cos": "cosine of radians",
	"tan": "tangent of radians", "asin": "arc sine in radians; NaN outside -1..1",
	"acos": "arc cosine in radians; NaN outside -1..1", "atan": "arc tangent in radians", "sinh": "hyperbolic sine",
	"cosh": "hyperbolic cosine", "tanh": "hyperbolic tangent",
	"atan2": "angle of the point (a, b) in radians, -pi..pi", "hypot": "sqrt(a**2 + b**2) without overflow",
	"abs": "absolute value", "floor": "largest whole number not above a",
	"ceil": "smallest whole number not below a", "round": "nearest whole number, halves to even",
	"clip": "a limited to low..high: min(max(a, low), high)", "float32": "a rounded to float32",
	"float64": "a as float64", "bits": "bits low to high of an integer, as an unsigned integer",
	"bit": "whether bit n of an integer is 1", "where": "c ? a : b",
	"classify": "number of breaks that are not above a",
	"recode":   "values replaced by new values; otherwise can be left out",
	"isnodata": "true where a is invalid; always valid", "fill": "a, or the number where a is invalid; always valid",
	"coalesce": "the first of them that is valid", "min": "smallest; of a list: of its valid items",
	"max": "largest; of a list: of its valid items", "mean": "mean of the valid items",
	"median":     "median of the valid items; of an even number the mean of the middle two",
	"percentile": "percentile of the valid items, p from 0 to 100",
	"quantile":   "quantile of the valid items, q from 0 to 1",
	"mode":       "most frequent value of the valid items, the smallest of several", "first": "first valid item",
	"last": "last valid item", "pick": "item i, from 1", "argmin": "number of the smallest valid item, from 1",
	"argmax": "number of the largest valid item, from 1", "any": "whether any valid item is not 0",
	"all":       "whether all valid items are not 0",
	"std":       "standard deviation of the valid items, divided by their number",
	"var":       "variance of the valid items, divided by their number",
	"trend":     "slope of the line through the valid items, by least squares; without times per item",
	"intercept": "value of this line at the first item; times can be left out",
	"r2":        "coefficient of determination of this line; times can be left out",
	"sum":       "sum of the valid items", "count": "number of valid items; always valid",
	"focal_mean": "mean of the valid pixels of a square or disk",
	"focal_sum":  "sum of the valid pixels of a square or disk", "focal_min": "smallest of them",
	"focal_max": "largest of them", "focal_median": "median of them; of an even number the mean of the middle two",
	"focal_std":   "standard deviation of them, divided by their number",
	"focal_range": "largest minus smallest of them",
	"focal_mode":  "most frequent value of them, the smallest of several",
	"focal_count": "number of them; always valid", "convolve": "weighted sum of the pixels around each pixel",
	"shift": "a moved down and to the right", "slope": "slope in degrees",
	"aspect":    "direction of the steepest descent, in degrees clockwise from north",
	"hillshade": "brightness under light, 1 to 255", "curvature": "curvature: positive where the surface is convex",
	"tpi":       "height above the mean of the eight pixels around",
	"tri":       "ruggedness: square root of the summed squares of the differences to the eight pixels around",
	"roughness": "largest minus smallest of the nine pixels",
}
