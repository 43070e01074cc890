package expr

import "slices"

// modeKernel returns the instruction for the most frequent valid item, the smallest of several.
func modeKernel(r regKind, items int) runner {
	switch {
	case r == reg64:
		return modeByColumn[float64]
	case items > maxNetwork:
		return modeByColumn[float32]
	}
	all := network(items, 0, items-1)
	return inParts(4*items, func(ev *Evaluator, in *instr, off, n int) { modeByRow(ev, in, off, n, all) })
}

// modeByRow counts equal neighbours in the sorted rows.
func modeByRow(ev *Evaluator, in *instr, off, n int, all []comparator) {
	rows, counts, mixed := ev.sortRows(in, off, n, all, all, false)
	d := ev.r32[in.dst][off : off+n]
	clear(d)
	most, length := ev.modeScratch(n)
	for j, row := range rows {
		for i, k := range row {
			if mixed && int32(j) >= counts[i] {
				continue
			}
			v := float32(float32OfKey(k))
			if j > 0 && v == float32(float32OfKey(rows[j-1][i])) {
				length[i]++
			} else {
				length[i] = 1
			}
			if length[i] > most[i] {
				most[i], d[i] = length[i], v+0
			}
		}
	}
}

// modeScratch returns two cleared vectors of n counts.
func (ev *Evaluator) modeScratch(n int) (most, length []int32) {
	if ev.runs == nil {
		ev.runs = make([]int32, 2*chunk)
	}
	most, length = ev.runs[:n], ev.runs[chunk:chunk+n]
	clear(most)
	return most, length
}

// modeByColumn sorts the items of each pixel separately.
func modeByColumn[T real](ev *Evaluator, in *instr, n int) {
	d := vectors[T](ev)[in.dst][:n]
	for i := range d {
		col := validItems[T](ev, in, i)
		slices.Sort(col)
		most, best := 0, 0.0
		for from := 0; from < len(col); {
			to := from + 1
			for to < len(col) && col[to] == col[from] {
				to++
			}
			if to-from > most {
				most, best = to-from, col[from]
			}
			from = to
		}
		d[i] = T(best + 0)
	}
}
