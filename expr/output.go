package expr

import (
	"fmt"
	"math"
	"strings"

	"leat/ndarray"
)

// output says how results become pixels.
type output struct {
	typ           ndarray.DType
	nodata        *ndarray.Scalar
	scaled        bool
	scale, offset float64
}

// finish decides type and nodata of the output and makes the program.
func (c *compiler) finish(e *Expr, vs []val, opts *Options) (*Program, error) {
	t, err := c.unify(e.root.pos, vs...)
	if err != nil {
		return nil, c.fail(e.root.pos, "the expression is nothing but nodata")
	}
	out := output{scale: opts.Scale, offset: opts.Offset}
	if out.scale == 0 {
		out.scale = 1
	}
	if math.IsNaN(out.scale) || math.IsInf(out.scale, 0) || math.IsNaN(out.offset) || math.IsInf(out.offset, 0) {
		return nil, fmt.Errorf("expr: output scale %v and offset %v: both must be finite", opts.Scale, opts.Offset)
	}
	out.scaled = out.scale != 1 || out.offset != 0
	switch {
	case opts.Type.IsComplex() || opts.Type != ndarray.NoType && !opts.Type.Valid():
		return nil, fmt.Errorf("expr: output type %v: expressions give real numbers", opts.Type)
	case opts.Type != ndarray.NoType:
		out.typ = opts.Type
	case out.scaled:
		out.typ = floatType(t.class()).output()
	default:
		out.typ = t.output()
	}
	invalid := false
	for _, v := range vs {
		invalid = invalid || v.mask != 0 || v.nan
	}
	b := &builder{graph: c.graph}
	for i, v := range vs {
		mask := v.mask
		if v.konst && v.nan {
			mask = c.full(v)
		}
		b.roots = append(b.roots, root{value: c.as(v, t), mask: mask, band: i, nan: v.nan, typ: t})
	}
	if err := c.bounded(e.root.pos); err != nil {
		return nil, err
	}
	refs := b.usedRefs(len(c.refs))
	if out.nodata, err = c.nodata(t, out.typ, opts.Nodata, invalid, refs); err != nil {
		return nil, err
	}
	p := &Program{text: e.text, out: out, bands: len(vs), invalid: invalid}
	for _, r := range refs {
		p.refs = append(p.refs, c.refs[r])
		p.bandOf = append(p.bandOf, c.bandOf[r])
		p.refNames = append(p.refNames, c.refName(c.refs[r]))
	}
	b.lower(p)
	return p, nil
}

// refName is how the band is written in an expression.
func (c *compiler) refName(r Ref) string {
	if c.inputs[r.Name].List {
		return fmt.Sprintf("%s[%d][%d]", r.Name, r.File+1, r.Band)
	}
	return r.String()
}

// nodata returns the value of invalid output pixels: as declared, else the one that all inputs with nodata
// share, else NaN or an end of the integer type, and none where no integer pixel can be invalid.
func (c *compiler) nodata(t typ, d ndarray.DType, text string, invalid bool, refs []int) (*ndarray.Scalar, error) {
	switch text = strings.TrimSpace(text); strings.ToLower(text) {
	case "none":
		return nil, nil
	case "":
	default:
		s, err := ndarray.ParseScalar(text, d)
		if err != nil {
			return nil, fmt.Errorf("expr: nodata %s is no value of the output's type %v: choose another, or \"none\"", text, d)
		}
		return &s, nil
	}
	if !invalid && d.IsInteger() {
		return nil, nil
	}
	if v, ok := c.commonNodata(refs); ok && invalid && !(t.kind == kindBool && (v == 0 || v == 1)) {
		if s, err := ndarray.ScalarFromFloat(v, d); err == nil && (s.Float64() == v || s.IsNaN()) {
			return &s, nil
		}
	}
	var s ndarray.Scalar
	var err error
	switch {
	case d.IsFloat():
		s, err = ndarray.ScalarFromFloat(math.NaN(), d)
	case d.IsSigned():
		s.Type = d
		s.Bits = uint64(int64(math.MinInt64) >> (64 - 8*d.Size()))
	default:
		s.Type = d
		s.Bits = math.MaxUint64 >> (64 - 8*d.Size())
	}
	return &s, err
}

// commonNodata returns the nodata value on which all bands that have one agree.
func (c *compiler) commonNodata(refs []int) (v float64, ok bool) {
	if c.noMask {
		return 0, false
	}
	for _, r := range refs {
		s := c.bandOf[r].Nodata
		if s == nil {
			continue
		}
		f := s.Float64()
		if s.Type.Size() == 8 && s.Type.IsInteger() && math.Abs(f) > maxExact {
			return 0, false // not the same number in another type
		}
		if ok && f != v && !(math.IsNaN(f) && math.IsNaN(v)) {
			return 0, false
		}
		v, ok = f, true
	}
	return v, ok
}
