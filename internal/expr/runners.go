package expr

import (
	"bytes"
	"encoding/binary"
)

type runner = func(ev *Evaluator, in *instr, n int)

// vectors returns the registers of a class.
func vectors[T real](ev *Evaluator) [][]T {
	if r, ok := any(&ev.r32).(*[][]T); ok {
		return *r
	}
	return *any(&ev.r64).(*[][]T)
}

// byClass returns the runner for registers of float32 or float64.
func byClass(r regKind, narrow, wide runner) runner {
	if r == reg64 {
		return wide
	}
	return narrow
}

// select2 sets the kernel of an operation with two operands. side is 1 for a constant k on the
// right, -1 for one on the left, else 0. It reports whether the kernel takes the constant.
func (in *instr) select2(reg, src regKind, side int, k float64) (constant bool) {
	switch {
	case in.op == opAnd:
		in.run = runAnd
	case in.op == opOr:
		in.run = runOr
	case reg == regBool && src == reg32:
		in.run, constant = compare2[float32](in.op, side, k)
	case reg == regBool:
		in.run, constant = compare2[float64](in.op, side, k)
	case reg == reg32:
		in.run, constant = arith2[float32](in.op, side, k)
	default:
		in.run, constant = arith2[float64](in.op, side, k)
	}
	return constant
}

func arith2[T real](o op, side int, k float64) (run runner, constant bool) {
	table := kernelsOf[T]()
	vv, vk := table.vv[o], table.vk[o]
	if side < 0 {
		vk = table.kv[o]
	}
	if side != 0 && vk != nil {
		k := T(k)
		return func(ev *Evaluator, in *instr, n int) {
			r := vectors[T](ev)
			vk(r[in.dst][:n], r[in.args[0]], k)
		}, true
	}
	return func(ev *Evaluator, in *instr, n int) {
		r := vectors[T](ev)
		vv(r[in.dst][:n], r[in.args[0]], r[in.args[1]])
	}, false
}

func compare2[T real](o op, side int, k float64) (run runner, constant bool) {
	table := kernelsOf[T]()
	if side < 0 {
		o = mirrored[o]
	}
	if side != 0 {
		f, k := table.compareK[o], T(k)
		return func(ev *Evaluator, in *instr, n int) {
			f(ev.rb[in.dst][:n], vectors[T](ev)[in.args[0]], k)
		}, true
	}
	f := table.compare[o]
	return func(ev *Evaluator, in *instr, n int) {
		r := vectors[T](ev)
		f(ev.rb[in.dst][:n], r[in.args[0]], r[in.args[1]])
	}, false
}

// runners holds the runners of operations whose operands have one kind.
var runners = map[op]runner{opTo32: runTo32, opTo64: runTo64, opNumber: runNumber, opNot: runNot, opInvalid: runInvalid,
	opMaskAnd: maskAnd, opMaskOr: maskOr, opMaskWhere: maskWhere, opMaskNone: maskNone}

// select1 sets the kernel of all operations but those of select2, loads and reductions.
func (in *instr) select1(reg, src regKind) {
	switch in.op {
	case opTruth:
		in.run = byClass(src, truth[float32], truth[float64])
	case opWhere:
		in.run = [...]runner{reg32: runWhere[float32], reg64: runWhere[float64], regBool: whereBool}[reg]
	case opPick:
		in.run = [...]runner{reg32: pick[float32], reg64: pick[float64], regBool: pickBool}[reg]
	case opMaskNaN:
		in.run = byClass(src, maskNaN[float32], maskNaN[float64])
	case opPowInt:
		in.run = byClass(reg, runPowInt[float32], runPowInt[float64])
	default:
		if in.run = runners[in.op]; in.run == nil && kernels32.v[in.op] != nil {
			in.run = byClass(reg, unary[float32], unary[float64])
		}
	}
}

func unary[T real](ev *Evaluator, in *instr, n int) {
	r := vectors[T](ev)
	kernelsOf[T]().v[in.op](r[in.dst][:n], r[in.args[0]])
}

func runTo32(ev *Evaluator, in *instr, n int) { narrowTo32(ev.r32[in.dst][:n], ev.r64[in.args[0]]) }
func runTo64(ev *Evaluator, in *instr, n int) { widenTo64(ev.r64[in.dst][:n], ev.r32[in.args[0]]) }

func narrowTo32(d []float32, a []float64) {
	a = a[:len(d)]
	for i := to32Fast(d, a); i < len(d); i++ {
		d[i] = float32(a[i])
	}
}

func widenTo64(d []float64, a []float32) {
	a = a[:len(d)]
	for i := to64Fast(d, a); i < len(d); i++ {
		d[i] = float64(a[i])
	}
}

func runNumber(ev *Evaluator, in *instr, n int) {
	d, a := ev.r32[in.dst][:n], ev.rb[in.args[0]][:n]
	for i := range d {
		d[i] = float32(a[i])
	}
}

func truth[T real](ev *Evaluator, in *instr, n int) {
	notEqualK(ev.rb[in.dst][:n], vectors[T](ev)[in.args[0]], 0)
}

func runAnd(ev *Evaluator, in *instr, n int) {
	andBytes(ev.rb[in.dst][:n], ev.rb[in.args[0]], ev.rb[in.args[1]])
}

func runOr(ev *Evaluator, in *instr, n int) {
	orBytes(ev.rb[in.dst][:n], ev.rb[in.args[0]], ev.rb[in.args[1]])
}

func runNot(ev *Evaluator, in *instr, n int) { notBytes(ev.rb[in.dst][:n], ev.rb[in.args[0]]) }

func runWhere[T real](ev *Evaluator, in *instr, n int) {
	r := vectors[T](ev)
	whereFloat(r[in.dst][:n], ev.rb[in.args[0]], r[in.args[1]], r[in.args[2]])
}

func whereBool(ev *Evaluator, in *instr, n int) {
	whereBytes(ev.rb[in.dst][:n], ev.rb[in.args[0]], ev.rb[in.args[1]], ev.rb[in.args[2]])
}

func pick[T real](ev *Evaluator, in *instr, n int) {
	r := vectors[T](ev)
	d, m := r[in.dst][:n], ev.masks[in.args[0]]
	if m == nil {
		copy(d, r[in.args[1]])
		return
	}
	whereFloat(d, m, r[in.args[1]], r[in.args[2]])
}

func pickBool(ev *Evaluator, in *instr, n int) {
	d, m := ev.rb[in.dst][:n], ev.masks[in.args[0]]
	if m == nil {
		copy(d, ev.rb[in.args[1]])
		return
	}
	whereBytes(d, m, ev.rb[in.args[1]], ev.rb[in.args[2]])
}

func runPowInt[T real](ev *Evaluator, in *instr, n int) {
	r, f := vectors[T](ev), powInt
	if isFloat32[T]() {
		f = powInt32
	}
	d, a := r[in.dst][:n], r[in.args[0]][:n]
	for i := range d {
		d[i] = T(f(float64(a[i]), int(in.k)))
	}
}

func runInvalid(ev *Evaluator, in *instr, n int) {
	d, m := ev.rb[in.dst][:n], ev.masks[in.args[0]]
	if m == nil {
		clear(d)
		return
	}
	notBytes(d, m)
}

// maskBuffer returns memory for the mask that the instruction computes. It belongs to that mask
// alone, since other masks may share memory that is bound to them.
func (ev *Evaluator) maskBuffer(in *instr, n int) []byte {
	if ev.maskMem[in.dst] == nil {
		ev.maskMem[in.dst] = make([]byte, chunk)
	}
	ev.masks[in.dst] = ev.maskMem[in.dst][:n]
	return ev.masks[in.dst]
}

func maskAnd(ev *Evaluator, in *instr, n int) {
	var first []byte
	var d []byte
	for _, r := range in.args {
		m := ev.masks[r]
		switch {
		case m == nil:
		case first == nil:
			first = m
		case d == nil:
			d = ev.maskBuffer(in, n)
			andBytes(d, first, m)
		default:
			andBytes(d, d, m)
		}
	}
	if d == nil {
		ev.masks[in.dst] = first
	}
}

func maskOr(ev *Evaluator, in *instr, n int) {
	for _, r := range in.args {
		if ev.masks[r] == nil {
			ev.masks[in.dst] = nil
			return
		}
	}
	d := ev.maskBuffer(in, n)
	copy(d, ev.masks[in.args[0]])
	for _, r := range in.args[1:] {
		orBytes(d, d, ev.masks[r])
	}
}

// andBytes computes d = a and b, eight bytes at a time.
func andBytes(d, a, b []byte) {
	i := 0
	for ; i+8 <= len(d); i += 8 {
		binary.NativeEndian.PutUint64(d[i:], binary.NativeEndian.Uint64(a[i:])&binary.NativeEndian.Uint64(b[i:]))
	}
	for ; i < len(d); i++ {
		d[i] = a[i] & b[i]
	}
}

// orBytes is andBytes for a or b.
func orBytes(d, a, b []byte) {
	a, b = a[:len(d)], b[:len(d)]
	i := 0
	for ; i+8 <= len(d); i += 8 {
		binary.NativeEndian.PutUint64(d[i:], binary.NativeEndian.Uint64(a[i:])|binary.NativeEndian.Uint64(b[i:]))
	}
	for ; i < len(d); i++ {
		d[i] = a[i] | b[i]
	}
}

// notBytes exchanges zeros and ones, eight at a time.
func notBytes(d, a []byte) {
	a = a[:len(d)]
	i := 0
	for ; i+8 <= len(d); i += 8 {
		binary.NativeEndian.PutUint64(d[i:], binary.NativeEndian.Uint64(a[i:])^0x0101010101010101)
	}
	for ; i < len(d); i++ {
		d[i] = a[i] ^ 1
	}
}

func maskNaN[T real](ev *Evaluator, in *instr, n int) {
	a := vectors[T](ev)[in.args[0]][:n]
	if !hasNot(a) {
		ev.masks[in.dst] = nil
		return
	}
	d := ev.maskBuffer(in, n)
	for i := range d {
		d[i] = one(a[i] == a[i])
	}
}

// allValid replaces a nil mask.
var allValid = bytes.Repeat([]byte{1}, chunk)

func maskWhere(ev *Evaluator, in *instr, n int) {
	mc, ma, mb := ev.masks[in.args[1]], ev.masks[in.args[2]], ev.masks[in.args[3]]
	if ma == nil && mb == nil {
		ev.masks[in.dst] = mc
		return
	}
	if ma == nil {
		ma = allValid
	}
	if mb == nil {
		mb = allValid
	}
	d := ev.maskBuffer(in, n)
	whereBytes(d, ev.rb[in.args[0]], ma, mb)
	if mc != nil {
		andBytes(d, d, mc)
	}
}

func maskNone(ev *Evaluator, in *instr, n int) { clear(ev.maskBuffer(in, n)) }
