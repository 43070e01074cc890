package expr

// call compiles a function call. The parser has checked the name and the number of arguments.
func (c *compiler) call(n *ast) (value, error) {
	f := functions[n.text]
	switch f.kind {
	case "classes":
		return c.classes(n)
	case "focal":
		return c.focal(n)
	}
	if len(n.args) == 2 && lineFunctions[n.text] {
		return c.line(n, f.op)
	}
	args := make([]value, len(n.args))
	for i, a := range n.args {
		var err error
		if args[i], err = c.compile(a); err != nil {
			return value{}, err
		}
	}
	if f.kind == "list" && (len(args) == 1 || f.max > 0) {
		return c.reduce(n, f.op, args, 0)
	}
	return c.zip(n.pos, func(vs []val) (val, error) {
		if n.text == "where" {
			return c.choose(n.pos, vs[0], vs[1], vs[2])
		}
		if err := c.noNodata(n.pos, vs...); err != nil {
			return val{}, err
		}
		switch f.kind {
		case "float":
			for i := range vs {
				vs[i] = c.number(vs[i])
			}
			if constants(vs...) {
				return c.fold(f.op, vs...), nil
			}
			return c.float(f.op, vs...), nil
		case "bits":
			return c.bits(n, vs)
		case "list":
			if n.text == "coalesce" {
				return c.coalesce(n.pos, vs)
			}
			v := vs[0]
			for _, w := range vs[1:] {
				v = c.extreme(f.op == opRedMin, v, w)
			}
			v.chosen = selectionOf(vs...)
			return c.number(v), nil
		}
		switch n.text {
		case "clip":
			v := c.extreme(true, c.extreme(false, vs[0], vs[1]), vs[2])
			v.chosen = selectionOf(vs...)
			return v, nil
		case "float32":
			return c.cast(vs[0], c32), nil
		case "float64":
			return c.cast(vs[0], c64), nil
		case "isnodata":
			v := val{t: typ{kind: kindBool}, node: c.constant(0, regBool)}
			if m := c.validMask(vs[0]); m != 0 {
				v.node = c.add(node{op: opInvalid, reg: regBool, args: []int{m}})
			}
			return v, nil
		case "fill":
			return c.fill(n, vs[0], vs[1])
		}
		return c.rounding(f.op, vs[0]), nil
	}, args...)
}

// rounding compiles abs, floor, ceil and round.
func (c *compiler) rounding(o op, v val) val {
	v = c.number(v)
	t := v.t
	if t.kind == kindInt {
		if o != opAbs || t.lo >= 0 {
			return v
		}
		t.lo, t.hi = max(0, -t.hi), max(-t.lo, t.hi)
	}
	if v.konst {
		if t.kind == kindFloat {
			return c.fold(o, v)
		}
		v.c, v.t = -v.c, intType(-v.t.lo, -v.t.lo)
		return v
	}
	cls := t.class()
	return c.result(node{op: o, reg: cls.reg(), args: []int{c.vec(v, cls)}}, t, v.mask, v.nan)
}

// extreme compiles the smaller or the larger of two values. NaN takes precedence.
func (c *compiler) extreme(smaller bool, a, b val) val {
	a, b = c.number(a), c.number(b)
	o := opMax
	if smaller {
		o = opMin
	}
	if a.t.kind == kindFloat || b.t.kind == kindFloat {
		if constants(a, b) {
			return c.fold(o, a, b)
		}
		v := c.float(o, a, b)
		v.nan = a.nan || b.nan
		return v
	}
	t := intType(max(a.t.lo, b.t.lo), max(a.t.hi, b.t.hi), a.t.from, b.t.from)
	if smaller {
		t.lo, t.hi = min(a.t.lo, b.t.lo), min(a.t.hi, b.t.hi)
	}
	if constants(a, b) {
		return val{t: t, konst: true, c: float64(t.lo), weak: true}
	}
	cls := max(a.t.class(), b.t.class())
	n := node{op: o, reg: cls.reg(), args: []int{c.vec(a, cls), c.vec(b, cls)}}
	return c.result(n, t, c.both(a.mask, b.mask), a.nan || b.nan)
}

func (c *compiler) cast(v val, to class) val {
	v = c.number(v)
	v.t = floatType(to)
	v.weak, v.chosen = false, nil
	if !v.konst {
		v.node = c.vec(v, to)
	} else if to == c32 {
		v.c = float64(float32(v.c))
	}
	return v
}

func (c *compiler) fill(n *ast, a, number val) (val, error) {
	if !number.konst || number.nan {
		return val{}, c.fail(n.args[1].pos, "fill takes a number: for another band write coalesce(a, b)")
	}
	t, err := c.unify(n.pos, a, number)
	if err != nil {
		return val{}, err
	}
	m := c.validMask(a)
	v := val{t: t, node: c.as(a, t), chosen: selectionOf(a, number)}
	if m != 0 {
		v.node = c.add(node{op: opPick, reg: c.nodes[v.node].reg, args: []int{m, v.node, c.as(number, t)}})
	}
	return v, nil
}
