package expr

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"leat/ndarray"
)

// output describes how results become pixels.
type output struct {
	typ           ndarray.DType
	nodata        *ndarray.Scalar
	scaled        bool
	scale, offset float64
}

// finish chooses type and nodata of the output.
func (c *compiler) finish(e *Expr, vs []val, opts *Options) (*Output, error) {
	t, err := c.unify(e.root.pos, vs...)
	if err != nil {
		return nil, c.fail(e.root.pos, "the expression is only nodata")
	}
	out := output{scale: opts.Scale, offset: opts.Offset}
	if out.scale == 0 {
		out.scale = 1
	}
	if math.IsNaN(out.scale) || math.IsInf(out.scale, 0) || math.IsNaN(out.offset) || math.IsInf(out.offset, 0) {
		return nil, fmt.Errorf("expr: output scale %v and offset %v: both must be finite", opts.Scale, opts.Offset)
	}
	out.scaled = out.scale != 1 || out.offset != 0
	if opts.Type.IsComplex() || opts.Type != ndarray.NoType && !opts.Type.Valid() {
		return nil, fmt.Errorf("expr: output type %v: the result of an expression is real", opts.Type)
	}
	invalid := false
	for _, v := range vs {
		invalid = invalid || v.mask != 0 || v.nan
	}
	o := &Output{text: e.text, bands: len(vs), invalid: invalid, copied: make([]*Ref, len(vs)),
		selected: make([]selectedBands, len(vs)), usesPlace: c.placed, usesGeodetic: c.geodetic}
	for i, v := range vs {
		mask := v.mask
		if v.konst && v.nan {
			mask = c.validMask(v)
		}
		o.roots = append(o.roots, root{value: c.as(v, t), mask: mask, band: i, nan: v.nan, typ: t})
	}
	if err := c.bounded(e.root.pos); err != nil {
		return nil, err
	}
	if err := c.chooseOutput(&out, t, opts, selectionOf(vs...), invalid); err != nil {
		return nil, err
	}
	o.out = out
	for i, v := range vs {
		o.copied[i] = c.copied(v, &out)
		o.selected[i] = c.selected(v, &out)
	}
	return o, nil
}

// build builds the program that computes the outputs.
func (c *compiler) build(outs ...*Output) *Program {
	p := &Program{Output: outs[0], outputs: outs}
	b := &builder{graph: c.graph}
	for i, o := range outs {
		p.placed, p.geodetic = p.placed || o.usesPlace, p.geodetic || o.usesGeodetic
		for _, r := range o.roots {
			r.output, r.at, r.out = i, len(b.roots), &o.out
			b.roots = append(b.roots, r)
			p.sizes = append(p.sizes, o.out.typ.Size())
		}
	}
	calls := c.neededCalls(b)
	for _, r := range usedRefs(append(slices.Clone(calls.operands), b), len(c.refs)) {
		p.refs = append(p.refs, c.refs[r])
		p.bandOf = append(p.bandOf, c.bandOf[r])
		p.refNames = append(p.refNames, c.refName(c.refs[r]))
	}
	c.planFocal(p, calls, b)
	b.lower(p)
	return p
}

// copied returns the band whose pixels the result holds unchanged, or nil.
func (c *compiler) copied(v val, out *output) *Ref {
	n := &c.nodes[v.node]
	if v.chosen == nil || len(v.chosen.refs) != 1 || n.op != opLoad {
		return nil
	}
	if m := &c.nodes[v.mask]; v.mask != 0 && (m.op != opLoadMask || m.ref != n.ref) {
		return nil // the expression makes more of its pixels invalid
	}
	if c.bandOf[n.ref].Type != out.typ || out.scaled {
		return nil
	}
	return &c.refs[n.ref]
}

// selected returns the bands whose pixels the result selects.
func (c *compiler) selected(v val, out *output) (s selectedBands) {
	if v.chosen == nil || out.scaled {
		return s
	}
	for _, r := range v.chosen.refs {
		s.refs = append(s.refs, c.refs[r])
	}
	s.exact = v.t.heldBy(out.typ)
	return s
}

// refName returns the band as an expression names it.
func (c *compiler) refName(r Ref) string {
	if c.inputs[r.Name].List {
		return fmt.Sprintf("%s[%d][%d]", r.Name, r.File+1, r.Band)
	}
	return r.String()
}

// chooseOutput chooses the type of the pixels and their nodata value by the rules of the guide's
// section "The output's type and nodata". chosen is nil for computed results.
func (c *compiler) chooseOutput(out *output, t typ, opts *Options, chosen *selection, invalid bool) error {
	switch {
	case opts.Type != ndarray.NoType:
		out.typ = opts.Type
	case out.scaled:
		out.typ = floatType(t.class()).output()
	default:
		out.typ = t.output()
	}
	values := t // of the stored values
	if out.scaled {
		values, chosen = floatType(c64), nil
	}
	switch text := strings.TrimSpace(opts.Nodata); strings.ToLower(text) {
	case "none":
		return nil
	case "":
	default:
		s, err := ndarray.ParseScalar(text, out.typ)
		if err != nil {
			return fmt.Errorf("expr: nodata %s is not a value of the output type %v: choose another, or \"none\"", text,
				out.typ)
		}
		out.nodata = &s
		return nil
	}
	if !invalid {
		return nil
	}
	if v, ok := c.commonNodata(chosen); ok && !chosen.holds(v, t.class()) {
		if s, err := ndarray.ScalarFromFloat(v, out.typ); err == nil && (s.Float64() == v || s.IsNaN()) {
			out.nodata = &s
			return nil
		}
	}
	if opts.Type == ndarray.NoType && out.typ.IsInteger() && (chosen == nil || len(chosen.refs) == 0) {
		out.typ = values.outputWithNodata()
	}
	s, _ := values.freeEnd(out.typ)
	out.nodata = &s
	return nil
}

// commonNodata returns the nodata value of the bands of a selection that have one, if it is the
// same.
func (c *compiler) commonNodata(chosen *selection) (v float64, ok bool) {
	if c.noMask || chosen == nil {
		return 0, false
	}
	for _, r := range chosen.refs {
		s := c.bandOf[r].Nodata
		if s == nil {
			continue
		}
		f := s.Float64()
		if s.Type.Size() == 8 && s.Type.IsInteger() && math.Abs(f) > maxExact {
			return 0, false // the number differs in the other type
		}
		if ok && f != v && !(math.IsNaN(f) && math.IsNaN(v)) {
			return 0, false
		}
		v, ok = f, true
	}
	return v, ok
}
