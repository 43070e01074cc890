package expr

import "math"

// reduce compiles a function over the files of a list, band by band, or over the bands of one file.
// line is the number of the positions of trend and the like.
func (c *compiler) reduce(n *ast, o op, args []value, line int) (value, error) {
	v := args[0]
	if !v.list {
		args = append([]value{{list: true, items: column(v.bands())}}, args[1:]...)
		r, err := c.reduce(n, o, args, line)
		return value{items: r.items}, err
	}
	bands := len(v.bands())
	for i, item := range v.items {
		if len(item) != bands {
			return value{}, c.fail(n.pos, "the files of the list differ: file 1 has %d bands, file %d has %d", bands,
				i+1, len(item))
		}
	}
	var second []val
	if len(args) > 1 {
		if args[1].list {
			return value{}, c.fail(n.args[1].pos, "the second argument of %s is a list: write %s", n.text,
				functions[n.text].usage)
		}
		if second = args[1].bands(); len(second) != 1 && len(second) != bands && bands != 1 {
			return value{}, c.fail(n.pos, "%d bands with %d bands: pick bands with name[i]", bands, len(second))
		}
	}
	var row []val
	for b := range max(bands, len(second)) {
		items := make([]val, len(v.items))
		for i := range items {
			items[i] = v.items[i][min(b, bands-1)]
		}
		var arg *val
		if second != nil {
			arg = &second[min(b, len(second)-1)]
		}
		r, err := c.reduction(n, o, items, arg, line)
		if err != nil {
			return value{}, err
		}
		row = append(row, r)
	}
	return value{items: [][]val{row}}, nil
}

// column returns the bands as items of one band each.
func column(bands []val) (items [][]val) {
	for _, v := range bands {
		items = append(items, []val{v})
	}
	return items
}

// reduction compiles a function over items of one band. arg is its second argument, or nil.
func (c *compiler) reduction(n *ast, o op, vs []val, arg *val, line int) (val, error) {
	if err := c.noNodata(n.pos, vs...); err != nil {
		return val{}, err
	}
	switch n.text {
	case "first", "coalesce":
		return c.coalesce(n.pos, vs)
	case "last":
		back := make([]val, len(vs))
		for i, v := range vs {
			back[len(vs)-1-i] = v
		}
		return c.coalesce(n.pos, back)
	case "any", "all":
		return c.anyOrAll(n.text == "all", vs), nil
	case "pick":
		return c.pickItem(n, vs, *arg)
	}
	fraction := 0.0
	if o == opRedQuantile {
		var err error
		if fraction, err = c.fraction(n, *arg); err != nil {
			return val{}, err
		}
	}
	masks := make([]int, len(vs))
	for i := range vs {
		vs[i] = c.number(vs[i])
		masks[i] = c.validMask(vs[i])
	}
	if o == opRedCount {
		t := intType(0, int64(len(vs)))
		return c.result(node{op: o, reg: t.class().reg(), args: masks}, t, 0, false), nil
	}
	t, err := c.unify(n.pos, vs...)
	if err != nil {
		return val{}, err
	}
	cls := t.class()
	r := node{op: o, reg: cls.reg(), k: fraction, ref: line}
	for _, v := range vs {
		r.args = append(r.args, c.vec(v, cls))
	}
	r.args = append(r.args, masks...)
	mask := c.either(masks...)
	switch o {
	case opRedMin, opRedMax, opRedMode:
		return val{t: t, node: c.add(r), mask: mask, nan: t.kind == kindFloat, chosen: selectionOf(vs...)}, nil
	case opRedArgMin, opRedArgMax:
		return c.result(r, intType(1, int64(len(vs))), mask, false), nil
	}
	return val{t: floatType(cls), node: c.add(r), mask: mask, nan: true}, nil
}

// fraction returns the second argument of percentile and quantile as a fraction from 0 to 1.
func (c *compiler) fraction(n *ast, v val) (float64, error) {
	most := 1.0
	if n.text == "percentile" {
		most = 100
	}
	if !v.konst || !(v.c >= 0 && v.c <= most) {
		return 0, c.fail(n.args[1].pos, "the second argument of %s must be a number from 0 to %v", n.text, most)
	}
	return v.c / most, nil
}

// coalesce compiles the first value that is valid.
func (c *compiler) coalesce(pos int, vs []val) (val, error) {
	t, err := c.unify(pos, vs...)
	if err != nil {
		return val{}, err
	}
	for i, v := range vs {
		if c.validMask(v) == 0 { // items after the first that is always valid are never used
			vs = vs[:i+1]
			break
		}
	}
	last := vs[len(vs)-1]
	out := val{t: t, node: c.as(last, t), mask: last.mask, nan: last.nan}
	for i := len(vs) - 2; i >= 0; i-- {
		m := c.validMask(vs[i])
		n := c.as(vs[i], t)
		out.node = c.add(node{op: opPick, reg: c.nodes[n].reg, args: []int{m, n, out.node}})
		out.mask = c.either(m, out.mask)
	}
	out.chosen = selectionOf(vs...)
	return out, nil
}

// anyOrAll compiles whether any or all of the valid items are true.
func (c *compiler) anyOrAll(all bool, vs []val) val {
	o, neutral := opOr, 0.0
	if all {
		o, neutral = opAnd, 1
	}
	masks := make([]int, len(vs))
	out := c.constant(neutral, regBool)
	for i, v := range vs {
		truth := c.truth(v)
		if masks[i] = c.validMask(v); masks[i] != 0 {
			truth = c.add(node{op: opPick, reg: regBool, args: []int{masks[i], truth, c.constant(neutral, regBool)}})
		}
		out = c.add(node{op: o, reg: regBool, args: []int{out, truth}})
	}
	return val{t: typ{kind: kindBool}, node: out, mask: c.either(masks...)}
}

// pickItem compiles the item whose number, from 1, is the value of index.
func (c *compiler) pickItem(n *ast, vs []val, index val) (val, error) {
	if index = c.number(index); index.t.kind != kindInt {
		return val{}, c.fail(n.args[1].pos, "the second argument of pick must be an integer, the number of an item")
	}
	if index.t.hi < 1 || index.t.lo > int64(len(vs)) {
		return val{}, c.fail(n.args[1].pos, "pick takes the number of an item, from 1 to %d", len(vs))
	}
	tests := make([]val, len(vs))
	for i := range tests {
		var err error
		number := val{t: intType(int64(i+1), int64(i+1)), konst: true, c: float64(i + 1), weak: true}
		if tests[i], err = c.compare(n.args[1].pos, opEq, index, number); err != nil {
			return val{}, err
		}
	}
	return c.cases(n.pos, index, tests, vs, val{t: typ{kind: kindNodata}})
}

// cases compiles the value of the first test that holds, or otherwise. The tests compare subject
// with constants.
func (c *compiler) cases(pos int, subject val, tests, values []val, otherwise val) (val, error) {
	all := append(append([]val(nil), values...), otherwise)
	t, err := c.unify(pos, all...)
	if err != nil {
		return val{}, err
	}
	if t.kind == kindFloat && constantBranches(all) {
		t = floatType(common(append(all, subject)...))
	}
	reg := t.class().reg()
	if t.kind == kindBool {
		reg = regBool
	}
	valid := c.validMask(subject)
	out := val{t: t, node: c.as(otherwise, t), mask: c.branchMask(otherwise), nan: otherwise.nan}
	for i := len(values) - 1; i >= 0; i-- {
		test, v := c.truth(tests[i]), values[i]
		out.node = c.add(node{op: opWhere, reg: reg, args: []int{test, c.as(v, t), out.node}})
		if m := c.branchMask(v); m != out.mask {
			out.mask = c.add(node{op: opMaskWhere, reg: regMask, args: []int{test, valid, m, out.mask}})
		}
		out.nan = out.nan || v.nan
	}
	out.mask = c.both(valid, out.mask)
	out.chosen = selectionOf(all...)
	return out, nil
}

// constantBranches reports whether all branches are constants or the word nodata.
func constantBranches(vs []val) bool {
	for _, v := range vs {
		if !v.konst && v.t.kind != kindNodata {
			return false
		}
	}
	return true
}

// classes compiles classify and recode, which take numbers in brackets.
func (c *compiler) classes(n *ast) (value, error) {
	if n.text == "recode" && n.args[1].kind == astFile {
		return c.recodeTable(n)
	}
	if n.text == "recode" && len(n.args) < 3 {
		return value{}, c.fail(n.pos, "recode has 2 arguments: write %s", functions[n.text].usage)
	}
	args := []value{{}}
	var err error
	if args[0], err = c.compile(n.args[0]); err != nil {
		return value{}, err
	}
	keys, err := c.numbers(n.args[1], n.text, false)
	if err != nil {
		return value{}, err
	}
	if n.text == "classify" {
		for i := 1; i < len(keys); i++ {
			if !(keys[i-1].c < keys[i].c) {
				return value{}, c.fail(n.args[1].args[i].pos, "the breaks of classify must increase")
			}
		}
		return c.zip(n.pos, func(v []val) (val, error) { return c.classify(n, v[0], keys) }, args...)
	}
	values, err := c.numbers(n.args[2], n.text, true)
	if err != nil {
		return value{}, err
	}
	if len(values) != len(keys) {
		return value{}, c.fail(n.args[2].pos, "recode has %d values and %d new values", len(keys), len(values))
	}
	seen := map[float64]bool{}
	for i, k := range keys {
		if seen[k.c] {
			return value{}, c.fail(n.args[1].args[i].pos, "recode has the value %v twice", k.c)
		}
		seen[k.c] = true
	}
	args = append(args, single(val{t: typ{kind: kindNodata}}))
	if len(n.args) > 3 {
		if args[1], err = c.compile(n.args[3]); err != nil {
			return value{}, err
		}
	}
	return c.zip(n.pos, func(v []val) (val, error) {
		if err := c.noNodata(n.pos, v[0]); err != nil {
			return val{}, err
		}
		tests := make([]val, len(keys))
		for i, k := range keys {
			var err error
			if tests[i], err = c.compare(n.args[1].args[i].pos, opEq, v[0], k); err != nil {
				return val{}, err
			}
		}
		return c.cases(n.pos, v[0], tests, values, v[1])
	}, args...)
}

// numbers compiles the numbers in the brackets n, an argument of function f.
func (c *compiler) numbers(n *ast, f string, nodata bool) ([]val, error) {
	if n.kind != astBands {
		return nil, c.fail(n.pos, "expected numbers in brackets: write %s", functions[f].usage)
	}
	return c.constantsOf(n.args, nodata)
}

// constantsOf compiles numbers, or the word nodata if it is allowed.
func (c *compiler) constantsOf(items []*ast, nodata bool) ([]val, error) {
	var out []val
	for _, a := range items {
		v, err := c.compile(a)
		if err != nil {
			return nil, err
		}
		k := v.bands()[0]
		isNodata := k.t.kind == kindNodata
		if v.list || len(v.bands()) != 1 || !k.konst && !isNodata || isNodata && !nodata || math.IsNaN(k.c) {
			return nil, c.fail(a.pos, "only numbers can be in these brackets")
		}
		out = append(out, c.number(k))
	}
	return out, nil
}

// classify compiles the number of breaks that are not above the value.
func (c *compiler) classify(n *ast, v val, breaks []val) (val, error) {
	if err := c.noNodata(n.pos, v); err != nil {
		return val{}, err
	}
	var sum val
	for i, b := range breaks {
		above, err := c.compare(n.pos, opGe, v, b)
		if err != nil {
			return val{}, err
		}
		if i == 0 {
			sum = c.number(above)
		} else if sum, err = c.arith(n.pos, "+", sum, above); err != nil {
			return val{}, err
		}
	}
	return sum, nil
}

// in compiles a in [1, 2].
func (c *compiler) in(n *ast) (value, error) {
	v, err := c.compile(n.args[0])
	if err != nil {
		return value{}, err
	}
	items, err := c.constantsOf(n.args[1:], false)
	if err != nil {
		return value{}, err
	}
	return c.zip(n.pos, func(v []val) (val, error) {
		out, err := c.compare(n.pos, opEq, v[0], items[0])
		for i := 1; i < len(items) && err == nil; i++ {
			var same val
			if same, err = c.compare(n.pos, opEq, v[0], items[i]); err == nil {
				out, err = c.logic(n.pos, "or", out, same)
			}
		}
		if err != nil || n.text == "in" {
			return out, err
		}
		return c.unary(n.pos, "not", out)
	}, v)
}
