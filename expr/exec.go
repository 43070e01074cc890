package expr

import (
	"bytes"
	"encoding/binary"
)

// select2 sets the kernel of an operation with two operands. side is 1 for a constant on the right,
// -1 for one on the left, else 0. It reports whether the kernel takes the constant.
func (in *instr) select2(reg, src regKind, side int) bool {
	switch {
	case in.op == opAnd:
		in.run = runAnd
		return false
	case in.op == opOr:
		in.run = runOr
		return false
	case reg == regBool:
		if src == reg32 {
			return compare2(in, &in.f32, side, compare32, compareK32)
		}
		return compare2(in, &in.f64, side, compare64, compareK64)
	case reg == reg32:
		return arith2(in, &in.f32, side, fastVV32, fastVK32, binary32, binaryK32)
	}
	return arith2(in, &in.f64, side, fastVV64, fastVK64, binary64, binaryK64)
}

type runner = func(ev *Evaluator, in *instr, n int)

func arith2[T real](in *instr, k *kernel[T], side int, fastVV func(op) func(d, a, b []T),
	fastVK func(op, int) func(d, a []T, k T), vectors, constant runner) bool {
	if side != 0 {
		if k.vk = fastVK(in.op, side); k.vk == nil {
			k.vk = kernelVK[T](in.op, side)
		}
		if k.vk != nil {
			in.run = constant
			return true
		}
	}
	if k.vv = fastVV(in.op); k.vv == nil {
		k.vv = kernelVV[T](in.op)
	}
	in.run = vectors
	return false
}

func compare2[T real](in *instr, k *kernel[T], side int, vectors, constant runner) bool {
	if side != 0 {
		o := in.op
		if side < 0 {
			o = mirrored[o]
		}
		k.ck = comparisonK[T](o)
		in.run = constant
		return true
	}
	k.c, k.swap = comparison[T](in.op)
	in.run = vectors
	return false
}

// select1 sets the kernel of all operations but those of select2, loads and reductions.
func (in *instr) select1(reg, src regKind) {
	switch in.op {
	case opTo32:
		in.run = runTo32
	case opTo64:
		in.run = runTo64
	case opNumber:
		in.run = runNumber
	case opTruth:
		in.run = runTruth32
		if src == reg64 {
			in.run = runTruth64
		}
	case opNot:
		in.run = runNot
	case opWhere:
		in.run = [...]runner{reg32: where32, reg64: where64, regBool: whereBool}[reg]
	case opPick:
		in.run = [...]runner{reg32: pick32, reg64: pick64, regBool: pickBool}[reg]
	case opInvalid:
		in.run = runInvalid
	case opMaskAnd:
		in.run = maskAnd
	case opMaskOr:
		in.run = maskOr
	case opMaskNaN:
		in.run = maskNaN32
		if src == reg64 {
			in.run = maskNaN64
		}
	case opMaskWhere:
		in.run = maskWhere
	case opMaskNone:
		in.run = maskNone
	case opPowInt:
		in.run = runPowInt32
		if reg == reg64 {
			in.run = runPowInt64
		}
	default:
		if in.f32.v = kernelV[float32](in.op); in.f32.v != nil {
			in.f64.v = kernelV[float64](in.op)
			in.run = unary32
			if reg == reg64 {
				in.run = unary64
			}
		}
	}
}

func binary32(ev *Evaluator, in *instr, n int) {
	in.f32.vv(ev.r32[in.dst][:n], ev.r32[in.args[0]], ev.r32[in.args[1]])
}

func binary64(ev *Evaluator, in *instr, n int) {
	in.f64.vv(ev.r64[in.dst][:n], ev.r64[in.args[0]], ev.r64[in.args[1]])
}

func binaryK32(ev *Evaluator, in *instr, n int) {
	in.f32.vk(ev.r32[in.dst][:n], ev.r32[in.args[0]], in.k32)
}

func binaryK64(ev *Evaluator, in *instr, n int) {
	in.f64.vk(ev.r64[in.dst][:n], ev.r64[in.args[0]], in.k)
}

func unary32(ev *Evaluator, in *instr, n int) {
	in.f32.v(ev.r32[in.dst][:n], ev.r32[in.args[0]])
}

func unary64(ev *Evaluator, in *instr, n int) {
	in.f64.v(ev.r64[in.dst][:n], ev.r64[in.args[0]])
}

func compare32(ev *Evaluator, in *instr, n int) {
	a, b := ev.r32[in.args[0]], ev.r32[in.args[1]]
	if in.f32.swap {
		a, b = b, a
	}
	in.f32.c(ev.rb[in.dst][:n], a, b)
}

func compare64(ev *Evaluator, in *instr, n int) {
	a, b := ev.r64[in.args[0]], ev.r64[in.args[1]]
	if in.f64.swap {
		a, b = b, a
	}
	in.f64.c(ev.rb[in.dst][:n], a, b)
}

func compareK32(ev *Evaluator, in *instr, n int) {
	in.f32.ck(ev.rb[in.dst][:n], ev.r32[in.args[0]], in.k32)
}

func compareK64(ev *Evaluator, in *instr, n int) {
	in.f64.ck(ev.rb[in.dst][:n], ev.r64[in.args[0]], in.k)
}

func runTo32(ev *Evaluator, in *instr, n int) {
	d, a := ev.r32[in.dst][:n], ev.r64[in.args[0]][:n]
	for i := to32Fast(d, a); i < n; i++ {
		d[i] = float32(a[i])
	}
}

func runTo64(ev *Evaluator, in *instr, n int) {
	d, a := ev.r64[in.dst][:n], ev.r32[in.args[0]][:n]
	for i := to64Fast(d, a); i < n; i++ {
		d[i] = float64(a[i])
	}
}

func runNumber(ev *Evaluator, in *instr, n int) {
	d, a := ev.r32[in.dst][:n], ev.rb[in.args[0]][:n]
	for i := range d {
		d[i] = float32(a[i])
	}
}

func runTruth32(ev *Evaluator, in *instr, n int) {
	notEqualK(ev.rb[in.dst][:n], ev.r32[in.args[0]], 0)
}

func runTruth64(ev *Evaluator, in *instr, n int) {
	notEqualK(ev.rb[in.dst][:n], ev.r64[in.args[0]], 0)
}

func runAnd(ev *Evaluator, in *instr, n int) {
	d, a, b := ev.rb[in.dst][:n], ev.rb[in.args[0]][:n], ev.rb[in.args[1]][:n]
	for i := range d {
		d[i] = a[i] & b[i]
	}
}

func runOr(ev *Evaluator, in *instr, n int) {
	d, a, b := ev.rb[in.dst][:n], ev.rb[in.args[0]][:n], ev.rb[in.args[1]][:n]
	for i := range d {
		d[i] = a[i] | b[i]
	}
}

func runNot(ev *Evaluator, in *instr, n int) {
	d, a := ev.rb[in.dst][:n], ev.rb[in.args[0]][:n]
	for i := range d {
		d[i] = a[i] ^ 1
	}
}

func where32(ev *Evaluator, in *instr, n int) {
	whereFloat(ev.r32[in.dst][:n], ev.rb[in.args[0]], ev.r32[in.args[1]], ev.r32[in.args[2]])
}

func where64(ev *Evaluator, in *instr, n int) {
	whereFloat(ev.r64[in.dst][:n], ev.rb[in.args[0]], ev.r64[in.args[1]], ev.r64[in.args[2]])
}

func whereBool(ev *Evaluator, in *instr, n int) {
	where(ev.rb[in.dst][:n], ev.rb[in.args[0]], ev.rb[in.args[1]], ev.rb[in.args[2]])
}

func pick32(ev *Evaluator, in *instr, n int) {
	pick(ev.r32[in.dst][:n], ev.masks[in.args[0]], ev.r32[in.args[1]], ev.r32[in.args[2]])
}

func pick64(ev *Evaluator, in *instr, n int) {
	pick(ev.r64[in.dst][:n], ev.masks[in.args[0]], ev.r64[in.args[1]], ev.r64[in.args[2]])
}

func pickBool(ev *Evaluator, in *instr, n int) {
	d, m := ev.rb[in.dst][:n], ev.masks[in.args[0]]
	if m == nil {
		copy(d, ev.rb[in.args[1]])
		return
	}
	where(d, m, ev.rb[in.args[1]], ev.rb[in.args[2]])
}

func pick[T real](d []T, mask []byte, a, b []T) {
	if mask == nil {
		copy(d, a)
		return
	}
	whereFloat(d, mask, a, b)
}

func runPowInt32(ev *Evaluator, in *instr, n int) {
	powIntKernel(ev.r32[in.dst][:n], ev.r32[in.args[0]], int(in.k), powInt32)
}

func runPowInt64(ev *Evaluator, in *instr, n int) {
	powIntKernel(ev.r64[in.dst][:n], ev.r64[in.args[0]], int(in.k), powInt)
}

func powIntKernel[T real](d, a []T, k int, f func(float64, int) float64) {
	a = a[:len(d)]
	for i := range d {
		d[i] = T(f(float64(a[i]), k))
	}
}

func runInvalid(ev *Evaluator, in *instr, n int) {
	d, m := ev.rb[in.dst][:n], ev.masks[in.args[0]]
	if m == nil {
		clear(d)
		return
	}
	for i, v := range m[:n] {
		d[i] = v ^ 1
	}
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
		m := ev.masks[r][:n]
		for i := range d {
			d[i] |= m[i]
		}
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

func maskNaN32(ev *Evaluator, in *instr, n int) { maskNaN(ev, in, ev.r32[in.args[0]][:n]) }
func maskNaN64(ev *Evaluator, in *instr, n int) { maskNaN(ev, in, ev.r64[in.args[0]][:n]) }

func maskNaN[T real](ev *Evaluator, in *instr, a []T) {
	if !hasNot(a) {
		ev.masks[in.dst] = nil
		return
	}
	d := ev.maskBuffer(in, len(a))
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
	where(d, ev.rb[in.args[0]], ma, mb)
	if mc != nil {
		andBytes(d, d, mc)
	}
}

func maskNone(ev *Evaluator, in *instr, n int) { clear(ev.maskBuffer(in, n)) }
