package expr

import (
	"errors"
	"maps"
)

// CompileAll compiles expressions as [Compile] does. Their options may differ only in Type, Scale,
// Offset and Nodata. Expressions that share work, such as the value of another expression, become
// outputs of one program, which does that work once. members[i] are the indices of the expressions
// that programs[i] computes, in increasing order.
func CompileAll(exprs []*Expr, inputs map[string]Input, opts []*Options) (programs []*Program, members [][]int,
	err error) {
	if len(opts) != len(exprs) {
		return nil, nil, errors.New("expr: CompileAll needs options for each expression")
	}
	if len(exprs) == 0 {
		return nil, nil, nil
	}
	c := newCompiler(inputs, opts[0])
	outs := make([]*Output, len(exprs))
	for i, e := range exprs {
		if !opts[i].alike(opts[0]) {
			return nil, nil, errors.New("expr: CompileAll with options that differ in more than type, scale, offset and nodata")
		}
		if outs[i], err = c.output(e, opts[i]); err != nil {
			return nil, nil, err
		}
	}
	for _, group := range c.sharing(outs) {
		var list []*Output
		for _, i := range group {
			list = append(list, outs[i])
		}
		programs, members = append(programs, c.build(list...)), append(members, group)
	}
	return programs, members, nil
}

// alike reports whether o and b agree in everything but what concerns a single output.
func (o *Options) alike(b *Options) bool {
	return o.NoMask == b.NoMask && o.Width == b.Width && o.Height == b.Height && maps.Equal(o.Tables, b.Tables) &&
		o.Domain == b.Domain && o.Margin == b.Margin && o.Ground == b.Ground
}

// sharing returns the indices of the outputs in groups: outputs of different groups share no work.
func (c *compiler) sharing(outs []*Output) [][]int {
	group := make([]int, len(outs)) // an output of the same group that is not after this one
	first := func(i int) int {
		for group[i] != i {
			i = group[i]
		}
		return i
	}
	user := make([]int, len(c.nodes)) // 1 + an output that a node belongs to
	var visit func(id, out int)
	visit = func(id, out int) {
		n := &c.nodes[id]
		if !n.isWork() {
			return
		}
		if user[id] > 0 {
			a, b := first(user[id]-1), first(out)
			group[max(a, b)] = min(a, b)
			return
		}
		user[id] = out + 1
		for _, a := range n.args {
			visit(a, out)
		}
		if c.isResult(id) {
			visit(c.focals[n.ref].value, out)
			visit(c.focals[n.ref].mask, out)
		}
	}
	for i, o := range outs {
		group[i] = i
		for _, r := range o.roots {
			visit(r.value, i)
			visit(r.mask, i)
		}
	}
	var groups [][]int
	at := make([]int, len(outs)) // of a group in groups, by its first output
	for i := range outs {
		if group[i] == i {
			at[i] = len(groups)
			groups = append(groups, nil)
		}
		k := at[first(i)]
		groups[k] = append(groups[k], i)
	}
	return groups
}

// isWork reports whether a node takes enough time to be worth sharing. Outputs that only read the
// same bands stay apart: together they need more memory at once.
func (n *node) isWork() bool {
	switch n.op {
	case opNone, opConst, opLoad, opLoadMask:
		return false
	case opPlace:
		return n.ref >= firstGeodetic
	}
	return true
}
