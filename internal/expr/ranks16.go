package expr

import (
	"encoding/binary"

	"leat/ndarray"
)

// Medians and quantiles of 16-bit integers sort the pixels themselves: a vector holds twice as many
// of them as of float32, and none are converted. The keys of int16 are pixels with the sign bit
// inverted. The three largest or smallest are found without a network, see ends.

const invalidPixel = 0xffff

// pixelRows is memory for sorting.
type pixelRows struct {
	keys      []uint16
	rows      [][]uint16
	left, low []uint16
}

// rawStatistic is a statistic of bands of one type.
type rawStatistic struct {
	*statistic
	signed      bool
	whole, some []comparator
}

// rawRankKernel returns the instruction for a statistic of uint16 or int16. The first arguments of
// the instruction are bands.
func rawRankKernel(t ndarray.DType, items int, s *statistic) runner {
	whole, some := s.networks(items)
	r := &rawStatistic{s, t == ndarray.Int16, whole, some}
	return inParts(2*items, r.byRow)
}

// sort sorts the pixels as [Evaluator.sortRows] does. A row that no comparator changes can be
// memory of the source.
func (s *rawStatistic) sort(ev *Evaluator, in *instr, off, n int) (rows [][]uint16, counts []uint16, mixed bool) {
	m := &ev.pixels
	if len(m.keys) < in.items*chunk {
		m.keys, m.rows = make([]uint16, in.items*chunk), make([][]uint16, in.items)
	}
	if m.left == nil {
		m.left, m.low = make([]uint16, chunk), make([]uint16, chunk)
	}
	rows, counts = m.rows[:in.items], m.left[:n]
	own := func(j int) []uint16 { return m.keys[j*n : (j+1)*n] }
	sort := s.whole
	for j := range rows {
		pixels := ev.src[in.args[j]].Data[2*off : 2*(off+n)]
		valid := ev.masks[in.args[in.items+j]]
		switch {
		case s.signed:
			rows[j] = own(j)
			invertSigns(ndarray.BytesOf(rows[j]), pixels)
		case valid != nil:
			rows[j] = own(j)
			copy(ndarray.BytesOf(rows[j]), pixels)
		default:
			rows[j] = ndarray.Cast[uint16](pixels) // the first comparator of the row copies it
		}
		if valid == nil {
			continue
		}
		if !mixed {
			mixed, sort = true, s.some
			for i := range counts {
				counts[i] = uint16(in.items)
			}
		}
		if s.median {
			splitPixels(rows[j], counts, valid[off:off+n])
		} else {
			maskPixels(rows[j], counts, valid[off:off+n])
		}
	}
	if largest, ok := s.ends(in.items); ok && !mixed {
		first := [3][]uint16{own(0), own(1), own(2)}
		firstPixels(&first, rows, largest)
		for i, r := range first {
			if largest {
				i = in.items - 1 - i
			}
			rows[i] = r
		}
		return rows, counts, false
	}
	for _, c := range sort {
		lo, hi := own(int(c.lo)), own(int(c.hi))
		orderPixels(lo, hi, rows[c.lo], rows[c.hi])
		rows[c.lo], rows[c.hi] = lo, hi
	}
	return rows, counts, mixed
}

// ends reports whether the statistic of items valid pixels depends only on the three largest or the
// three smallest. Finding these takes less time than sorting all.
func (s *rawStatistic) ends(items int) (largest, ok bool) {
	k := s.ranks[items]
	return k.low >= items-3, items > 3 && (k.low >= items-3 || k.high < 3)
}

// byRow computes the statistic of n pixels from off on, as [statistic.byRow] does.
func (s *rawStatistic) byRow(ev *Evaluator, in *instr, off, n int) {
	rows, counts, mixed := s.sort(ev, in, off, n)
	d := ev.r32[in.dst][off : off+n]
	k := s.ranks[in.items]
	switch {
	case mixed && s.median:
		middle := in.items / 2
		low := ev.pixels.low[:n]
		middleKeys(low, rows[max(middle-1, 0)], rows[middle], counts)
		s.between(d, low, rows[middle], 0.5)
	case mixed:
		zero := s.zero()
		for i, c := range counts {
			k := &s.steps[c]
			x, y := int32(rows[k.from][i]), int32(rows[k.to][i])
			d[i] = float32(float64(x-zero) + float64(float64(y-x)*k.fraction))
		}
	case k.low == k.high:
		s.between(d, rows[k.low], rows[k.low], 0)
	default:
		s.between(d, rows[k.low], rows[k.high], k.fraction)
	}
	if !mixed {
		return
	}
	for i, c := range counts {
		if c == 0 {
			d[i] = 0
		}
	}
}

// between sets d to the values at a fraction of the way from low to high. It computes in float64
// and rounds once, with the bits of [statistic.between]: differences and halves are exact.
func (s *rawStatistic) between(d []float32, low, high []uint16, fraction float64) {
	switch {
	case fraction == 0:
		s.numbers(d, low)
	case fraction >= 0.5:
		s.blend(d, high, low, 1-fraction)
	default:
		s.blend(d, low, high, fraction)
	}
}

// blend sets d to the numbers at a fraction of the way from those of a to those of b.
func (s *rawStatistic) blend(d []float32, a, b []uint16, fraction float64) {
	blendPixels(d, a, b, s.zero(), fraction)
}

// zero returns the key of the pixel 0.
func (s *rawStatistic) zero() int32 {
	if s.signed {
		return 1 << 15
	}
	return 0
}

// blendPixels computes a - zero + (b - a) * fraction in float64.
func blendPixels(d []float32, a, b []uint16, zero int32, fraction float64) {
	a, b = a[:len(d)], b[:len(d)]
	for i := blend16Fast(d, a, b, zero, fraction); i < len(d); i++ {
		x, y := int32(a[i]), int32(b[i])
		d[i] = float32(float64(x-zero) + float64(float64(y-x)*fraction))
	}
}

// numbers sets d to the pixels that have the given keys.
func (s *rawStatistic) numbers(d []float32, keys []uint16) {
	convert(d, keys)
	if s.signed {
		kernels32.vk[opSub](d, d, 1<<15)
	}
}

// invertSigns inverts the highest bits of integers of 16 bits, four at a time.
func invertSigns(d, s []byte) {
	i := 0
	for ; i+8 <= len(d); i += 8 {
		binary.NativeEndian.PutUint64(d[i:], binary.NativeEndian.Uint64(s[i:])^0x8000800080008000)
	}
	for ; i < len(d); i += 2 {
		binary.NativeEndian.PutUint16(d[i:], binary.NativeEndian.Uint16(s[i:])^0x8000)
	}
}

// orderPixels sets lo to the smaller and hi to the larger of each pair of a and b, which can be the
// same memory.
func orderPixels(lo, hi, a, b []uint16) {
	hi, a, b = hi[:len(lo)], a[:len(lo)], b[:len(lo)]
	for i := order16Fast(lo, hi, a, b); i < len(lo); i++ {
		x, y := a[i], b[i]
		lo[i], hi[i] = min(x, y), max(x, y)
	}
}

// firstPixels sets d to the three largest or smallest pixels of each column of rows, the most
// extreme one first. d can be memory of rows.
func firstPixels(d *[3][]uint16, rows [][]uint16, largest bool) {
	flip := uint16(0) // in Go, the largest are those whose complements are the smallest
	if largest {
		flip = 0xffff
	}
	for i := first3Fast(d, rows, largest); i < len(d[0]); i++ {
		a, b, c := uint16(0xffff), uint16(0xffff), uint16(0xffff)
		for _, r := range rows {
			x := r[i] ^ flip
			a, x = min(a, x), max(a, x)
			b, x = min(b, x), max(b, x)
			c = min(c, x)
		}
		d[0][i], d[1][i], d[2][i] = a^flip, b^flip, c^flip
	}
}

// maskPixels makes the pixels invalid where valid is 0, and subtracts these from counts.
func maskPixels(row, counts []uint16, valid []byte) {
	counts, valid = counts[:len(row)], valid[:len(row)]
	for i := maskPixelsFast(row, counts, valid); i < len(row); i++ {
		if valid[i] == 0 {
			row[i] = invalidPixel
			counts[i]--
		}
	}
}

// splitPixels is [splitKeys] for pixels.
func splitPixels(row, counts []uint16, valid []byte) {
	counts, valid = counts[:len(row)], valid[:len(row)]
	for i := splitPixelsFast(row, counts, valid); i < len(row); i++ {
		if valid[i] == 0 {
			row[i] = -(counts[i] & 1)
			counts[i]--
		}
	}
}
