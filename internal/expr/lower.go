package expr

import "leat/ndarray"

// instr is one vector operation on registers.
type instr struct {
	run      runner
	op       op
	dst      int
	args     []int // registers of the operands; run knows their kinds
	k        float64
	ref      int
	root     *root
	narrow   bool // an operation of float32 registers
	constant bool // the operand without a register is k
	// items of a reduction: args[:items] are its values, args[items:] their masks.
	items int
}

// root is an output band of the graph.
type root struct {
	value, mask int
	reg         regKind
	output      int // number of its output among those of the program
	band        int // of its output
	at          int // its number among the bands of all outputs
	out         *output
	nan         bool
	direct      bool // computed in the output's memory
	typ         typ
	plane       bool // the operand of a focal function
}

// builder turns the graph into instructions.
type builder struct {
	*graph
	roots    []root
	p        *Program
	order    []int  // nodes in the order of computation; -1-i is the store of root i
	last     []int  // position in order of the last use of a node
	register []int  // register of a node; -1 while it has none
	fixed    []bool // the register is a constant, or memory of an input or output: never reused
	free     [4][]int
	refOf    []int       // index of a band among the program's refs
	direct   map[int]int // band among those of all outputs of nodes that are computed in its memory
	raw      []bool      // nodes that read pixels of bands as they are
	unused   []bool      // loads of bands that only such nodes read
	planeOf  []int       // plane of the result of a focal call
}

// usedRefs returns those of n bands that the programs read, in order of first appearance.
func usedRefs(programs []*builder, n int) []int {
	used := make([]bool, n)
	for _, b := range programs {
		b.schedule()
		for _, id := range b.order {
			if id >= 0 && (b.nodes[id].op == opLoad || b.nodes[id].op == opLoadMask) {
				used[b.nodes[id].ref] = true
			}
		}
	}
	var out []int
	refOf := make([]int, n)
	for i, u := range used {
		if u {
			refOf[i] = len(out)
			out = append(out, i)
		}
	}
	for _, b := range programs {
		b.refOf = refOf
	}
	return out
}

// schedule orders the nodes that the roots need: operands first, and each band's nodes just before
// its store.
func (b *builder) schedule() {
	seen := make([]bool, len(b.nodes))
	seen[0] = true
	var visit func(id int)
	visit = func(id int) {
		if seen[id] {
			return
		}
		seen[id] = true
		for _, a := range b.nodes[id].args {
			visit(a)
		}
		b.order = append(b.order, id)
	}
	b.last = make([]int, len(b.nodes))
	for i, r := range b.roots {
		visit(r.value)
		visit(r.mask)
		b.order = append(b.order, -1-i)
	}
	for at, id := range b.order {
		if id < 0 {
			b.last[b.roots[-1-id].value] = at
			continue
		}
		for _, a := range b.nodes[id].args {
			b.last[a] = at
		}
	}
}

// lower emits the instructions. It gives each node a register and reuses those of values no longer
// needed, except the registers of masks, whose memory other masks may share.
func (b *builder) lower(p *Program) {
	b.p = p
	b.register = make([]int, len(b.nodes))
	b.fixed = make([]bool, len(b.nodes))
	for i := range b.register {
		b.register[i] = -1
	}
	p.regs[regMask] = 1
	b.register[0] = 0 // never bound: always valid
	b.findDirect()
	b.findRaw()
	for at, id := range b.order {
		if id < 0 {
			b.emitStore(&b.roots[-1-id])
			b.release(at, b.roots[-1-id].value)
			continue
		}
		// operand places a constant where an instruction needs it as a vector.
		if b.nodes[id].op != opConst && !b.unused[id] {
			b.emit(at, id)
		}
	}
	p.joinSteps()
}

// findDirect selects the roots that can be computed in the output's own memory. Their store, which
// replaces invalid pixels, is the last use of their value.
func (b *builder) findDirect() {
	b.direct = map[int]int{}
	for at, id := range b.order {
		if id >= 0 {
			continue
		}
		r := &b.roots[-1-id]
		n := b.nodes[r.value]
		r.reg = n.reg
		same := n.reg == reg32 && r.out.typ == ndarray.Float32 || n.reg == reg64 && r.out.typ == ndarray.Float64
		if b.last[r.value] == at && same && !r.out.scaled && n.op != opConst && !b.isAlias(r.value) {
			b.direct[r.value] = r.at
			r.direct = true
		}
	}
}

// findRaw selects the statistics that sort pixels without a conversion, and the bands that no other
// node reads.
func (b *builder) findRaw() {
	b.raw, b.unused = make([]bool, len(b.nodes)), make([]bool, len(b.nodes))
	uses, raw := make([]int, len(b.nodes)), make([]int, len(b.nodes))
	for _, id := range b.order {
		if id < 0 {
			uses[b.roots[-1-id].value]++
			continue
		}
		for _, a := range b.nodes[id].args {
			uses[a]++
		}
		if b.raw[id] = b.sortsPixels(&b.nodes[id]); b.raw[id] {
			for _, a := range b.nodes[id].args[:len(b.nodes[id].args)/2] {
				raw[a]++
			}
		}
	}
	for id := range b.nodes {
		b.unused[id] = raw[id] > 0 && raw[id] == uses[id]
	}
}

// sortsPixels reports whether a node is a median or a quantile of integer bands of 16 bits.
func (b *builder) sortsPixels(n *node) bool {
	items := len(n.args) / 2
	if n.op != opRedMedian && n.op != opRedQuantile || n.reg != reg32 || items > maxNetwork {
		return false
	}
	var first *Band
	for _, a := range n.args[:items] {
		if b.nodes[a].op != opLoad {
			return false
		}
		band := &b.p.bandOf[b.refOf[b.nodes[a].ref]]
		if first == nil {
			first = band
		}
		if !band.raw() || band.Type != first.Type || band.Type != ndarray.Uint16 && band.Type != ndarray.Int16 {
			return false
		}
	}
	return true
}

// isAlias reports whether a node's value is the memory of a band or of a focal function's result.
func (b *builder) isAlias(id int) bool {
	n := &b.nodes[id]
	if n.op != opLoad {
		return n.op == opFocal
	}
	band := &b.p.bandOf[b.refOf[n.ref]]
	return band.raw() && band.Type.IsFloat()
}

// operand returns the register of a node. It fills one in advance for a constant.
func (b *builder) operand(id int) int {
	n := &b.nodes[id]
	if n.op == opConst && b.register[id] < 0 {
		b.register[id] = b.fresh(n.reg)
		b.fixed[id] = true
		b.p.constants = append(b.p.constants, constant{n.reg, b.register[id], n.k})
	}
	return b.register[id]
}

func (b *builder) fresh(r regKind) int {
	b.p.regs[r]++
	return b.p.regs[r] - 1
}

// allocate gives the node a register.
func (b *builder) allocate(id int) int {
	r := b.nodes[id].reg
	if at, ok := b.direct[id]; ok {
		b.register[id], b.fixed[id] = b.fresh(r), true
		b.p.bindings = append(b.p.bindings, binding{r, b.register[id], at})
		return b.register[id]
	}
	if free := b.free[r]; len(free) > 0 && r != regMask {
		b.free[r] = free[:len(free)-1]
		b.register[id] = free[len(free)-1]
	} else {
		b.register[id] = b.fresh(r)
	}
	return b.register[id]
}

// release frees the registers of nodes that are not used after position at.
func (b *builder) release(at int, ids ...int) {
	for _, id := range ids {
		r := b.nodes[id].reg
		if r == regMask || b.fixed[id] || b.last[id] != at || b.register[id] < 0 {
			continue
		}
		b.free[r] = append(b.free[r], b.register[id])
		b.register[id] = -1
	}
}

// emit appends the instruction of a node.
func (b *builder) emit(at, id int) {
	n := &b.nodes[id]
	in := instr{op: n.op, k: n.k, ref: -1, narrow: n.reg == reg32}
	if n.op == opLoad || n.op == opLoadMask {
		in.ref = b.refOf[n.ref]
	}
	var src regKind
	if len(n.args) > 0 {
		src = b.nodes[n.args[0]].reg
	}
	args := n.args
	if n.op >= opAdd && n.op <= opHypot && n.op != opPowInt || n.op >= opLt && n.op <= opOr {
		args = b.choose(&in, n, src)
	} else {
		in.select1(n.reg, src)
	}
	for i, a := range args {
		if b.raw[id] && i < len(args)/2 {
			in.args = append(in.args, b.refOf[b.nodes[a].ref])
		} else {
			in.args = append(in.args, b.operand(a))
		}
	}
	switch {
	case b.isAlias(id):
		in.dst = b.fresh(n.reg)
		b.register[id], b.fixed[id] = in.dst, true
		in.run = byClass(n.reg, alias[float32], alias[float64])
		if n.op == opFocal {
			in.ref = b.planeOf[n.ref]
			in.run = byClass(n.reg, aliasPlane[float32], aliasPlane[float64])
		}
	case n.op >= opRedMin && n.op <= opRedCount:
		// Reductions read their operands several times, so the result must not overwrite any of
		// them.
		in.dst = b.allocate(id)
		b.release(at, n.args...)
	default:
		b.release(at, n.args...)
		in.dst = b.allocate(id)
	}
	if n.op == opLoad && in.run == nil {
		band := &b.p.bandOf[in.ref]
		in.run = loaders[band.Type](band, n.reg)
	}
	if n.op >= opTableRow && n.op <= opTableMask {
		in.run = tableKernel(n.op, n.reg, src, b.lookups[n.ref])
	}
	if n.op == opFocalMask {
		in.ref = b.planeOf[n.ref]
		in.run = planeMask
	}
	if n.op == opPlace {
		in.run = placeKernel(n.ref, n.reg)
	}
	if n.op == opLoadMask {
		band := &b.p.bandOf[in.ref]
		in.run = maskers[band.Type](band)
	}
	if n.op >= opRedMin && n.op <= opRedCount {
		in.items = len(n.args) / 2
		if n.op == opRedCount {
			in.items = 0
		}
		switch {
		case n.op == opRedTrend || n.op == opRedIntercept || n.op == opRedR2:
			in.run = lineKernel(n.reg, in.items, b.line(n.ref))
		case b.raw[id]:
			in.run = rawRankKernel(b.p.bandOf[in.args[0]].Type, in.items, statisticOf(n.op, in.items, n.k))
		default:
			in.run = reduceKernel(n.op, n.reg, in.items, n.k)
		}
	}
	if in.run == nil {
		panic("expr: no kernel for operation")
	}
	b.p.code = append(b.p.code, in)
}

// choose selects the kernel of an operation with two operands and returns the operands that it
// takes as vectors.
func (b *builder) choose(in *instr, n *node, src regKind) []int {
	x, y := &b.nodes[n.args[0]], &b.nodes[n.args[1]]
	k, side := 0.0, 0
	switch {
	case y.op == opConst && x.op != opConst:
		k, side = y.k, 1
	case x.op == opConst && y.op != opConst:
		k, side = x.k, -1
	}
	if !in.select2(n.reg, src, side, k) {
		return n.args
	}
	in.k, in.constant = k, true
	if side > 0 {
		return n.args[:1]
	}
	return n.args[1:]
}

func (b *builder) emitStore(r *root) {
	in := instr{op: opNone, root: r, args: []int{b.operand(r.value), b.register[r.mask]}}
	if in.run = storeKernel(r.out, r); r.plane {
		in.run = byClass(r.reg, storePlane[float32], storePlane[float64])
	}
	b.p.code = append(b.p.code, in)
}
