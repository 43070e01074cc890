package expr

// A polynomial by Horner's rule compiles to products with a vector and sums with a constant, in
// turn, all in one register. joinSteps makes one instruction of them, which keeps the values in the
// processor's registers. Each product and each sum is rounded, as by the separate instructions.

// isProduct reports whether the instruction multiplies its register by another one.
func (in *instr) isProduct() bool {
	return in.op == opMul && in.narrow && len(in.args) == 2 && (in.args[0] == in.dst) != (in.args[1] == in.dst)
}

// addsTo reports whether the instruction adds a constant to a register.
func (in *instr) addsTo(register int) bool {
	return in.op == opAdd && in.narrow && in.constant && in.args[0] == register && in.dst == register
}

// factor returns the other operand of a product.
func (in *instr) factor() int {
	if in.args[0] == in.dst {
		return in.args[1]
	}
	return in.args[0]
}

// joinSteps joins instructions that multiply a float32 register by another one and add a constant.
func (p *Program) joinSteps() {
	var code []instr
	for i := 0; i < len(p.code); i++ {
		in := p.code[i]
		if !in.isProduct() {
			code = append(code, in)
			continue
		}
		factor := in.factor()
		var constants []float32
		next := i
		for next+1 < len(p.code) {
			product, sum := &p.code[next], &p.code[next+1]
			if !product.isProduct() || product.dst != in.dst || product.factor() != factor || !sum.addsTo(in.dst) {
				break
			}
			constants = append(constants, float32(sum.k))
			next += 2
		}
		if len(constants) > 1 {
			in.run = func(ev *Evaluator, in *instr, n int) { polynomial(ev.r32[in.dst][:n], ev.r32[factor], constants) }
			i = next - 1
		}
		code = append(code, in)
	}
	p.code = code
}

// polynomial replaces each d by d*x + k for each constant in turn.
func polynomial(d, x, constants []float32) {
	x = x[:len(d)]
	for i := hornerFast(d, x, constants); i < len(d); i++ {
		v := d[i]
		for _, k := range constants {
			v = float32(v*x[i]) + k
		}
		d[i] = v
	}
}
