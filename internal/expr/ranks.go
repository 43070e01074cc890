package expr

import (
	"math"
	"math/bits"
	"slices"

	"leat/ndarray"
)

// Medians and quantiles of float32 sort the items of all pixels of a chunk at once: row i of a
// sorting network holds the i-th item of each pixel, and a comparator orders two rows. The items
// are compared as integers of the same order, called keys. Invalid items get the largest key, so
// they end last; for medians they get the smallest and the largest in turn. Only the comparators on
// which the rows of the result depend are kept.

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

// rank is the position of a statistic among n sorted items: fraction of the way from item low to
// item high, which are neighbours or the same. Items count from 0.
type rank struct {
	low, high int
	fraction  float64
}

func medianRank(n int) rank { return rank{(n - 1) / 2, n / 2, 0.5} }

// quantileRank returns the rank of quantile q of n items by the method "linear" of NumPy: number 7
// of Hyndman and Fan, Sample Quantiles in Statistical Packages (1996).
func quantileRank(n int, q float64) rank {
	at := float64(float64(n-1) * q)
	low := int(at)
	if float64(low) == at {
		return rank{low, low, 0}
	}
	return rank{low, low + 1, at - float64(low)}
}

// interpolate returns the value at a rank between two neighbours. It rounds as NumPy does.
func interpolate(a, b, fraction float64) float64 {
	switch {
	case a == b:
		return a + 0
	case fraction >= 0.5:
		return b - float64((b-a)*(1-fraction))
	}
	return a + float64((b-a)*fraction)
}

// middle returns the mean of the middle two items, which may be the same one. A negative zero
// becomes 0, as in NumPy.
func middle(a, b, _ float64) float64 {
	if a == b {
		return a + 0 // halving the sum could overflow
	}
	return float64((a+b)/2) + 0
}

// statistic is a function of the sorted items of a pixel.
type statistic struct {
	ranks []rank // by the number of valid items
	steps []step // likewise; the first is for no items
	value func(low, high, fraction float64) float64

	median bool // value is middle
}

// statisticOf returns the median or a quantile.
func statisticOf(o op, items int, fraction float64) *statistic {
	if o == opRedMedian {
		return medianOf(items)
	}
	return quantileOf(items, fraction)
}

func medianOf(items int) *statistic {
	s := newStatistic(items, medianRank, middle)
	s.median = true
	return s
}

func quantileOf(items int, q float64) *statistic {
	return newStatistic(items, func(n int) rank { return quantileRank(n, q) }, interpolate)
}

func newStatistic(items int, at func(n int) rank, value func(low, high, fraction float64) float64) *statistic {
	s := &statistic{ranks: make([]rank, items+1), steps: make([]step, items+1), value: value}
	for n := 1; n <= items; n++ {
		s.ranks[n] = at(n)
		s.steps[n] = s.ranks[n].step()
	}
	return s
}

// step is a rank as a fraction below a half of the way from one item to another. A loop over pixels
// of different ranks needs no branch for the direction, which would often be mispredicted.
type step struct {
	from, to int
	fraction float64
}

func (k rank) step() step {
	if k.fraction >= 0.5 {
		return step{k.high, k.low, 1 - k.fraction}
	}
	return step{k.low, k.high, k.fraction}
}

// rankKernel returns the instruction for a statistic.
func rankKernel(r regKind, items int, s *statistic) runner {
	switch {
	case r == reg64:
		return s.byColumn64
	case items > maxNetwork:
		return s.byColumn32
	}
	whole, some := s.networks(items)
	return inParts(4*items, func(ev *Evaluator, in *instr, off, n int) { s.byRow(ev, in, off, n, whole, some) })
}

// networks returns the comparators for pixels whose items are all valid, and for all other pixels.
func (s *statistic) networks(items int) (whole, some []comparator) {
	low, high := s.ranks[items].low, s.ranks[items].high
	first := 0
	if s.median {
		first = max(items/2-1, 0)
	}
	return network(items, low, high), network(items, first, high)
}

// inParts returns an instruction that calls f for parts of a chunk that fit into the L1 cache, at
// size bytes a pixel.
func inParts(size int, f func(ev *Evaluator, in *instr, off, n int)) runner {
	width := min(chunk, max(64, 24576/size&^31))
	return func(ev *Evaluator, in *instr, n int) {
		for off := 0; off < n; off += width {
			f(ev, in, off, min(width, n-off))
		}
	}
}

const invalidKey = math.MaxInt32

// keys32 converts float32 bits to integers in the order of the floats, and such integers back to
// bits. NaN has keys beyond those of the infinities, and is always masked.
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

// maskKeys makes the items invalid where valid is 0, and subtracts these from counts.
func maskKeys(row, counts []int32, valid []byte) {
	counts, valid = counts[:len(row)], valid[:len(row)]
	for i := maskKeysFast(row, counts, valid); i < len(row); i++ {
		k := row[i]
		if valid[i] == 0 {
			k = invalidKey
		}
		row[i] = k
		counts[i] -= int32(valid[i] ^ 1)
	}
}

// splitKeys replaces the items where valid is 0, and subtracts them from counts. They get the
// smallest and the largest key in turn, so the middle of the valid items stays in place.
func splitKeys(row, counts []int32, valid []byte) {
	counts, valid = counts[:len(row)], valid[:len(row)]
	for i := splitKeysFast(row, counts, valid); i < len(row); i++ {
		if valid[i] == 0 {
			row[i] = -(counts[i] & 1) ^ math.MinInt32
			counts[i]--
		}
	}
}

// middleKeys sets low to the lower of the two middle items: the one before the middle if the number
// of valid items is even, else the middle one.
func middleKeys[K int32 | uint16](low, before, middle, counts []K) {
	before, middle, counts = before[:len(low)], middle[:len(low)], counts[:len(low)]
	for i := range low {
		low[i] = before[i] ^ (before[i]^middle[i])&-(counts[i]&1)
	}
}

// sortRows sorts the items of n pixels from off on. In each column of rows, the valid items come
// first or, if split, in the middle. If mixed, counts has their number; otherwise all are valid.
// The comparators are whole if all items are valid, else some.
func (ev *Evaluator) sortRows(in *instr, off, n int, whole, some []comparator, split bool) (rows [][]int32,
	counts []int32, mixed bool) {
	if ev.rows == nil || cap(ev.rows) < in.items*chunk {
		ev.rows = make([]int32, in.items*chunk)
		ev.cells = make([][]int32, in.items)
	}
	rows = ev.cells[:in.items]
	if ev.left == nil {
		ev.left = make([]int32, chunk)
	}
	counts = ev.left[:n]
	sort := whole
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
		if split {
			splitKeys(rows[j], counts, m[off:off+n])
		} else {
			maskKeys(rows[j], counts, m[off:off+n])
		}
	}
	for _, c := range sort {
		order(rows[c.lo], rows[c.hi])
	}
	return rows, counts, mixed
}

// byRow computes the statistic of n pixels from off on. Its rank depends on how many items of a
// pixel are valid; if all are, it is the same for all.
func (s *statistic) byRow(ev *Evaluator, in *instr, off, n int, whole, some []comparator) {
	rows, counts, mixed := ev.sortRows(in, off, n, whole, some, s.median)
	d := ev.r32[in.dst][off : off+n]
	k := s.ranks[in.items]
	low, high := rows[k.low][:n], rows[k.high][:n]
	switch {
	case mixed && s.median:
		if ev.runs == nil {
			ev.runs = make([]int32, 2*chunk)
		}
		middle := len(rows) / 2
		low, high = ev.runs[:n], rows[middle]
		middleKeys(low, rows[max(middle-1, 0)], high, counts)
		s.between(ev, d, low, high, 0.5)
		for i, c := range counts {
			if c == 0 {
				d[i] = 0
			}
		}
	case mixed:
		for i, c := range counts {
			k := &s.steps[c]
			a, b := float32OfKey(rows[k.from][i]), float32OfKey(rows[k.to][i])
			if a == b { // their difference would not be a number if they were infinite
				b = 0
			} else {
				b = float64((b - a) * k.fraction)
			}
			d[i] = float32(a + b)
			if c == 0 {
				d[i] = 0
			}
		}
	case k.low == k.high:
		s.between(ev, d, low, low, 0)
	default:
		s.between(ev, d, low, high, k.fraction)
	}
}

// between sets d to the values at the same fraction of the way from low to high. It computes in
// float64 and rounds once, as value does.
func (s *statistic) between(ev *Evaluator, d []float32, low, high []int32, fraction float64) {
	bits := ndarray.Cast[int32](ndarray.BytesOf(d))
	if fraction == 0 {
		keys32(bits, low)
		kernels32.vk[opAdd](d, d, 0) // not -0
		return
	}
	a, b := ev.floats(0)[:len(d)], ev.floats(1)[:len(d)]
	keys32(bits, low)
	widenTo64(a, d)
	keys32(bits, high)
	widenTo64(b, d)
	s.interpolate(d, a, b, fraction)
	if s.median || !special(d, float32(math.NaN())) {
		return
	}
	for i := range d { // the difference of two infinities is not a number
		d[i] = float32(s.value(float32OfKey(low[i]), float32OfKey(high[i]), fraction))
	}
}

// interpolate sets d to the values at a fraction of the way from a to b, which it overwrites.
func (s *statistic) interpolate(d []float32, a, b []float64, fraction float64) {
	k := kernels64
	switch {
	case s.median:
		k.vv[opAdd](a, a, b)
		k.vk[opMul](a, a, 0.5)
	case fraction >= 0.5:
		k.vv[opSub](a, b, a)
		k.vk[opMul](a, a, 1-fraction)
		k.vv[opSub](a, b, a)
	default:
		k.vv[opSub](b, b, a)
		k.vk[opMul](b, b, fraction)
		k.vv[opAdd](a, a, b)
	}
	k.vk[opAdd](a, a, 0) // not -0
	narrowTo32(d, a)
}

func (s *statistic) byColumn32(ev *Evaluator, in *instr, n int) { byColumn[float32](s, ev, in, n) }
func (s *statistic) byColumn64(ev *Evaluator, in *instr, n int) { byColumn[float64](s, ev, in, n) }

// byColumn sorts the items of each pixel separately.
func byColumn[T real](s *statistic, ev *Evaluator, in *instr, n int) {
	d := vectors[T](ev)[in.dst][:n]
	for i := range d {
		col := validItems[T](ev, in, i)
		if len(col) == 0 {
			d[i] = 0
			continue
		}
		slices.Sort(col)
		k := &s.ranks[len(col)]
		d[i] = T(s.value(col[k.low], col[k.high], k.fraction))
	}
}
