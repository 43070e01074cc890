package expr

import (
	"math"
	"slices"
)

// reduceKernel returns the instruction of a function over a list.
func reduceKernel(o op, r regKind) runner {
	switch o {
	case opRedCount:
		if r == reg32 {
			return func(ev *Evaluator, in *instr, n int) { countValid(ev, in, ev.r32[in.dst][:n]) }
		}
		return func(ev *Evaluator, in *instr, n int) { countValid(ev, in, ev.r64[in.dst][:n]) }
	case opRedMedian:
		if r == reg32 {
			return func(ev *Evaluator, in *instr, n int) { median(ev, in, ev.r32, n) }
		}
		return func(ev *Evaluator, in *instr, n int) { median(ev, in, ev.r64, n) }
	case opRedMin, opRedMax:
		if r == reg32 {
			return func(ev *Evaluator, in *instr, n int) { extremes(ev, in, ev.r32, n) }
		}
		return func(ev *Evaluator, in *instr, n int) { extremes(ev, in, ev.r64, n) }
	}
	if r == reg32 {
		return func(ev *Evaluator, in *instr, n int) { moments(ev, in, ev.r32, n) }
	}
	return func(ev *Evaluator, in *instr, n int) { moments(ev, in, ev.r64, n) }
}

func countValid[T real](ev *Evaluator, in *instr, d []T) {
	clear(d)
	for _, r := range in.args {
		m := ev.masks[r]
		if m == nil {
			for i := range d {
				d[i]++
			}
			continue
		}
		m = m[:len(d)]
		for i := range d {
			d[i] += T(m[i])
		}
	}
}

// extremes gives the smallest or largest valid item.
func extremes[T real](ev *Evaluator, in *instr, r [][]T, n int) {
	d := r[in.dst][:n]
	worst := T(math.Inf(1))
	if in.op == opRedMax {
		worst = -worst
	}
	for i := range d {
		d[i] = worst
	}
	for j := range in.items {
		a, m := r[in.args[j]][:n], ev.masks[in.args[in.items+j]]
		switch {
		case m == nil && in.op == opRedMin:
			minVV(d, d, a)
		case m == nil:
			maxVV(d, d, a)
		default:
			for i, ok := range m[:n] {
				switch {
				case ok == 0:
				case in.op == opRedMin:
					d[i] = min(d[i], a[i]) // as without a mask: -0 is below 0
				default:
					d[i] = max(d[i], a[i])
				}
			}
		}
	}
}

// moments gives sum, mean or standard deviation of the valid items, with float64 accumulators that
// take the items in their order.
func moments[T real](ev *Evaluator, in *instr, r [][]T, n int) {
	if ev.sums == nil {
		ev.sums, ev.more, ev.number = make([]float64, chunk), make([]float64, chunk), make([]float64, chunk)
	}
	sums, number, d := ev.sums[:n], ev.number[:n], r[in.dst][:n]
	clear(sums)
	clear(number)
	for j := range in.items {
		a, m := r[in.args[j]][:n], ev.masks[in.args[in.items+j]]
		if m == nil {
			for i := range sums {
				sums[i] += float64(a[i])
				number[i]++
			}
			continue
		}
		for i, ok := range m[:n] {
			if ok != 0 {
				sums[i] += float64(a[i])
				number[i]++
			}
		}
	}
	if in.op == opRedSum {
		for i := range d {
			d[i] = T(sums[i])
		}
		return
	}
	for i := range sums {
		sums[i] /= number[i]
	}
	if in.op == opRedMean {
		for i := range d {
			d[i] = T(sums[i])
		}
		return
	}
	squares := ev.more[:n]
	clear(squares)
	for j := range in.items {
		a, m := r[in.args[j]][:n], ev.masks[in.args[in.items+j]]
		for i := range squares {
			if m == nil || m[i] != 0 {
				e := float64(a[i]) - sums[i]
				squares[i] += float64(e * e)
			}
		}
	}
	for i := range d {
		d[i] = T(math.Sqrt(squares[i] / number[i]))
	}
}

// median gives the middle valid item, or the mean of the middle two.
func median[T real](ev *Evaluator, in *instr, r [][]T, n int) {
	d := r[in.dst][:n]
	if cap(ev.column) < in.items {
		ev.column = make([]float64, in.items)
	}
	for i := range d {
		col := ev.column[:0]
		for j := range in.items {
			if m := ev.masks[in.args[in.items+j]]; m == nil || m[i] != 0 {
				col = append(col, float64(r[in.args[j]][i]))
			}
		}
		if len(col) == 0 {
			d[i] = 0
			continue
		}
		slices.Sort(col)
		d[i] = T(half(col[(len(col)-1)/2], col[len(col)/2]))
	}
}

// half is the mean of the middle two, and 0 for a negative zero, as NumPy has it.
func half(a, b float64) float64 {
	if a == b {
		return a + 0 // a sum could overflow
	}
	return (a+b)/2 + 0
}
