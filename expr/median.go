package expr

import (
	"math"
	"math/bits"
	"slices"

	"leat/ndarray"
)

// Medians of float32 sort the pixels of a chunk side by side: row i of a sorting network holds the i-th item of
// every pixel, and one comparator orders two rows. Float32 are compared as integers of the same order, keys,
// in which an invalid item is larger than all others and so ends last. Of the network only the comparators
// that the middle rows depend on are kept.

// maxNetwork is the largest number of items sorted by a network: its comparators grow with n (log n)**2, and
// beyond this sorting pixel by pixel is no slower.
const maxNetwork = 1024

// comparator orders two rows of a network.
type comparator struct{ lo, hi int32 }

// network returns Batcher's odd-even merge sort of n rows without what the rows from first to last do
// not depend on.
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
		return func(ev *Evaluator, in *instr, n int) { medianByColumn(ev, in, ev.r32, n) }
	}
	low, high := (items-1)/2, items/2
	whole := network(items, low, high)
	some := network(items, 0, high)
	// All rows should stay in the first-level cache.
	width := min(chunk, max(64, 6144/items&^31))
	return func(ev *Evaluator, in *instr, n int) {
		for off := 0; off < n; off += width {
			medianByRow(ev, in, off, min(width, n-off), low, high, whole, some)
		}
	}
}

const invalidKey = math.MaxInt32

// keys32 makes integers of float32 bits in the floats' order, and floats of these again. The NaN that
// would be above invalidKey's float are masked out.
func keys32(d, s []int32) {
	for i := keys32Fast(d, s); i < len(s); i++ {
		d[i] = key32(s[i])
	}
}

func key32(b int32) int32 { return b ^ int32(uint32(b>>31)>>1) }

func float32OfKey(k int32) float64 { return float64(math.Float32frombits(uint32(key32(k)))) }

// order puts the smaller of each pair into a and the larger into b.
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
	// A pixel's number of valid items tells where its middle is; while all are valid it is the same for all.
	if ev.left == nil {
		ev.left = make([]int32, chunk)
	}
	counts := ev.left[:n]
	sort, mixed := whole, false
	for j := range rows {
		rows[j] = ev.rows[j*n : (j+1)*n]
		keys32(rows[j], ndarray.OfBytes[int32](ndarray.AsBytes(ev.r32[in.args[j]][off:off+n])))
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

// middle32 is the mean of the middle two, or of twice the middle one; 0 for a negative zero, as NumPy has it.
// The sum of two float32 is no problem in float64.
func middle32(a, b float64) float32 { return float32((a+b)/2 + 0) }

// medianByColumn sorts the items of each pixel.
func medianByColumn[T real](ev *Evaluator, in *instr, r [][]T, n int) {
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
			d[i] = T(col[h] + 0) // not half of a sum, which could overflow
		} else {
			d[i] = T((col[h-1]+col[h])/2 + 0)
		}
	}
}
