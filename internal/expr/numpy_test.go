package expr

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"leat/block"
	"leat/ndarray"
)

// numpyCase is a case of the property test, as reference.py reads it.
type numpyCase struct {
	N      int                   `json:"n"`
	Text   string                `json:"text"`
	Inputs map[string]numpyInput `json:"inputs"`
	NoMask bool                  `json:"nomask"`
	Opts   numpyOpts             `json:"opts"`
	Tables map[string]string     `json:"tables"`
	Place  [4]int                `json:"place"` // column and row of the first pixel, width and height of the raster
	// Of cases of focal functions: the transform, and how arguments continue outside the domain.
	Transform *[6]float64 `json:"transform,omitempty"`
	Margin    string      `json:"margin,omitempty"`
	// Of cases with lon, lat and pixel_area: the CRS, and the transform unless it is Transform.
	CRS    string      `json:"crs,omitempty"`
	Affine *[6]float64 `json:"affine,omitempty"`
	near   bool        // the root is a transcendental function: allow 2 units in the last place

	geodetic map[string]string // of the result
}

type numpyInput struct {
	List  bool          `json:"list"`
	Files [][]numpyBand `json:"files"`
	Times []int64       `json:"times,omitempty"` // in milliseconds
}

type numpyBand struct {
	Type   string  `json:"type"`
	Data   string  `json:"data"`
	Nodata *string `json:"nodata"`
	Mask   string  `json:"mask,omitempty"`
	Masked bool    `json:"masked"`
	Scale  float64 `json:"scale"`
	Offset float64 `json:"offset"`
}

type numpyOpts struct {
	Type   string  `json:"type,omitempty"`
	Scale  float64 `json:"scale,omitempty"`
	Offset float64 `json:"offset,omitempty"`
	Nodata string  `json:"nodata,omitempty"`
}

type numpyResult struct {
	Error  string   `json:"error"`
	Why    string   `json:"why"`
	Index  int      `json:"index"`
	Type   string   `json:"type"`
	Nodata *string  `json:"nodata"`
	Bands  []string `json:"bands"`
	Near   []string `json:"near"` // errors allowed by pixel, as float64
	// Geodetic has the values of lon, lat and pixel_area, which Place.Geodetic takes.
	Geodetic map[string]string `json:"geodetic"`
	Count    struct {
		Invalid, Saturated, Collision, Inf int64
	} `json:"count"`
}

// python returns an interpreter that has NumPy, or skips the test.
func python(t *testing.T) string {
	for _, p := range []string{"python3", "/usr/bin/python3"} {
		if exec.Command(p, "-c", "import numpy").Run() == nil {
			return p
		}
	}
	t.Skip("no python3 with NumPy: install the package python3-numpy")
	return ""
}

func TestRandomExpressionsEqualNumPy(t *testing.T) {
	py := python(t)
	rounds, seed := 2000, uint64(2026)
	if testing.Short() {
		rounds = 300
	} else if os.Getenv("LEAT_TEST_DIST") != "" {
		rounds = 5000
	}
	if s := os.Getenv("LEAT_EXPR_SEED"); s != "" {
		fmt.Sscan(s, &seed)
	}
	g := &generator{Rand: rand.New(rand.NewPCG(seed, 1)), geodetic: true}
	if text, err := exec.Command(py, "-c", "import pyproj").CombinedOutput(); err != nil {
		g.geodetic = false
		t.Logf("no lon, lat and pixel_area: install the package python3-pyproj\n%s", text)
	}
	var cases []numpyCase
	for range rounds {
		cases = append(cases, g.oneCase())
	}
	dir := t.TempDir()
	in, out := filepath.Join(dir, "cases.json"), filepath.Join(dir, "results.json")
	data, err := json.Marshal(cases)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(in, data, 0o644); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(py, "-B", "testdata/reference.py", in, out)
	// NumPy's AVX-512 routines for float64 have errors above one unit in the last place; those of
	// the C library have not.
	cmd.Env = append(os.Environ(), "NPY_DISABLE_CPU_FEATURES=AVX512F AVX512CD AVX512_SKX AVX512_CLX AVX512_CNL AVX512_ICL")
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	var results []numpyResult
	data, err = os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &results); err != nil {
		t.Fatal(err)
	}
	refused, wrong := 0, 0
	calls, missing := regexp.MustCompile(`([a-z_0-9]+) *\(`), map[string]bool{}
	for _, f := range Functions() {
		missing[f.Name] = true
	}
	for i, c := range cases {
		if results[i].Error == "refused" {
			refused++
		} else {
			for _, call := range calls.FindAllStringSubmatch(c.Text, -1) {
				delete(missing, call[1])
			}
		}
		c.geodetic = results[i].Geodetic
		if err := c.check(results[i]); err != nil {
			short := c
			t.Errorf("%s\n%v\n%s", c.Text, err, describe(short))
			if wrong++; wrong > 8 {
				t.Fatal("and more")
			}
		}
	}
	t.Logf("%d cases, %d of them refused", len(cases), refused)
	if !testing.Short() && len(missing) > 0 {
		t.Errorf("no case has the functions %v", slices.Sorted(maps.Keys(missing)))
	}
	if refused > len(cases)/2 {
		t.Errorf("%d of %d cases are refused: the test says little", refused, len(cases))
	}
}

func describe(c numpyCase) string {
	var b strings.Builder
	for name, in := range c.Inputs {
		if !strings.Contains(c.Text, name) {
			continue
		}
		for f, bands := range in.Files {
			for i, band := range bands {
				nd := "none"
				if band.Nodata != nil {
					nd = *band.Nodata
				}
				fmt.Fprintf(&b, "  %s file %d band %d: %s nodata %s masked %v scale %v %v\n", name, f, i+1, band.Type,
					nd, band.Masked, band.Scale, band.Offset)
			}
		}
	}
	fmt.Fprintf(&b, "  nomask %v opts %+v", c.NoMask, c.Opts)
	return b.String()
}

// check computes the case and compares it with NumPy's result.
func (c *numpyCase) check(want numpyResult) error {
	e, err := Parse(c.Text)
	if err != nil {
		if want.Error == "refused" && c.Transform != nil { // footprints are part of the syntax
			return nil
		}
		return err
	}
	opts := &Options{Scale: c.Opts.Scale, Offset: c.Opts.Offset, Nodata: c.Opts.Nodata, NoMask: c.NoMask,
		Width: c.Place[2], Height: c.Place[3], Tables: c.Tables}
	if c.Opts.Type != "" {
		opts.Type, _ = ndarray.ParseDType(c.Opts.Type)
	}
	inputs := map[string]Input{}
	for name, in := range c.Inputs {
		i := Input{List: in.List}
		for k, f := range in.Files {
			var file File
			if in.Times != nil {
				file.Time = time.UnixMilli(in.Times[k])
			}
			for _, b := range f {
				d, _ := ndarray.ParseDType(b.Type)
				band := Band{Type: d, Masked: b.Masked, Scale: b.Scale, Offset: b.Offset}
				if b.Nodata != nil {
					s, err := ndarray.ParseScalar(*b.Nodata, d)
					if err != nil {
						return err
					}
					band.Nodata = &s
				}
				file.Bands = append(file.Bands, band)
			}
			i.Files = append(i.Files, file)
		}
		inputs[name] = i
	}
	if c.Transform != nil {
		opts.Domain = c.domain()
		opts.Margin = map[string]block.Margin{"": block.MarginNodata, "reflect": block.MarginReflect,
			"nearest": block.MarginNearest}[c.Margin]
	}
	p, err := Compile(e, inputs, opts)
	if (err != nil) != (want.Error == "refused") {
		return fmt.Errorf("compile: %v; reference: %s %s", err, want.Error, want.Why)
	}
	if err != nil {
		return nil
	}
	if p.Type().String() != want.Type {
		return fmt.Errorf("type %v, reference %s", p.Type(), want.Type)
	}
	var src []Operand
	for _, r := range p.Refs() {
		b := c.Inputs[r.Name].Files[r.File][r.Band-1]
		data, _ := hex.DecodeString(b.Data)
		o := Operand{Data: aligned(data)}
		if b.Mask != "" {
			o.Mask, _ = hex.DecodeString(b.Mask)
		}
		src = append(src, o)
	}
	size := p.Type().Size()
	dst := make([][]byte, p.Bands())
	for i := range dst {
		dst[i] = ndarray.New(p.Type(), c.N).Data
	}
	var counts Counts
	place := Place{Col: c.Place[0], Row: c.Place[1], Columns: placeColumns, Transform: placeTransform,
		Geodetic: c.coordinate}
	if c.Affine != nil {
		place.Transform = *c.Affine
	}
	if c.Transform == nil {
		err = p.NewEvaluator().EvalAt(place, src, dst, c.N, &counts)
	} else if err = c.evalWindow(p, rand.New(rand.NewPCG(1, 1)), c.domain(), p.Margin(), dst, &counts); err == nil {
		err = c.checkWindow(p, dst)
	}
	var bad *PixelError
	switch {
	case errors.As(err, &bad) && want.Error == "pixel" && c.index(p, bad.Index) == want.Index:
		return nil
	case err != nil || want.Error != "":
		return fmt.Errorf("%v; reference: %s %d", err, want.Error, want.Index)
	}
	nd := p.Nodata()
	if (nd == nil) != (want.Nodata == nil) {
		return fmt.Errorf("nodata %v, reference %v", nd, want.Nodata)
	}
	if nd != nil {
		if s, err := ndarray.ParseScalar(*want.Nodata, p.Type()); err != nil || s != *nd && !(s.IsNaN() && nd.IsNaN()) {
			return fmt.Errorf("nodata %v, reference %v", nd, *want.Nodata)
		}
	}
	if len(dst) != len(want.Bands) {
		return fmt.Errorf("%d bands, reference %d", len(dst), len(want.Bands))
	}
	for b := range dst {
		ref, _ := hex.DecodeString(want.Bands[b])
		near, _ := hex.DecodeString(want.Near[b])
		for i := range c.N {
			g, w := dst[b][i*size:(i+1)*size], aligned(ref)[i*size:(i+1)*size]
			equal := false
			if len(near) > 0 && c.near {
				equal = within(p.Type(), g, w, math.Float64frombits(bitsOf(ndarray.Float64, near[i*8:(i+1)*8])))
			} else {
				equal = same(p.Type(), g, w, c.near)
			}
			if !equal {
				return fmt.Errorf("band %d pixel %d: %s, reference %s\n%v", b+1, i, show(p.Type(), g),
					show(p.Type(), w), p)
			}
		}
	}
	got := want.Count
	got.Invalid, got.Saturated, got.Collision, got.Inf = counts.Invalid, counts.Saturated, counts.NodataCollision,
		counts.Inf
	if got != want.Count && !c.near {
		return fmt.Errorf("counts %+v, reference %+v", got, want.Count)
	}
	return nil
}

func aligned(b []byte) []byte {
	a := ndarray.New(ndarray.Uint8, len(b))
	copy(a.Data, b)
	return a.Data
}

func show(d ndarray.DType, b []byte) string {
	return fmt.Sprintf("%v (%x)", ndarray.Scalar{Type: d, Bits: bitsOf(d, b)}, b)
}

func bitsOf(d ndarray.DType, b []byte) uint64 {
	var u uint64
	for i := len(b) - 1; i >= 0; i-- {
		u = u<<8 | uint64(b[i])
	}
	if d.IsSigned() {
		s := 64 - 8*len(b)
		u = uint64(int64(u<<s) >> s)
	}
	return u
}

// same compares two pixels: bit by bit except the sign of zero and the bits of NaN, or with near
// within 2 units in the last place.
func same(d ndarray.DType, a, b []byte, near bool) bool {
	x, y := bitsOf(d, a), bitsOf(d, b)
	if !d.IsFloat() {
		return x == y || near && math.Abs(float64(int64(x-y))) <= 1
	}
	p, q := ndarray.Scalar{Type: d, Bits: x}, ndarray.Scalar{Type: d, Bits: y}
	if p.IsNaN() || q.IsNaN() {
		return p.IsNaN() && q.IsNaN()
	}
	if p.Float64() == q.Float64() {
		return true
	}
	return near && math.Signbit(p.Float64()) == math.Signbit(q.Float64()) && math.Abs(float64(int64(x-y))) <= 2
}

// The pixels of a case are rows of this many columns, in a raster with this transform.
const placeColumns = 7

var placeTransform = [6]float64{500000.25, 30, 0.1, 4000000, -0.3, -29.9}

// generator generates random expressions with their inputs.
type generator struct {
	*rand.Rand
	inputs map[string]numpyInput
	wide   bool // 64-bit values beyond 2^53 occur
	alone  bool // no focal functions, whose pixels depend on others
	focal  bool // the case has the pixels of a domain
	// defined makes expressions use the name d.
	defined bool
	// geodetic makes them use lon, lat and pixel_area.
	geodetic bool
}

func (g *generator) oneCase() numpyCase {
	c := numpyCase{N: 1 + g.IntN(60)}
	if g.IntN(20) == 0 {
		c.N = 600 // more than one chunk
	}
	types := []string{"uint8", "int8", "uint16", "int16", "uint32", "int32", "float32", "float64", "uint16", "float32",
		"uint8"}
	g.inputs, g.wide, g.focal = map[string]numpyInput{}, false, false
	focal := !g.alone && g.IntN(3) == 0
	if focal {
		c.N = placeColumns * (1 + g.IntN(9))
	}
	common := g.IntN(3) == 0
	if g.IntN(8) == 0 {
		types = append(types, "int64", "uint64", "int64", "uint64")
	}
	for _, name := range []string{"a", "b", "c"} {
		g.inputs[name] = numpyInput{Files: [][]numpyBand{{g.band(types, c.N, common)}}}
	}
	m := numpyInput{Files: [][]numpyBand{nil}}
	for range 2 + g.IntN(2) {
		m.Files[0] = append(m.Files[0], g.band(types, c.N, common))
	}
	g.inputs["m"] = m
	s, timed := numpyInput{List: true}, g.IntN(4) > 0
	width := 1 + g.IntN(4)/3
	one := []string{types[g.IntN(len(types))]}
	for range 1 + g.IntN(7) {
		var f []numpyBand
		for range width {
			f = append(f, g.band(one, c.N, common))
		}
		s.Files = append(s.Files, f)
		if timed {
			s.Times = append(s.Times, 1577836800000+int64(g.IntN(20))*86400000+int64(g.IntN(3))*1234)
		}
	}
	g.inputs["s"] = s
	c.Inputs = g.inputs
	g.focal = focal && !g.wide
	c.Text, c.near = g.root()
	for strings.Contains(c.Text, "isnodata") && g.wide || strings.Contains(c.Text, "count") && g.wide {
		c.Text, c.near = g.root()
	}
	if g.IntN(6) == 0 && !g.wide {
		definition := "d = " + []string{g.number(2, 0), g.boolean(2, 0)}[g.IntN(2)] + "; # named\n"
		g.defined = true
		c.Text, c.near = g.root()
		c.Text = definition + c.Text
		g.defined = false
	}
	c.Place = [4]int{g.IntN(100), g.IntN(5000), 107 + g.IntN(2)*1e5, 5100 + g.IntN(2)*1e8}
	c.Tables = map[string]string{"v": g.table(2), "r": g.table(3)}
	if g.focal {
		g.focalCase(&c)
	}
	if g.geodetic {
		g.geodeticCase(&c)
	}
	c.NoMask = g.IntN(12) == 0
	if g.IntN(4) == 0 {
		c.Opts.Type = []string{"uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64", "float16",
			"float32", "float64"}[g.IntN(11)]
		if c.near {
			c.Opts.Type = "" // units in the last place are those of the result's own type
		}
		if g.IntN(2) == 0 && !c.near {
			c.Opts.Scale, c.Opts.Offset = []float64{0.5, 0.01, 3, -2}[g.IntN(4)], []float64{0, -1, 10.5}[g.IntN(3)]
		}
	}
	if g.IntN(4) == 0 {
		c.Opts.Nodata = []string{"0", "255", "none", "7", "-9999", "nan"}[g.IntN(6)]
	}
	return c
}

// band generates n pixels that include limits, nodata, NaN and infinities.
func (g *generator) band(types []string, n int, common bool) numpyBand {
	b := numpyBand{Type: types[g.IntN(len(types))]}
	d, _ := ndarray.ParseDType(b.Type)
	lo, hi := d.Limits()
	var nodata string
	switch k := g.IntN(8); {
	case common:
		nodata = "0"
	case k < 3:
	case k < 5:
		nodata = "0"
	case k == 5 && d.IsFloat():
		nodata = []string{"nan", "-9999", "0.1", "inf"}[g.IntN(4)]
	case k == 5:
		nodata = "7"
	case d.Size() < 8 && d.IsInteger():
		nodata = fmt.Sprintf("%.0f", []float64{lo, hi}[g.IntN(2)])
	default:
		nodata = "1"
	}
	a := ndarray.New(d, n)
	style := g.IntN(3)
	for i := range n {
		var v float64
		switch {
		case g.IntN(8) == 0:
			v = []float64{0, 1, 2, 7, lo, hi, 255, 3}[g.IntN(8)]
			if d == ndarray.Float64 && g.IntN(2) == 0 || d == ndarray.Float32 && g.IntN(2) == 0 {
				v = []float64{math.NaN(), math.Inf(1), math.Inf(-1), math.Copysign(0, -1), 1e-40, 0.1}[g.IntN(6)]
			}
			if d.IsInteger() && d.Size() == 8 && (v == lo && lo < 0 || v == hi) {
				if v = float64(maxExact); g.IntN(8) == 0 {
					v, g.wide = float64(maxExact)*4, true
				}
			}
		case d.IsFloat() && style == 0:
			v = g.NormFloat64() * math.Pow(10, float64(g.IntN(9)-4))
		case d.IsFloat():
			v = g.NormFloat64() * 3
		case style == 0:
			v = math.Trunc(g.Float64() * min(hi, 1<<40))
		default:
			v = float64(g.IntN(120))
		}
		if d.IsInteger() {
			v = math.Max(lo, math.Min(hi, math.Trunc(v)))
			if d.IsSigned() && g.IntN(2) == 0 && v > lo {
				v = -v
			}
		}
		if nodata != "" && g.IntN(7) == 0 {
			s, _ := ndarray.ParseScalar(nodata, d)
			v = s.Float64()
		}
		s, err := ndarray.ScalarFromFloat(v, d)
		if err != nil {
			panic(err)
		}
		for k := range d.Size() {
			a.Data[i*d.Size()+k] = byte(s.Bits >> (8 * k))
		}
	}
	b.Data = hex.EncodeToString(a.Data)
	if nodata != "" {
		b.Nodata = &nodata
	}
	if g.IntN(4) == 0 {
		b.Masked = true
		mask := make([]byte, n)
		for i := range mask {
			if g.IntN(6) > 0 {
				mask[i] = byte(1 + g.IntN(255))
			}
		}
		b.Mask = hex.EncodeToString(mask)
	}
	if g.IntN(10) == 0 {
		b.Scale, b.Offset = []float64{0.0001, 2, 0}[g.IntN(3)], []float64{0, -0.1, 5}[g.IntN(3)]
	}
	return b
}

// root generates an expression. Transcendental functions, compared less strictly, occur only at its
// root.
func (g *generator) root() (text string, near bool) {
	if g.focal && g.IntN(3) == 0 {
		return g.near(), true
	}
	switch g.IntN(12) {
	case 0, 1:
		f := []string{"exp", "expm1", "log", "log10", "log2", "log1p", "sin", "cos", "tan", "asin", "acos", "atan",
			"sinh", "cosh", "tanh"}
		return fmt.Sprintf("%s(%s)", f[g.IntN(len(f))], g.number(2, 0)), true
	case 2:
		return fmt.Sprintf("%s(%s, %s)", []string{"atan2", "hypot"}[g.IntN(2)], g.number(2, 0), g.number(2, 0)), true
	case 3:
		return fmt.Sprintf("%s ** %s", g.number(2, 10), g.number(1, 9)), true
	case 4:
		return fmt.Sprintf("[%s, %s]", g.number(3, 0), g.number(2, 0)), false
	case 5:
		return fmt.Sprintf("m * %s", g.number(3, 8)), false
	case 6:
		return g.boolean(4, 0), false
	}
	return g.number(4, 0), false
}

// wrap adds parentheses where prec, the precedence of the expression, is below need, and sometimes
// elsewhere.
func (g *generator) wrap(text string, prec, need int) string {
	if prec < need || g.IntN(10) == 0 {
		return "(" + text + ")"
	}
	return text
}

// number generates an expression whose value is a number. Precedences: 1 ?:, 2 or, 3 and, 4 not, 5
// comparison, 6 sum, 7 product, 8 sign, 9 power, 10 call and name.
func (g *generator) number(depth, need int) string {
	if depth == 0 || g.IntN(6) == 0 {
		return g.leaf(need)
	}
	if g.focal && g.IntN(5) == 0 {
		return g.neighbours(depth)
	}
	n := func(need int) string { return g.number(depth-1, need) }
	switch k := g.IntN(35); k {
	case 0, 1, 2:
		return g.wrap(n(6)+[]string{" + ", "-", " - "}[k]+n(7), 6, need)
	case 3, 4, 5, 6:
		return g.wrap(n(7)+[]string{"*", " / ", " % ", " / "}[k-3]+n(8), 7, need)
	case 7:
		return g.wrap("-"+n(8), 8, need)
	case 8:
		return g.wrap(n(10)+"**"+[]string{"2", "2", "0", "1"}[g.IntN(4)], 9, need)
	case 9, 10:
		return g.wrap(g.boolean(depth-1, 2)+" ? "+n(1)+" : "+g.branch(depth-1, 1), 1, need)
	case 11:
		return fmt.Sprintf("where(%s, %s, %s)", g.boolean(depth-1, 0), g.branch(depth-1, 0), n(0))
	case 12:
		return fmt.Sprintf("%s(%s, %s)", []string{"min", "max"}[g.IntN(2)], n(0), n(0))
	case 13:
		return fmt.Sprintf("clip(%s, %s, %s)", n(0), g.literal(), g.leaf(0))
	case 14:
		return fmt.Sprintf("%s(%s)", []string{"abs", "floor", "ceil", "round", "sqrt", "float32", "float64"}[g.IntN(7)],
			n(0))
	case 15:
		return fmt.Sprintf("fill(%s, %s)", n(0), g.literal())
	case 16:
		return fmt.Sprintf("coalesce(%s, %s)", n(0), n(0))
	case 17, 18:
		list := []string{"s", "m", "[a, b]", fmt.Sprintf("[%s, %s, %s]", n(0), n(0), n(0)), "s", "s * 2",
			"[s[1], a]"}[g.IntN(7)]
		return g.reducer() + "(" + list + ")" + g.first(list)
	case 19:
		return g.wrap(g.boolean(depth-1, 6)+" + "+n(7), 6, need)
	case 20:
		return fmt.Sprintf("float64(%s)", n(0))
	case 21:
		return g.wrap(n(7)+" / "+n(8), 7, need)
	case 22, 23:
		return g.bitwise(depth-1, need)
	case 24:
		return fmt.Sprintf("classify(%s, [%s])", n(0), []string{"0", "-1, 0.5, 3", "0.1, 0.2", "1, 1", "2, inf"}[g.IntN(5)])
	case 25:
		text := fmt.Sprintf("recode(%s, [0, %s, 7], [%s, %s, %s]", n(0), []string{"1", "0.5", "255", "0"}[g.IntN(4)],
			g.literal(), []string{"nodata", "3", "9"}[g.IntN(3)], g.literal())
		if g.IntN(2) == 0 {
			text += ", " + g.branch(depth-1, 0)
		}
		return text + ")"
	case 26:
		list := g.list(n)
		index := []string{n(0), "2", "1", "argmax(" + list + ")", "a"}[g.IntN(5)]
		return fmt.Sprintf("pick(%s, %s)%s", list, index, g.first(list))
	case 27:
		list := g.list(n)
		if g.IntN(2) == 0 {
			return fmt.Sprintf("percentile(%s, %s)%s", list, []string{"0", "90", "33.3", "100", "101"}[g.IntN(5)], g.first(list))
		}
		return fmt.Sprintf("quantile(%s, %s)%s", list, []string{"0", "0.5", "0.1", "1", "a"}[g.IntN(5)], g.first(list))
	case 28, 29:
		list := g.list(n)
		return g.reducer() + "(" + list + ")" + g.first(list)
	case 32:
		text := "recode(" + n(0) + []string{", @v", ", @r"}[g.IntN(2)]
		if g.IntN(2) == 0 {
			text += ", " + g.branch(depth-1, 0)
		}
		return text + ")"
	case 30, 31:
		list := g.list(n)
		second := []string{"", ", times", ", times", ", [0, 1]", ", [-1, 2.5, 2]"}[g.IntN(5)]
		return []string{"trend", "intercept", "r2"}[g.IntN(3)] + "(" + list + second + ")" + g.first(list)
	}
	return g.leaf(need)
}

// table generates the text of a table of recode.
func (g *generator) table(columns int) string {
	separator := []string{",", ";", " ", " ; "}[g.IntN(4)]
	var lines []string
	if g.IntN(2) == 0 {
		lines = append(lines, "value"+separator+"new", "", "# none")
	}
	keys := []string{"-inf", "-7.5", "0", "0.1", "1", "2", "3.5", "7", "120", "255", "70000", "inf"}
	from := 0
	for from < len(keys)-1 {
		from += g.IntN(3)
		to := min(from+g.IntN(3), len(keys)-1)
		if from >= len(keys)-1 {
			break
		}
		row := keys[from]
		if from++; columns == 3 {
			row += separator + keys[to]
			if from = to; to < from || row == keys[to]+separator+keys[to] {
				from++
			}
		}
		lines = append(lines, row+separator+[]string{"5", "-3", "0.25", "nodata", "300", "1e2"}[g.IntN(6)])
	}
	if len(lines) == 0 || len(lines) == 3 {
		lines = append(lines, strings.Repeat("4"+separator, columns)[:(columns-1)*(1+len(separator))]+"8")
	}
	if g.IntN(2) == 0 {
		g.Shuffle(len(lines), func(i, j int) {
			if i > 2 && j > 2 {
				lines[i], lines[j] = lines[j], lines[i]
			}
		})
	}
	return strings.Join(lines, "\n")
}

// list generates a list, or bands that a function can reduce.
func (g *generator) list(n func(int) string) string {
	return []string{"s", "m", "[a, b]", fmt.Sprintf("[%s, %s, %s]", n(0), n(0), n(0)), "s", "s * 2", "[s[1], a]"}[g.IntN(7)]
}

// bitwise generates an operation on bits, mostly of integers.
func (g *generator) bitwise(depth, need int) string {
	whole := func(need int) string {
		if depth > 0 && g.IntN(4) == 0 {
			return g.number(depth, need)
		}
		return g.wrap([]string{"a", "b", "c", "m[1]", "0xff", "3", "-2", "floor(a)", "a % 8", "(a > 3)"}[g.IntN(10)],
			7, need)
	}
	bit := func() string { return []string{"0", "1", "3", "7", "12", "30", "52", "54"}[g.IntN(8)] }
	switch g.IntN(9) {
	case 0, 1:
		return g.wrap(whole(6)+" & "+whole(6), 6, need)
	case 2, 3:
		return g.wrap(whole(6)+" | "+whole(6), 6, need)
	case 4:
		return g.wrap(whole(6)+" << "+[]string{bit(), "m[2] % 8", "(a > 3)"}[g.IntN(3)], 6, need)
	case 5:
		return g.wrap(whole(6)+" >> "+[]string{bit(), "m[2] % 8", "bits(a, 0, 3)"}[g.IntN(3)], 6, need)
	case 6:
		return g.wrap("~"+whole(8), 8, need)
	case 7:
		return fmt.Sprintf("bits(%s, %s, %s)", whole(0), []string{"0", "1", "3"}[g.IntN(3)], bit())
	}
	return fmt.Sprintf("bit(%s, %s)", whole(0), bit())
}

// first selects a band if a reduction over files returns several.
func (g *generator) first(list string) string {
	if strings.HasPrefix(list, "s") {
		return "[1]"
	}
	return ""
}

func (g *generator) reducer() string {
	return []string{"mean", "median", "std", "sum", "min", "max", "count", "median", "var", "mode", "first", "last", "any",
		"all", "argmin", "argmax", "coalesce"}[g.IntN(17)]
}

func (g *generator) branch(depth, need int) string {
	if g.IntN(4) == 0 {
		return "nodata"
	}
	return g.number(depth, need)
}

func (g *generator) leaf(need int) string {
	switch g.IntN(10) {
	case 0, 1:
		return g.wrap(g.literal(), 8, need)
	case 2:
		return fmt.Sprintf("m[%d]", 1+g.IntN(2))
	case 3:
		return "s[1][1]"
	case 4:
		if g.IntN(3) == 0 {
			if g.geodetic {
				return coordinates[g.IntN(7)]
			}
			return coordinates[g.IntN(4)]
		}
	}
	if g.defined && g.IntN(2) == 0 {
		return "d"
	}
	return []string{"a", "b", "c"}[g.IntN(3)]
}

func (g *generator) literal() string {
	return []string{"0", "1", "2", "3", "10", "255", "0.5", "2.5", "-1", "1e-3", "0x1f", "70000", ".25", "pi", "-2.75",
		"100", "16777217", "nan", "inf", "0.1", "2.0"}[g.IntN(21)]
}

// boolean generates a condition.
func (g *generator) boolean(depth, need int) string {
	if depth == 0 {
		return g.wrap(g.leaf(6)+" > "+g.leaf(6), 5, need)
	}
	d := depth - 1
	switch g.IntN(11) {
	case 7:
		in := []string{" in ", " not in "}[g.IntN(2)]
		return g.wrap(g.number(d, 6)+in+"["+g.literal()+", 3, "+g.literal()+"]", 5, need)
	case 8:
		return g.wrap(g.boolean(d, 6)+[]string{" & ", " | "}[g.IntN(2)]+g.boolean(d, 6), 6, need)
	case 0:
		return g.wrap(g.boolean(d, 3)+" and "+g.boolean(d, 4), 3, need)
	case 1:
		return g.wrap(g.boolean(d, 2)+" or "+g.boolean(d, 3), 2, need)
	case 2:
		return g.wrap("not "+g.boolean(d, 4), 4, need)
	case 3:
		return g.wrap(g.number(d, 6)+" <= "+g.number(d, 6)+" < "+g.number(d, 6), 5, need)
	case 4:
		return "isnodata(" + g.number(d, 0) + ")"
	case 5:
		return g.wrap(g.number(d, 6)+" != "+g.literal(), 5, need)
	case 6:
		return g.number(d, max(need, 10))
	}
	op := []string{"<", "<=", ">", ">=", "==", "!="}[g.IntN(6)]
	return g.wrap(g.number(d, 6)+" "+op+" "+g.number(d, 6), 5, need)
}
