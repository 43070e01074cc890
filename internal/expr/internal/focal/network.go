package focal

import (
	"cmp"
	"slices"
)

// comparison sets row low of a buffer to the smaller values of rows a and b, and row high to the
// larger ones. Rows are given by the index of their first value; -1 is a row that is not needed.
type comparison struct{ low, high, a, b int32 }

// compareStep divides the number of columns that perform processes.
const compareStep = 32

// perform performs comparisons in order, in whole steps of columns, which all rows have. A row that
// one of them writes is read by others at the same columns only.
func perform[T Float](buffer []T, comparisons []comparison, columns int) {
	columns = (columns + compareStep - 1) &^ (compareStep - 1)
	if !performFast(buffer, comparisons, columns) {
		performSlow(buffer, comparisons, columns)
	}
}

func performSlow[T Float](buffer []T, comparisons []comparison, columns int) {
	for _, c := range comparisons {
		a, b := buffer[c.a:][:columns], buffer[c.b:][:columns]
		switch {
		case c.high < 0:
			low := buffer[c.low:][:columns]
			for i, x := range a {
				low[i] = smallerOf(x, b[i])
			}
		case c.low < 0:
			high := buffer[c.high:][:columns]
			for i, x := range a {
				high[i] = largerOf(x, b[i])
			}
		default:
			low, high := buffer[c.low:][:columns], buffer[c.high:][:columns]
			for i, x := range a {
				y := b[i]
				low[i], high[i] = smallerOf(x, y), largerOf(x, y)
			}
		}
	}
}

// smallerOf returns the second of equal numbers, as the instructions do.
func smallerOf[T Float](a, b T) T {
	if a < b {
		return a
	}
	return b
}

func largerOf[T Float](a, b T) T {
	if a > b {
		return a
	}
	return b
}

// network builds a sorting network. Its wires carry values; those from 0 on are inputs.
type network struct {
	comparisons []comparison // of wires
	wires       int32
}

func (n *network) order(a, b int32) (low, high int32) {
	low, high = n.wires, n.wires+1
	n.wires += 2
	n.comparisons = append(n.comparisons, comparison{low, high, a, b})
	return low, high
}

// merge returns the wires of two sorted sequences in order, by Batcher's odd-even merge.
func (n *network) merge(a, b []int32) []int32 {
	switch {
	case len(a) == 0:
		return b
	case len(b) == 0:
		return a
	case len(a) == 1 && len(b) == 1:
		low, high := n.order(a[0], b[0])
		return []int32{low, high}
	}
	even := n.merge(everySecond(a), everySecond(b))
	odd := n.merge(everySecond(a[1:]), everySecond(b[1:]))
	merged := []int32{even[0]}
	even = even[1:]
	for len(odd) > 0 && len(even) > 0 {
		low, high := n.order(odd[0], even[0])
		merged = append(merged, low, high)
		odd, even = odd[1:], even[1:]
	}
	return append(append(merged, odd...), even...)
}

// mergeAll merges sorted sequences, the shortest first.
func (n *network) mergeAll(sequences [][]int32) []int32 {
	for len(sequences) > 1 {
		slices.SortStableFunc(sequences, func(a, b []int32) int { return cmp.Compare(len(a), len(b)) })
		sequences = append(sequences[2:], n.merge(sequences[0], sequences[1]))
	}
	return sequences[0]
}

func everySecond(wires []int32) []int32 {
	var some []int32
	for i := 0; i < len(wires); i += 2 {
		some = append(some, wires[i])
	}
	return some
}

// place assigns rows of a buffer to wires and drops what outputs do not depend on. inputs has the
// places of the first wires, which stay as they are. Other values get rows from row on, of stride
// values each. place returns the comparisons of rows, the places of the outputs and the row after
// the last used one.
func (n *network) place(outputs, inputs []int32, row, stride int) (comparisons []comparison, at []int32, next int) {
	last := make([]int, n.wires) // the comparison that uses a wire last, plus 1; 0 if none does
	for _, w := range outputs {
		last[w] = len(n.comparisons) + 1
	}
	for i, c := range slices.Backward(n.comparisons) {
		if last[c.low] > 0 || last[c.high] > 0 {
			last[c.a], last[c.b] = max(last[c.a], i+1), max(last[c.b], i+1)
		}
	}
	places := append(slices.Clone(inputs), make([]int32, int(n.wires)-len(inputs))...)
	var free []int32
	release := func(i int, wire int32) {
		if last[wire] == i+1 && int(wire) >= len(inputs) {
			free = append(free, places[wire])
		}
	}
	take := func(wire int32) int32 {
		if last[wire] == 0 {
			return -1
		}
		if k := len(free); k > 0 {
			places[wire] = free[k-1]
			free = free[:k-1]
		} else {
			places[wire] = int32(row * stride)
			row++
		}
		return places[wire]
	}
	for i, c := range n.comparisons {
		if last[c.low] == 0 && last[c.high] == 0 {
			continue
		}
		release(i, c.a)
		release(i, c.b)
		a, b := places[c.a], places[c.b]
		comparisons = append(comparisons, comparison{take(c.low), take(c.high), a, b})
	}
	for _, w := range outputs {
		at = append(at, places[w])
	}
	return comparisons, at, row
}
