package expr

import (
	"slices"

	"leat/block"
	"leat/internal/expr/internal/focal"
	"leat/ndarray"
)

// focalPlan computes the results of a program's focal calls before the program itself runs.
type focalPlan struct {
	steps  []focalStep
	planes []planeSpec
	slots  []planeSpec // the type and the largest margin of the planes in each slot
	margin int         // pixels around a window that the steps read
	domain block.Window
	fold   block.Margin
}

// focalStep computes one plane: the operand of calls by a program, or the result of a call.
type focalStep struct {
	plane   int
	program *Program   // of an operand
	call    *focalNode // of a result
	source  int        // plane of its operand
}

// planeSpec describes the pixels of an operand or a result around a window.
type planeSpec struct {
	reg           regKind
	rows, columns int // of its margin
	slot          int // of its memory
}

func (s *planeSpec) bytes(columns, rows int) int64 {
	size := int64(5) // with the validity
	if s.reg == reg64 {
		size = 9
	}
	return int64(columns+2*s.columns) * int64(rows+2*s.rows) * size
}

// focalCalls are the calls that a program needs, in an order in which they can be computed.
type focalCalls struct {
	calls    []int      // numbers in compiler.focals
	operands []*builder // each of one or more calls
	of       []int      // operand of each call
}

// neededCalls returns the focal calls that the results in main depend on.
func (c *compiler) neededCalls(main *builder) *focalCalls {
	f := &focalCalls{}
	needed := make([]bool, len(c.focals))
	seen := make([]bool, len(c.nodes))
	var visit func(id int)
	visit = func(id int) {
		if seen[id] {
			return
		}
		seen[id] = true
		n := &c.nodes[id]
		for _, a := range n.args {
			visit(a)
		}
		if c.isResult(id) {
			needed[n.ref] = true
		}
	}
	for _, r := range main.roots {
		visit(r.value)
		visit(r.mask)
	}
	for i := len(c.focals) - 1; i >= 0; i-- {
		if needed[i] {
			visit(c.focals[i].value)
			visit(c.focals[i].mask)
		}
	}
	operands := map[[2]int]int{}
	for i := range c.focals {
		if !needed[i] {
			continue
		}
		call := &c.focals[i]
		key := [2]int{call.value, call.mask}
		at, known := operands[key]
		if !known {
			at = len(f.operands)
			operands[key] = at
			f.operands = append(f.operands, &builder{graph: c.graph,
				roots: []root{{value: call.value, mask: call.mask, plane: true}}})
		}
		f.calls = append(f.calls, i)
		f.of = append(f.of, at)
	}
	return f
}

// isResult reports whether a node is the result of a focal call.
func (c *compiler) isResult(id int) bool {
	return c.nodes[id].op == opFocal || c.nodes[id].op == opFocalMask
}

// planFocal plans the steps that compute the calls, whose operands have been scheduled.
func (c *compiler) planFocal(p *Program, f *focalCalls, main *builder) {
	if len(f.calls) == 0 {
		return
	}
	plan := &focalPlan{domain: c.domain, fold: c.margin}
	p.focal = plan
	// The planes are those of the operands, followed by those of the results.
	operands := len(f.operands)
	planeOf := make([]int, len(c.focals))
	plan.planes = make([]planeSpec, operands+len(f.calls))
	for i, call := range f.calls {
		planeOf[call] = operands + i
	}
	// Later calls determine what earlier ones have to cover.
	widen := func(b *builder, s planeSpec) {
		for _, id := range b.order {
			if id < 0 || !c.isResult(id) {
				continue
			}
			r := &plan.planes[planeOf[c.nodes[id].ref]]
			r.rows, r.columns = max(r.rows, s.rows), max(r.columns, s.columns)
		}
	}
	widen(main, planeSpec{})
	for i := len(f.calls) - 1; i >= 0; i-- {
		call, r, o := &c.focals[f.calls[i]], &plan.planes[operands+i], &plan.planes[f.of[i]]
		r.reg, o.reg = call.reg, call.reg
		o.rows, o.columns = max(o.rows, r.rows+call.rows), max(o.columns, r.columns+call.columns)
		widen(f.operands[f.of[i]], *o)
	}
	for _, s := range plan.planes {
		plan.margin = max(plan.margin, s.rows, s.columns)
	}
	computed := make([]bool, operands)
	for i := range f.calls {
		if o := f.of[i]; !computed[o] {
			computed[o] = true
			b := f.operands[o]
			only := &Output{text: p.text, bands: 1, out: output{typ: ndarray.Float32}}
			if plan.planes[o].reg == reg64 {
				only.out.typ = ndarray.Float64
			}
			sub := &Program{Output: only, outputs: []*Output{only}, sizes: []int{only.out.typ.Size()}, refs: p.refs,
				refNames: p.refNames, bandOf: p.bandOf, placed: p.placed}
			b.roots[0].out = &only.out
			b.planeOf = planeOf
			b.lower(sub)
			plan.steps = append(plan.steps, focalStep{plane: o, program: sub})
		}
		plan.steps = append(plan.steps, focalStep{plane: operands + i, call: &c.focals[f.calls[i]],
			source: f.of[i]})
	}
	main.planeOf = planeOf
	plan.assignSlots(func(step, plane int) bool { return c.usesPlane(plan, f, main, planeOf, step, plane) })
}

// usesPlane reports whether a step reads a plane. The step after the last one is the program's.
func (c *compiler) usesPlane(plan *focalPlan, f *focalCalls, main *builder, planeOf []int, step, plane int) bool {
	b := main
	if step < len(plan.steps) {
		s := &plan.steps[step]
		if s.program == nil {
			return s.source == plane
		}
		b = f.operands[s.plane]
	}
	return slices.ContainsFunc(b.order, func(id int) bool {
		return id >= 0 && c.isResult(id) && planeOf[c.nodes[id].ref] == plane
	})
}

// assignSlots assigns memory to planes: a later plane of the same type takes over a slot after its
// last use.
func (plan *focalPlan) assignSlots(uses func(step, plane int) bool) {
	last := make([]int, len(plan.planes))
	for plane := range plan.planes {
		for step := range len(plan.steps) + 1 {
			if uses(step, plane) {
				last[plane] = step
			}
		}
	}
	until := []int{} // the last use of the plane in a slot
	for at, s := range plan.steps {
		spec := &plan.planes[s.plane]
		slot := 0
		for slot < len(until) && (until[slot] >= at || plan.slots[slot].reg != spec.reg) {
			slot++
		}
		if slot == len(until) {
			until = append(until, 0)
			plan.slots = append(plan.slots, planeSpec{reg: spec.reg})
		}
		spec.slot, until[slot] = slot, last[s.plane]
		m := &plan.slots[slot]
		m.rows, m.columns = max(m.rows, spec.rows), max(m.columns, spec.columns)
	}
}

// stripBytes is the memory of planes to aim for: they should stay in a core's cache.
const stripBytes = 1 << 20

// stripRows returns how many rows of a window are computed at a time. Strips of few rows would
// repeat much of the margin.
func (plan *focalPlan) stripRows(columns, rows int) int {
	var perRow int64
	least := 16
	for i := range plan.slots {
		perRow += plan.slots[i].bytes(columns, 1) / int64(1+2*plan.slots[i].rows)
		least = max(least, 8*plan.slots[i].rows)
	}
	return min(rows, max(least, int(stripBytes/max(perRow, 1))))
}

// Margin returns how many pixels around a window EvalWindow reads, on each side.
func (p *Program) Margin() int {
	if p.focal == nil {
		return 0
	}
	return p.focal.margin
}

// Placed reports whether the program uses coordinates.
func (p *Program) Placed() bool { return p.placed }

// Focal reports whether the program has focal functions, so that only EvalWindow computes it.
func (p *Program) Focal() bool { return p.focal != nil }

// ScratchBytes returns an upper bound on an evaluator's memory for the focal functions of windows
// of up to this size.
func (p *Program) ScratchBytes(columns, rows int) int64 {
	if p.focal == nil {
		return 0
	}
	strip := p.focal.stripRows(columns, rows)
	var bytes, most int64
	for i := range p.focal.slots {
		bytes += p.focal.slots[i].bytes(columns, strip)
	}
	for _, s := range p.focal.steps {
		if s.call != nil {
			spec := &p.focal.planes[s.plane]
			most = max(most, focal.ScratchBytes(strip+2*spec.rows, columns+2*spec.columns, s.call.footprint))
		}
	}
	return bytes + most
}
