package expr

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"leat/ndarray"
)

// scene has inputs of every type, named after it, some with several bands, and lists.
func scene() map[string]Input {
	m := map[string]Input{}
	for d := ndarray.Uint8; d <= ndarray.Complex128; d++ {
		name := d.String()
		switch d {
		case ndarray.Float32:
			name = "f"
		case ndarray.Float64:
			name = "g"
		}
		m[name] = oneBand(d, false)
	}
	m["a"], m["b"] = oneBand(ndarray.Uint16, false), oneBand(ndarray.Uint16, false)
	m["rgb"] = Input{Files: []File{{Bands: []Band{{Type: ndarray.Uint8}, {Type: ndarray.Uint8},
		{Type: ndarray.Uint8}}}}}
	m["two"] = Input{Files: []File{{Bands: []Band{{Type: ndarray.Uint8}, {Type: ndarray.Int16}}}}}
	m["t"] = dates(3, ndarray.Uint16, false)
	m["u"] = dates(2, ndarray.Uint16, false)
	m["mixed"] = Input{List: true, Files: []File{{Bands: []Band{{Type: ndarray.Uint8}}},
		{Bands: []Band{{Type: ndarray.Uint8}, {Type: ndarray.Uint8}}}}}
	return m
}

func TestResultTypes(t *testing.T) {
	for text, want := range map[string]string{
		"a":                    "uint16",
		"uint8 + uint8":        "int16",
		"a + b":                "int32",
		"a - b":                "int32",
		"a * b":                "uint32",
		"int16 * a":            "int32", // -32768*65535 fits
		"a % 10":               "uint16",
		"uint32":               "uint32",
		"uint32 + 1":           "float64",
		"int64":                "int64",
		"uint64 % 100":         "uint64",
		"uint32 % 100 / f":     "float32",
		"uint32 / 2":           "float64",
		"a / b":                "float32",
		"a / uint32":           "float64",
		"a * a * a":            "float64", // 2^48
		"a ** 3":               "float64",
		"uint8 ** 2":           "uint16",
		"uint8 ** 0":           "uint8",
		"a ** -1":              "float32",
		"a ** 2.0":             "float32",
		"2 ** a":               "float32",
		"-a":                   "int32",
		"-uint8":               "int16",
		"abs(int8)":            "uint8",
		"a + 0.5":              "float32",
		"uint32 + 0.5":         "float64",
		"f + 0.5":              "float32",
		"f + a":                "float32",
		"f + int32":            "float64",
		"f + 16777216":         "float32",
		"f + 16777217":         "float64",
		"g + f":                "float64",
		"a > b":                "uint8",
		"(a > b) + 1":          "uint8",
		"(a > b) * 0.5":        "float32",
		"not a":                "uint8",
		"1":                    "uint8",
		"-1":                   "int16",
		"1.5":                  "float64",
		"1 / 3":                "float64",
		"a * (1 / 3)":          "float32",
		"float32(1) / 3":       "float32",
		"a > 0 ? 1 : 0":        "uint8",
		"a > 0 ? a : nodata":   "uint16",
		"a > 0 ? a : 0.5":      "float32",
		"a > 0 ? 1 : 0.5":      "float32",
		"g ? 1 : 0.5":          "float64",
		"a > 0 ? 0.5 : nodata": "float32",
		"fill(a, 0.5)":         "float32",
		"uint32 & 255":         "uint32",
		"int8 & uint8":         "uint8",
		"int8 | int8":          "int8",
		"int8 & -2":            "int8",
		"~uint8":               "int16",
		"a << 8":               "int32",
		"a >> 20":              "uint16",
		"uint8 << 45 >> 45":    "uint8",
		"a in [1, 2]":          "uint8",
		"classify(f, [1, 2])":  "uint8",
		"recode(f, [1], [2])":  "uint8",
		"argmin(t)":            "uint8",
		"mode(t)":              "uint16",
		"quantile(t, 0.5)":     "float32",
		"pick(t, 2)":           "uint16",
		"pick([a, f], 1)":      "float32",
		"first([a, uint32])":   "uint32",
		"a > 0 ? uint8 : int8": "int16",
		"min(a, 100)":          "uint16",
		"max(a, int16)":        "uint16", // never below 0
		"clip(uint32, 0, 9)":   "uint32",
		"clip(f, 0, 1)":        "float32",
		"floor(a)":             "uint16",
		"floor(f)":             "float32",
		"sqrt(a)":              "float32",
		"sqrt(int32)":          "float64",
		"mean(t)":              "float32",
		"median(t)":            "float32",
		"sum([a, uint32])":     "float64",
		"min(t)":               "uint16",
		"count(t)":             "uint8",
		"fill(a, -1)":          "int32",
		"coalesce(a, f)":       "float32",
		"isnodata(a)":          "uint8",
		"[a, f]":               "float32",
		"[uint8, int16]":       "int16",
		"rgb * 2":              "int16",
		"t[1]":                 "uint16",
		"float64(int64) * g":   "float64",
		"float32(uint32)":      "float32",
		"a % 0":                "uint16",
	} {
		p, err := compileText(text, scene(), nil)
		if err != nil {
			t.Errorf("%s: %v", text, err)
		} else if p.Type().String() != want {
			t.Errorf("%s is %v, not %s", text, p.Type(), want)
		}
	}
}

// A name with a bracket after it is a function, without one an input or a definition.
func TestInputsNamedAsFunctions(t *testing.T) {
	inputs := map[string]Input{"r2": oneBand(ndarray.Uint8, false), "max": dates(2, ndarray.Uint8, false)}
	p, err := compileText("first = max(max); r2 + first + first([r2, first])", inputs, nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(p.Refs()) != 3 {
		t.Errorf("reads %v", p.Refs())
	}
}

func TestCompileErrors(t *testing.T) {
	for _, c := range []struct {
		text string
		pos  int
		want string
	}{
		{"a + green", 4, "no input is named green; the inputs are a, b, "},
		{"median", 0, "it is a function: write median(list)"},
		{"rgb[4]", 4, "rgb has 3 bands"},
		{"a[2]", 2, "a has 1 band"},
		{"rgb[0]", 4, "count from 1"},
		{"rgb[-1]", 4, "count from 1"},
		{"t[4]", 2, "t has 3 files"},
		{"t[1][2]", 5, "1 band"},
		{"rgb[a]", 4, "literal integer"},
		{"rgb[1.0]", 4, "literal integer"},
		{"rgb + two", 4, "3 bands with 2 bands"},
		{"t + u", 2, "t has 3 files, u has 2, expected equally many: pick one with name[i], or reduce a list, as in median(u)"},
		{"mixed * 2 + -t / 3", 10, "mixed has 2 files, t has 3,"},
		{"t", 0, "list of 3 files"},
		{"t * 2", 2, "list of 3 files"},
		{"median(mixed)", 0, "file 1 has 1 bands, file 2 has 2"},
		{"[a, mixed]", 4, "cannot be in []"},
		{"uint32 * uint32", 7, "float64(a)"},
		{"a ** 4", 2, "float64(a)"},
		{"int64 + 1", 6, "float64(a)"},
		{"2 ** 54", 2, "2^53"},
		{"complex64 + 1", 0, "real numbers"},
		{"float16", 0, "float32"},
		{"nodata", 0, "nodata"},
		{"nodata + 1", 7, "branch"},
		{"a == nodata", 2, "isnodata"},
		{"a ? nodata : nodata", 2, "at least one"},
		{"nodata ? a : b", 7, "branch"},
		{"[a, nodata]", 0, "branch"},
		{"fill(a, b)", 8, "coalesce"},
		{"fill(a, nan)", 8, "number"},
		{"mean(nodata)", 0, "branch"},
	} {
		_, err := compileText(c.text, scene(), nil)
		var s *TypeError
		if !errors.As(err, &s) {
			t.Errorf("%s: %v", c.text, err)
		} else if s.Pos != c.pos || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: position %d, not %d: %v", c.text, s.Pos, c.pos, err)
		}
	}
	if _, err := compileText("a", nil, nil); err == nil || !strings.Contains(err.Error(), "there are no inputs") {
		t.Errorf("%v", err)
	}
}

func TestCompileOptionErrors(t *testing.T) {
	for _, o := range []Options{
		{Type: ndarray.Complex64},
		{Type: 200},
		{Scale: math.NaN()},
		{Offset: math.Inf(1)},
		{Type: ndarray.Uint8, Nodata: "-1"},
		{Type: ndarray.Uint8, Nodata: "0.5"},
		{Type: ndarray.Uint8, Nodata: "nan"},
		{Nodata: "black"},
	} {
		if p, err := compileText("a", scene(), &o); err == nil {
			t.Errorf("%+v: %v", o, p)
		}
	}
}

// The size of a program is bounded even for a list of many files.
func TestCompileTooManyBands(t *testing.T) {
	wide := Input{Files: []File{{Bands: make([]Band, 20000)}}}
	for i := range wide.Files[0].Bands {
		wide.Files[0].Bands[i].Type = ndarray.Uint8
	}
	text := "a" + strings.Repeat("*1.5+a", 30)
	if _, err := compileText(text, map[string]Input{"a": wide}, nil); err == nil || !strings.Contains(err.Error(),
		"too many bands") {
		t.Errorf("%v", err)
	}
}

func TestOutputNodata(t *testing.T) {
	band := func(d ndarray.DType, nodata string) Input {
		b := Band{Type: d}
		if nodata == "masked" {
			b.Masked = true
		} else if nodata != "" {
			s, err := ndarray.ParseScalar(nodata, d)
			if err != nil {
				t.Fatal(err)
			}
			b.Nodata = &s
		}
		return Input{Files: []File{{Bands: []Band{b}}}}
	}
	in := map[string]Input{
		"plain": band(ndarray.Uint8, ""), "zero": band(ndarray.Uint8, "0"), "full": band(ndarray.Uint16, "255"),
		"full8":  band(ndarray.Uint8, "255"),
		"masked": band(ndarray.Int16, "masked"), "minus": band(ndarray.Int16, "-9999"),
		"f": band(ndarray.Float32, "-9999"), "tenth": band(ndarray.Float32, "0.1"),
		"fnan": band(ndarray.Float32, "nan"), "lowest": band(ndarray.Int64, "-9223372036854775808"),
		"zero2": band(ndarray.Uint8, "0"), "masked8": band(ndarray.Uint8, "masked"), "scaled": band(ndarray.Uint8, "0"),
	}
	in["scaled"].Files[0].Bands[0].Scale = 0.1
	for _, c := range []struct {
		text string
		opts Options
		want string
	}{
		{"plain", Options{}, "none"},
		{"zero", Options{}, "0"},
		{"full + full8", Options{}, "-2147483648"}, // computed
		{"zero + full8", Options{}, "-32768"},
		{"zero + full8 + 0.5", Options{}, "nan"},
		{"minus", Options{}, "-9999"},
		{"minus + f", Options{}, "nan"},
		{"zero - zero", Options{}, "-32768"},
		{"max(zero, zero2)", Options{}, "0"},
		{"min([zero, zero2])", Options{}, "0"},
		{"zero > 3 ? zero : nodata", Options{}, "0"},
		{"where(plain > 3, zero, zero2)", Options{}, "0"},
		{"coalesce(zero, zero2)", Options{}, "0"},
		{"coalesce(zero, zero2 + 0)", Options{}, "-32768"},
		{"[zero, zero2]", Options{}, "0"},
		{"[zero, zero * 1]", Options{}, "-32768"},
		{"clip(zero, 2, 9)", Options{}, "0"},
		{"clip(zero, 0, 9)", Options{}, "255"}, // some pixels of 0 come from the expression
		{"zero > 3 ? zero : 0", Options{}, "255"},
		{"tenth > 3 ? tenth : 0.1", Options{}, "nan"},
		{"round(zero)", Options{}, "0"}, // leaves integers alone
		{"-zero", Options{}, "-32768"},
		{"abs(minus)", Options{}, "65535"},
		{"float64(f)", Options{}, "nan"},
		{"zero", Options{Scale: 0.5}, "nan"},
		{"scaled", Options{}, "nan"},
		{"clip(masked8, 1, 255)", Options{}, "0"},
		{"masked8", Options{}, "255"},
		{"zero > 3 ? 255 : nodata", Options{}, "0"},
		{"zero % 256", Options{}, "-32768"},
		{"zero % 256", Options{Type: ndarray.Uint8}, "255"},
		{"plain + 1", Options{Type: ndarray.Float32}, "none"},
		{"plain > 3 ? 0.5 : 1.5", Options{}, "none"},
		{"abs(minus)", Options{Type: ndarray.Uint16}, "65535"},
		{"masked", Options{}, "-32768"},
		{"zero > 1", Options{}, "255"}, // 0 would be every false one
		{"full8 > 1", Options{}, "255"},
		{"minus > 1", Options{}, "255"},
		{"fill(zero, 1)", Options{}, "none"},
		{"isnodata(zero)", Options{}, "none"},
		{"count([zero, full])", Options{}, "none"},
		{"coalesce(zero, plain)", Options{}, "none"},
		{"plain / 2", Options{}, "nan"},
		{"plain > 3 ? plain : nodata", Options{}, "255"},
		{"plain % plain", Options{}, "255"},
		{"plain % 3", Options{}, "none"},
		{"tenth", Options{}, "0.1"},
		{"round(tenth)", Options{Type: ndarray.Int16}, "-32768"},
		{"fnan * 1", Options{}, "nan"},
		{"lowest % 7", Options{Type: ndarray.Int16}, "-32768"},
		{"zero", Options{NoMask: true}, "none"},
		{"zero", Options{Nodata: "none"}, "none"},
		{"zero", Options{Nodata: "7"}, "7"},
		{"plain", Options{Nodata: "255"}, "255"},
		{"f", Options{Nodata: "nan"}, "nan"},
		{"f", Options{Nodata: "-inf"}, "-inf"},
	} {
		p, err := compileText(c.text, in, &c.opts)
		if err != nil {
			t.Errorf("%s: %v", c.text, err)
			continue
		}
		got := "none"
		if nd := p.Nodata(); nd != nil {
			got = nd.String()
		}
		if got != c.want {
			t.Errorf("%s %+v has nodata %s, not %s", c.text, c.opts, got, c.want)
		}
	}
}

// A computed integer gets a type with a nodata value that no valid pixel has.
func TestComputedIntegersDifferFromNodata(t *testing.T) {
	for _, text := range []string{"a % 256", "b % 256", "c % 65536", "-a", "-c", "a + b", "a - b", "a * a", "abs(c)",
		"(a > 3) * 255",
		"a > 3 ? 255 : (a > 2 ? 0 : nodata)", "a * 257", "c * 65537", "(a > 3) - 2 * (a > 7)"} {
		types := map[string]ndarray.DType{"a": ndarray.Uint8, "b": ndarray.Uint8, "c": ndarray.Int16}
		in := map[string]Input{}
		for name, d := range types {
			in[name] = Input{Files: []File{{Bands: []Band{{Type: d, Masked: true}}}}}
		}
		p, err := compileText(text, in, nil)
		if err != nil {
			t.Fatal(err)
		}
		const n = 256 * 4
		px := map[string]*ndarray.Array{}
		for name, d := range types {
			px[name] = ndarray.New(d, n)
		}
		for i := range n {
			ndarray.Slice[uint8](px["a"])[i] = uint8(i)
			ndarray.Slice[uint8](px["b"])[i] = []uint8{0, 255, 1, uint8(i)}[i/256]
			ndarray.Slice[int16](px["c"])[i] = []int16{math.MinInt16, math.MaxInt16, -1, int16(i)}[i/256]
		}
		mask := make([]byte, n)
		for i := range mask {
			mask[i] = byte(i % 3)
		}
		var src []Operand
		for _, r := range p.Refs() {
			src = append(src, Operand{Data: px[r.Name].Data, Mask: mask})
		}
		counts := Counts{}
		if err := p.NewEvaluator().Eval(src, [][]byte{ndarray.New(p.Type(), n).Data}, n, &counts); err != nil {
			t.Fatal(err)
		}
		if counts.Invalid == 0 || counts.NodataCollision != 0 {
			t.Errorf("%s: %d invalid pixels, %d valid ones equal nodata %v of %v", text, counts.Invalid,
				counts.NodataCollision, p.Nodata(), p.Type())
		}
	}
}

func TestRefsOmitUnusedBands(t *testing.T) {
	for text, want := range map[string][]Ref{
		"a + b + a":            {{"a", 0, 1}, {"b", 0, 1}},
		"rgb[3] - rgb[1]":      {{"rgb", 0, 1}, {"rgb", 0, 3}},
		"t[2]":                 {{"t", 1, 1}},
		"median(t)":            {{"t", 0, 1}, {"t", 1, 1}, {"t", 2, 1}},
		"5":                    nil,
		"[a, b][2]":            {{"b", 0, 1}},
		"two[2] + u[1] * t[3]": {{"two", 0, 2}, {"u", 0, 1}, {"t", 2, 1}},
	} {
		p, err := compileText(text, scene(), nil)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(want, p.Refs()); d != "" {
			t.Errorf("%s: %s", text, d)
		}
	}
}

func TestSelectedBands(t *testing.T) {
	in := scene()
	scaled := Band{Type: ndarray.Uint16, Scale: 0.1}
	in["scaled"] = Input{Files: []File{{Bands: []Band{scaled}}}}
	masked := Band{Type: ndarray.Uint16, Masked: true}
	file := File{Bands: []Band{masked}}
	in["m"] = Input{List: true, Files: []File{file, file, file}}
	for _, c := range []struct {
		text string
		opts Options
		want string // of the bands, with ! after those that the type does not hold
	}{
		{"a", Options{}, "a[1]"},
		{"[a, b + 1, two]", Options{}, "a[1]; ; two[1]; two[2]"},
		{"a > 3 ? 0 : a", Options{}, "a[1]"},
		{"b > 3 ? nodata : a", Options{}, "a[1]"},
		{"where(b > 3, a, b)", Options{}, "b[1] a[1]"},
		{"recode(b, [1, 2], [10, 20], a)", Options{}, "a[1]"},
		{"recode(a, [1, 2], [10, 20])", Options{}, ""},
		{"coalesce(m)", Options{}, "m[1] m[1] m[1]"},
		{"first(t)", Options{}, "t[1]"}, // always valid
		{"last(m)", Options{}, "m[1] m[1] m[1]"},
		{"pick(t, b)", Options{}, "t[1] t[1] t[1]"},
		{"mode(t)", Options{}, "t[1] t[1] t[1]"},
		{"fill(m[1], 7)", Options{}, "m[1]"},
		{"min(a, b, 5)", Options{}, "a[1] b[1]"},
		{"max(t)", Options{}, "t[1] t[1] t[1]"},
		{"clip(a, 1, b)", Options{}, "a[1] b[1]"},
		{"focal_max(a, 3)", Options{}, "a[1]"},
		{"shift(a, 1, 1)", Options{}, "a[1]"},
		{"abs(a)", Options{}, "a[1]"},
		{"round(a)", Options{}, "a[1]"},
		{"v = a; b > 3 ? v : nodata", Options{}, "a[1]"},
		{"f", Options{}, "f[1]"},
		{"int64", Options{}, "int64[1]"},

		{"a", Options{Type: ndarray.Float32}, "a[1]"},
		{"a", Options{Type: ndarray.Int16}, "a[1]!"},
		{"min(a, 300)", Options{Type: ndarray.Int16}, "a[1]"},
		{"a", Options{Type: ndarray.Float16}, "a[1]!"},
		{"a % 5 > 1 ? rgb[1] : nodata", Options{Type: ndarray.Float16}, "rgb[1]"},
		{"uint32", Options{Type: ndarray.Float32}, "uint32[1]!"},
		{"int64", Options{Type: ndarray.Float64}, "int64[1]"},
		{"f", Options{Type: ndarray.Float64}, "f[1]"},
		{"g", Options{Type: ndarray.Float32}, "g[1]!"},
		{"f", Options{Type: ndarray.Int32}, "f[1]!"},
		{"rgb[1] > 3 ? 300 : rgb[1]", Options{Type: ndarray.Uint8}, "rgb[1]!"},

		{"a", Options{Scale: 0.5}, ""},
		{"a", Options{Offset: 1}, ""},
		{"scaled", Options{}, ""},
		{"a > 3 ? scaled : a", Options{}, ""},
		{"[scaled, a]", Options{}, "; a[1]"},
		{"5", Options{}, ""},
		{"a * 1", Options{}, ""},
		{"+a", Options{}, "a[1]"},
		{"a & 65535", Options{}, ""},
		{"a << 0", Options{}, ""},
		{"a ** 1", Options{}, ""},
		{"bits(a, 0, 15)", Options{}, ""},
		{"float32(a)", Options{}, ""},
		{"-a", Options{}, ""},
		{"a > 3", Options{}, ""},
		{"mean(t)", Options{}, ""},
		{"focal_mean(a, 3)", Options{}, ""},
		{"median(t)", Options{}, ""},
		{"x > 3 ? x : a", Options{}, ""},
	} {
		p, err := compileText(c.text, in, &c.opts)
		if err != nil {
			t.Errorf("%s: %v", c.text, err)
			continue
		}
		var bands []string
		for i := range p.Bands() {
			refs, exact := p.SelectedBands(i + 1)
			text := strings.Join(refTexts(refs), " ")
			if len(refs) > 0 && !exact {
				text += "!"
			}
			bands = append(bands, text)
		}
		if got := strings.Join(bands, "; "); got != c.want {
			t.Errorf("%s with type %v: selects %q, want %q", c.text, c.opts.Type, got, c.want)
		}
	}
}

func refTexts(refs []Ref) (texts []string) {
	for _, r := range refs {
		texts = append(texts, r.String())
	}
	return texts
}

func TestProgramString(t *testing.T) {
	p, err := compileText("t[2] - rgb[3] / 2", scene(), &Options{Type: ndarray.Int16, Scale: 0.5, Nodata: "-1"})
	if err != nil {
		t.Fatal(err)
	}
	want := "t[2] - rgb[3] / 2 -> 1 x int16, nodata -1, stored as (value - 0) / 0.5; reads t[2][1] uint16, rgb[3] uint8"
	if got := fmt.Sprint(p); !strings.HasPrefix(got, strings.TrimSuffix(want, "reads t[2][1] uint16, rgb[3] uint8")) {
		t.Errorf("%s", got)
	}
}
