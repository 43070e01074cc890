package focal

import (
	"math"
	"math/bits"
)

// medianByRanks moves a set of ranks along rows: pixels enter and leave it with the footprint, as
// in Huang, Yang and Tang, A fast two-dimensional median filtering algorithm (1979). Ranks instead
// of values make it independent of the type, as in Weiss, Fast median and bilateral filtering
// (2006).
func medianByRanks[T Float](dst, src *Plane[T], f Footprint, s *Scratch) {
	ranked(dst, src, f, s, func(t *tile[T]) {
		t.rank(s, false)
		set := rankSet{words: s.words.take(t.count/64 + 2), limit: uint32(t.count)}
		for r := range t.rows {
			clear(set.words)
			set.pivot, set.below, set.size = 0, 0, 0
			for _, o := range t.all {
				set.add(t.ranks[r+o])
			}
			for c := range t.columns {
				if c > 0 {
					base := c*t.height + r
					for _, o := range t.leave {
						set.remove(t.ranks[base+o])
					}
					for _, o := range t.enter {
						set.add(t.ranks[base+o])
					}
				}
				if set.size == 0 {
					t.invalid(r, c)
					continue
				}
				low, high := set.median()
				a, b := t.sorted[low], t.sorted[high]
				if a != b {
					a = T((float64(a) + float64(b)) / 2)
				}
				t.set(r, c, a)
			}
		}
	})
}

// Mode sets dst to the most frequent values of the valid neighbours, the smallest of equally
// frequent ones. A pixel without any is invalid.
func Mode[T Float](dst, src *Plane[T], f Footprint, s *Scratch) {
	size := f.Size()
	ranked(dst, src, f, s, func(t *tile[T]) {
		t.rank(s, true)
		// Invalid pixels have the last number, which counts as a value but is never the mode.
		counts := modeCounts{of: s.int32s.take(t.count + 1), with: s.int32s.take(size + 1), limit: uint32(t.count)}
		for r := range t.rows {
			clear(counts.of)
			clear(counts.with)
			counts.most, counts.stale = 0, false
			for _, o := range t.all {
				counts.add(t.ranks[r+o])
			}
			for c := range t.columns {
				base := c*t.height + r
				if c > 0 {
					for _, o := range t.leave {
						counts.remove(t.ranks[base+o])
					}
					for _, o := range t.enter {
						counts.add(t.ranks[base+o])
					}
				}
				if counts.most == 0 {
					t.invalid(r, c)
					continue
				}
				if counts.stale {
					counts.search(t.ranks[base:], t.all)
				}
				t.set(r, c, t.sorted[counts.mode])
			}
		}
	})
}

// rankSet is a set of ranks. Ranks from limit on are ignored.
type rankSet struct {
	words        []uint64
	limit        uint32
	pivot, below int // the number of ranks in the words below pivot
	size         int
}

func (s *rankSet) add(rank uint32) {
	word := rank >> 6
	s.words[word] |= 1 << (rank & 63)
	s.below += int((word - uint32(s.pivot)) >> 31)
	s.size += int((rank - s.limit) >> 31)
}

func (s *rankSet) remove(rank uint32) {
	word := rank >> 6
	s.words[word] &^= 1 << (rank & 63)
	s.below -= int((word - uint32(s.pivot)) >> 31)
	s.size -= int((rank - s.limit) >> 31)
}

// median returns the middle two ranks, which are equal if the size is odd.
func (s *rankSet) median() (low, high int) {
	k := (s.size - 1) / 2
	for s.below > k {
		s.pivot--
		s.below -= bits.OnesCount64(s.words[s.pivot])
	}
	word := s.words[s.pivot]
	for n := bits.OnesCount64(word); s.below+n <= k; n = bits.OnesCount64(word) {
		s.below += n
		s.pivot++
		word = s.words[s.pivot]
	}
	for range k - s.below {
		word &= word - 1
	}
	low = s.pivot*64 + bits.TrailingZeros64(word)
	if s.size%2 == 1 {
		return low, low
	}
	word &= word - 1
	next := s.pivot
	for word == 0 {
		next++
		word = s.words[next]
	}
	return low, next*64 + bits.TrailingZeros64(word)
}

// modeCounts counts values by number. Numbers from limit on are ignored.
type modeCounts struct {
	of    []int32 // by number
	with  []int32 // the numbers of values that occur so many times
	limit uint32
	most  int32  // how often the mode occurs
	mode  uint32 // unless stale
	stale bool
}

func (m *modeCounts) add(v uint32) {
	if v >= m.limit {
		return
	}
	n := m.of[v] + 1
	m.of[v] = n
	m.with[n-1]--
	m.with[n]++
	switch {
	case n > m.most:
		m.most, m.mode, m.stale = n, v, false
	case n == m.most && v < m.mode:
		m.mode = v
	}
}

func (m *modeCounts) remove(v uint32) {
	if v >= m.limit {
		return
	}
	n := m.of[v]
	m.of[v] = n - 1
	m.with[n]--
	m.with[n-1]++
	if n < m.most {
		return
	}
	if m.with[n] > 0 {
		m.stale = m.stale || v == m.mode
		return
	}
	m.most--
	m.mode, m.stale = v, m.with[n-1] > 1
}

// search sets the mode to the smallest number that occurs most times.
func (m *modeCounts) search(numbers []uint32, footprint []int) {
	m.stale = false
	if len(m.of) < len(footprint) {
		for v, n := range m.of[:m.limit] {
			if n == m.most {
				m.mode = uint32(v)
				return
			}
		}
	}
	m.mode = m.limit
	for _, o := range footprint {
		if v := numbers[o]; v < m.mode && m.of[v] == m.most {
			m.mode = v
		}
	}
}

// tile is a part of a block with its margin.
type tile[T Float] struct {
	dst, src      *Plane[T]
	mask          *mask[T]
	first, left   int      // the first row and column of dst
	row, col      int      // of the tile, with its margin, in src
	rows, columns int      // of the results
	height, width int      // with the margin
	ranks         []uint32 // column after column, with the margin
	sorted        []T      // by rank
	count         int      // of sorted
	all           []int    // offsets of the footprint's pixels in ranks
	leave, enter  []int    // of those that only the pixel before has, and that only this one has
	margin, sides int
}

// set sets a result.
func (t *tile[T]) set(row, col int, v T) {
	t.dst.Values[(t.first+row)*t.dst.Columns+t.left+col] = v
}

func (t *tile[T]) invalid(row, col int) { t.mask.row(t.first+row, t.left+col, 1)[0] = 0 }

// ranked calls compute for each tile of a block.
func ranked[T Float](dst, src *Plane[T], f Footprint, s *Scratch, compute func(*tile[T])) {
	margin, sides := f.Margin()
	row, col := offset(dst, src, margin, sides)
	m := &mask[T]{dst: dst}
	side := tileSide(f)
	for first := 0; first < dst.Rows; first += side {
		for left := 0; left < dst.Columns; left += side {
			s.reset()
			t := &tile[T]{dst: dst, src: src, mask: m, first: first, left: left, row: row + first - margin,
				col: col + left - sides, rows: min(side, dst.Rows-first), columns: min(side, dst.Columns-left),
				margin: margin, sides: sides}
			t.height, t.width = t.rows+2*margin, t.columns+2*sides
			t.all, t.leave, t.enter = s.ints.take(f.Size())[:0], s.ints.take(len(f.half)), s.ints.take(len(f.half))
			for i, h := range f.half {
				for x := sides - h; x <= sides+h; x++ {
					t.all = append(t.all, x*t.height+i)
				}
				t.leave[i], t.enter[i] = (sides-h-1)*t.height+i, (sides+h)*t.height+i
			}
			compute(t)
		}
	}
	m.finish()
}

// tileSide returns the side of a tile. The more pixels a footprint has, the denser the set of ranks
// is, and the more a margin costs.
func tileSide(f Footprint) int { return max(64, min(8*len(f.half), 512)) }

// item is a pixel of a tile with its value as an integer of the same order.
type item struct {
	key   uint64
	index uint32
}

// rank sets the ranks of a tile's valid pixels, and other pixels to ranks beyond. With dense, equal
// values have the same rank, else ranks are different.
func (t *tile[T]) rank(s *Scratch, dense bool) {
	n := t.height * t.width
	items, other := s.items.take(n)[:0], s.items.take(n)
	t.ranks = s.uint32s.take(n)
	t.sorted = take[T](s, n)
	for y := range t.height {
		at := (t.row+y)*t.src.Columns + t.col
		for x, v := range t.src.Values[at:][:t.width] {
			if t.src.Valid == nil || t.src.Valid[at+x] != 0 {
				items = append(items, item{key(v + 0), uint32(x*t.height + y)})
			}
		}
	}
	if len(items) < n {
		for i := range t.ranks {
			t.ranks[i] = uint32(len(items))
		}
	}
	t.count = 0
	var last uint64
	for i, p := range sortItems(items, other[:len(items)], &s.digits) {
		if !dense || i == 0 || p.key != last {
			t.sorted[t.count] = unkey[T](p.key)
			t.count++
			last = p.key
		}
		t.ranks[p.index] = uint32(t.count - 1)
	}
}

// key returns an integer of the same order as v, which is not -0.
func key[T Float](v T) uint64 {
	switch v := any(v).(type) {
	case float32:
		b := math.Float32bits(v)
		return uint64(b ^ (uint32(int32(b)>>31) | 1<<31))
	case float64:
		b := math.Float64bits(v)
		return b ^ (uint64(int64(b)>>63) | 1<<63)
	}
	return 0
}

// unkey returns the value with a key.
func unkey[T Float](key uint64) T {
	var v T
	switch v := any(&v).(type) {
	case *float32:
		k := uint32(key)
		*v = math.Float32frombits(k ^ (uint32(int32(^k)>>31) | 1<<31))
	case *float64:
		*v = math.Float64frombits(key ^ (uint64(int64(^key)>>63) | 1<<63))
	}
	return v
}

// digitBits is the number of bits by which a pass sorts.
const digitBits = 11

// sortItems sorts items by key, digit by digit from the lowest. It returns items or other.
func sortItems(items, other []item, ends *[1 << digitBits]uint32) []item {
	var varying uint64
	for _, p := range items {
		varying |= p.key ^ items[0].key
	}
	for shift := 0; varying>>shift != 0; shift += digitBits {
		if varying>>shift&(1<<digitBits-1) == 0 {
			continue
		}
		clear(ends[:])
		for _, p := range items {
			ends[p.key>>shift%(1<<digitBits)]++
		}
		sum := uint32(0)
		for i, n := range ends {
			ends[i] = sum
			sum += n
		}
		for _, p := range items {
			at := &ends[p.key>>shift%(1<<digitBits)]
			other[*at] = p
			*at++
		}
		items, other = other, items
	}
	return items
}
