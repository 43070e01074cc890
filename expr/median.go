package expr

import (
	"math"
	"math/bits"
	"slices"

	"leat/ndarray"
)

// Medians of float32 sort the items of all pixels of a chunk at once: row i of a sorting network
// holds the i-th item of each pixel, and a comparator orders two rows. The items are compared as
// integers of the same order, called keys. The key of an invalid item is the largest, so these
// items end last. Only the comparators on which the middle rows depend are kept.

// maxNetwork is the largest number of items that a network sorts. The number of its comparators
// grows with n (log n)**2; beyond this limit, sorting pixel by pixel is as fast.
const maxNetwork = 1024

// comparator orders two rows of a network.
type comparator struct{ lo, hi int32 }

// network returns the comparators of Batcher's odd-even merge sort of n rows on which the rows
// first to last depend.
func network(n, first, last int) []comparator {
	var all []comparator
	size := 1 << bits.Len(uint(n-1))
	for p := 1; p < size; p *= 2 {
		for k := p; k >= 1; k /= 2 {
			for j := k % p; j+k < size; j += 2 * k {
				for i := 0; i < k && i+j+k < n; i++ {
					if (i+j)/(2*p) == (i+j+k)/(2*p) {
						all = append(all, comparator{int32(i + j), int32(i + j + k)})
					}
				}
			}
		}
	}
	needed := make([]bool, n)
	for i := first; i <= last; i++ {
		needed[i] = true
	}
	var kept []comparator
	for _, c := range slices.Backward(all) {
		if needed[c.lo] || needed[c.hi] {
			needed[c.lo], needed[c.hi] = true, true
			kept = append(kept, c)
		}
	}
	slices.Reverse(kept)
	return kept
}

// medianKernel returns the instruction for the median of items float32.
func medianKernel(items int) runner {
	if items > maxNetwork {
		return medianByColumn[float32]
	}
	low, high := (items-1)/2, items/2
	whole := network(items, low, high)
	some := network(items, 0, high)
	// All rows should fit into the L1 cache.
	width := min(chunk, max(64, 6144/items&^31))
	return func(ev *Evaluator, in *instr, n int) {
		for off := 0; off < n; off += width {
			medianByRow(ev, in, off, min(width, n-off), low, high, whole, some)
		}
	}
}

const invalidKey = math.MaxInt32

// keys32 converts float32 bits to integers in the order of the floats, and such integers back to
// bits. A NaN whose key exceeds invalidKey is always masked.
func keys32(d, s []int32) {
	for i := keys32Fast(d, s); i < len(s); i++ {
		d[i] = key32(s[i])
	}
}

func key32(b int32) int32 { return b ^ int32(uint32(b>>31)>>1) }

func float32OfKey(k int32) float64 { return float64(math.Float32frombits(uint32(key32(k)))) }

// order moves the smaller of each pair to a and the larger to b.
func order(a, b []int32) {
	b = b[:len(a)]
	for i := order32Fast(a, b); i < len(a); i++ {
		x, y := a[i], b[i]
		a[i], b[i] = min(x, y), max(x, y)
	}
}

func medianByRow(ev *Evaluator, in *instr, off, n, low, high int, whole, some []comparator) {
	if ev.rows == nil || cap(ev.rows) < in.items*chunk {
		ev.rows = make([]int32, in.items*chunk)
		ev.cells = make([][]int32, in.items)
	}
	rows := ev.cells[:in.items]
	// The middle of a pixel's items depends on how many are valid; if all are, it is the same
	// everywhere.
	if ev.left == nil {
		ev.left = make([]int32, chunk)
	}
	counts := ev.left[:n]
	sort, mixed := whole, false
	for j := range rows {
		rows[j] = ev.rows[j*n : (j+1)*n]
		keys32(rows[j], ndarray.Cast[int32](ndarray.BytesOf(ev.r32[in.args[j]][off:off+n])))
		m := ev.masks[in.args[in.items+j]]
		if m == nil {
			continue
		}
		if !mixed {
			mixed, sort = true, some
			for i := range counts {
				counts[i] = int32(in.items)
			}
		}
		for i, ok := range m[off : off+n] {
			k := rows[j][i]
			if ok == 0 {
				k = invalidKey
			}
			rows[j][i] = k
			counts[i] -= int32(ok ^ 1)
		}
	}
	for _, c := range sort {
		order(rows[c.lo], rows[c.hi])
	}
	d := ev.r32[in.dst][off : off+n]
	switch a, b := rows[low], rows[high]; {
	case mixed:
		for i := range d {
			c := int(counts[i])
			if c == 0 {
				d[i] = 0
				continue
			}
			x, y := float32OfKey(rows[(c-1)/2][i]), float32OfKey(rows[c/2][i])
			d[i] = middle32(x, y)
		}
	default:
		a, b = a[:len(d)], b[:len(d)]
		for i := range d {
			d[i] = middle32(float32OfKey(a[i]), float32OfKey(b[i]))
		}
	}
}

// middle32 returns the mean of the middle two items, which may be the same one. A negative zero
// becomes 0, as in NumPy. The float64 sum of two float32 cannot overflow.
func middle32(a, b float64) float32 { return float32((a+b)/2 + 0) }

// medianByColumn sorts the items of each pixel separately.
func medianByColumn[T real](ev *Evaluator, in *instr, n int) {
	r := vectors[T](ev)
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
		if h := len(col) / 2; len(col)%2 == 1 {
			d[i] = T(col[h] + 0) // halving a sum could overflow
		} else {
			d[i] = T((col[h-1]+col[h])/2 + 0)
		}
	}
}
