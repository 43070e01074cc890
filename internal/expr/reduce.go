package expr

import (
	"fmt"
	"math"
)

// reduceKernel returns the instruction of a function over a list.
func reduceKernel(o op, r regKind, items int, fraction float64) runner {
	switch {
	case o == opRedCount:
		return byClass(r, countValid[float32], countValid[float64])
	case o == opRedMedian || o == opRedQuantile:
		return rankKernel(r, items, statisticOf(o, items, fraction))
	case o == opRedMode:
		return modeKernel(r, items)
	case o == opRedArgMin || o == opRedArgMax:
		return byClass(r, extremeIndex[float32], extremeIndex[float64])
	case o == opRedMin || o == opRedMax:
		return byClass(r, extremes[float32], extremes[float64])
	case o == opRedSum || o == opRedMean || o == opRedVar || o == opRedStd:
		return byClass(r, moments[float32], moments[float64])
	}
	panic(fmt.Sprintf("expr: no kernel for function %d over a list", o))
}

func countValid[T real](ev *Evaluator, in *instr, n int) {
	d := vectors[T](ev)[in.dst][:n]
	clear(d)
	for _, r := range in.args {
		m := ev.masks[r]
		if m == nil {
			m = allValid
		}
		m = m[:n]
		for i := range d {
			d[i] += T(m[i])
		}
	}
}

// extremes computes the smallest or largest valid item.
func extremes[T real](ev *Evaluator, in *instr, n int) {
	r := vectors[T](ev)
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
				v := a[i]
				if ok == 0 {
					v = worst
				}
				if in.op == opRedMin {
					d[i] = min(d[i], v)
				} else {
					d[i] = max(d[i], v)
				}
			}
		}
	}
}

// extremeIndex computes the number, from 1, of the smallest or largest valid item, the first of
// equal ones.
func extremeIndex[T real](ev *Evaluator, in *instr, n int) {
	r := vectors[T](ev)
	d := r[in.dst][:n]
	best := ev.floats(0)[:n]
	clear(d)
	for j := range in.items {
		a, m := r[in.args[j]][:n], ev.masks[in.args[in.items+j]]
		if m == nil {
			m = allValid
		}
		for i, ok := range m[:n] {
			v := float64(a[i])
			if ok != 0 && (d[i] == 0 || in.op == opRedArgMin && v < best[i] || in.op == opRedArgMax && v > best[i]) {
				d[i], best[i] = T(j+1), v
			}
		}
	}
}

// moments computes the sum, mean, variance or standard deviation of the valid items in float64,
// adding the items in their order.
func moments[T real](ev *Evaluator, in *instr, n int) {
	r := vectors[T](ev)
	sums, number, d := ev.floats(0)[:n], ev.floats(1)[:n], r[in.dst][:n]
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
			sums[i] += kept(float64(a[i]), ok)
			number[i] += float64(ok)
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
	squares := ev.floats(2)[:n]
	clear(squares)
	for j := range in.items {
		a, m := r[in.args[j]][:n], ev.masks[in.args[in.items+j]]
		if m == nil {
			m = allValid
		}
		m = m[:n]
		for i := range squares {
			e := kept(float64(a[i])-sums[i], m[i])
			squares[i] += float64(e * e)
		}
	}
	for i := range d {
		v := squares[i] / number[i]
		if in.op == opRedStd {
			v = math.Sqrt(v)
		}
		d[i] = T(v)
	}
}

// kept returns v if ok is 1, and 0 if it is 0, whatever v is. Adding this 0 does not change a sum
// that started at 0.
func kept(v float64, ok byte) float64 {
	return math.Float64frombits(math.Float64bits(v) & -uint64(ok))
}

// validItems returns the valid items of pixel i, in memory that the next call uses again.
func validItems[T real](ev *Evaluator, in *instr, i int) []float64 {
	r := vectors[T](ev)
	if cap(ev.column) < in.items {
		ev.column = make([]float64, in.items)
	}
	col := ev.column[:0]
	for j := range in.items {
		if m := ev.masks[in.args[in.items+j]]; m == nil || m[i] != 0 {
			col = append(col, float64(r[in.args[j]][i]))
		}
	}
	return col
}
