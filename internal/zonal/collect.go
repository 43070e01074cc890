package zonal

import (
	"fmt"
	"math"
	"math/bits"
	"slices"

	"leat/ndarray"
)

// Collector adds the pixels of a window to the states of zones. It reuses memory between calls and
// is not safe for concurrent use.
type Collector struct {
	spec *Spec

	// What the current call has collected.
	pixels         uint64
	whole, invalid uint64 // pixels of weight 1
	weight, nodata uint128
	infinite       uint8
	min, max       uint64
	found          bool // min and max are set
	sumHi          int64
	sumLo          uint64  // of integers of weight 1
	squares        uint128 // of integers of weight 1 and up to 32 bits
	sumWide        wide
	squaresWide    wide
	sum32          float32Sum
	counting       bool
	counts         []uint32 // of values of up to 16 bits and weight 1, by key - countsFrom
	countsFrom     uint64
	keys, spare    []uint64 // other values of weight 1
	entries        []entry  // values of other weights
	run            []byte
}

// NewCollector returns a collector of a spec's values.
func NewCollector(s *Spec) *Collector {
	c := &Collector{spec: s}
	if s.values && s.typ.IsInteger() && s.typ.Size() <= 2 {
		c.counts = make([]uint32, 1<<(8*s.typ.Size()))
		lo, _ := s.typ.Limits()
		c.countsFrom = keyOf(int64(lo))
	}
	return c
}

// Add adds the pixels of a mask to st. The last two dimensions of the arrays are the mask's window;
// the others must be 1, and rows must be contiguous. values has the spec's type. valid is an array
// of uint8 with 0 for invalid pixels, or nil when all are valid; NaN is invalid in any case. Add
// panics when the arrays do not fit.
func (c *Collector) Add(st *State, m *Mask, values, valid *ndarray.Array) error {
	if values.Type != c.spec.typ {
		panic(fmt.Sprintf("zonal: values of type %s, expected %s", values.Type, c.spec.typ))
	}
	var ok rows[uint8]
	if valid != nil {
		ok = rowsOf[uint8](valid)
	}
	switch values.Type {
	case ndarray.Uint8:
		collect(c, m, rowsOf[uint8](values), ok)
	case ndarray.Int8:
		collect(c, m, rowsOf[int8](values), ok)
	case ndarray.Uint16:
		collect(c, m, rowsOf[uint16](values), ok)
	case ndarray.Int16:
		collect(c, m, rowsOf[int16](values), ok)
	case ndarray.Uint32:
		collect(c, m, rowsOf[uint32](values), ok)
	case ndarray.Int32:
		collect(c, m, rowsOf[int32](values), ok)
	case ndarray.Uint64:
		collect(c, m, rowsOf[uint64](values), ok)
	case ndarray.Int64:
		collect(c, m, rowsOf[int64](values), ok)
	case ndarray.Float32:
		collect(c, m, rowsOf[float32](values), ok)
	case ndarray.Float64:
		collect(c, m, rowsOf[float64](values), ok)
	}
	return c.finish(st)
}

// rows is a window of values.
type rows[T ndarray.Element] struct {
	data   []T
	stride int
	width  int
}

func rowsOf[T ndarray.Element](a *ndarray.Array) rows[T] {
	n, size := len(a.Shape), a.Type.Size()
	if n < 2 || a.Type != ndarray.TypeOf[T]() || a.Strides[n-1] != size || a.Strides[n-2] < 0 ||
		a.Strides[n-2]%size != 0 {
		panic("zonal: array has no contiguous rows")
	}
	return rows[T]{ndarray.Cast[T](a.Data[a.Offset:]), a.Strides[n-2] / size, a.Shape[n-1]}
}

// at returns n values of a row, from column col.
func (r *rows[T]) at(row, col, n int) []T {
	if col+n > r.width {
		panic("zonal: mask exceeds the array")
	}
	return r.data[row*r.stride+col:][:n]
}

func collect[T ndarray.Real](c *Collector, m *Mask, values rows[T], valid rows[uint8]) {
	if c.counts != nil {
		pixels := 0
		for _, r := range m.Runs {
			pixels += r.Len
		}
		// Sorting few values takes less time than looking at all counters.
		c.counting = pixels >= len(c.counts)/16
	}
	for _, r := range m.Runs {
		v := values.at(r.Row, r.Col, r.Len)
		if valid.data == nil {
			collectRow(c, v)
			continue
		}
		ok := valid.at(r.Row, r.Col, r.Len)
		for i := 0; i < len(ok); {
			j := i
			for j < len(ok) && ok[j] != 0 {
				j++
			}
			if j > i {
				collectRow(c, v[i:j])
			}
			i = j
			for j < len(ok) && ok[j] == 0 {
				j++
			}
			c.invalid += uint64(j - i)
			i = j
		}
	}
	for _, p := range m.Partials {
		v := values.at(p.Row, p.Col, 1)[0]
		if v != v || valid.data != nil && valid.at(p.Row, p.Col, 1)[0] == 0 {
			c.nodata = c.nodata.addWeights(1, p.Weight)
			continue
		}
		c.weight = c.weight.addWeights(1, p.Weight)
		c.pixels++
		collectPartial(c, v, p.Weight)
	}
}

// collectRow adds valid pixels of weight 1; some may be NaN.
func collectRow[T ndarray.Real](c *Collector, row []T) {
	s := c.spec
	switch r := any(row).(type) {
	case []float32:
		collectFloats(c, r)
	case []float64:
		collectFloats(c, r)
	default:
		c.whole += uint64(len(row))
		if s.sum {
			sumIntegers(c, row)
		}
		if s.squares {
			squareIntegers(c, row)
		}
		if s.extremes {
			lo, hi := row[0], row[0]
			for _, v := range row {
				lo, hi = min(lo, v), max(hi, v)
			}
			c.extend(keyOf(lo), keyOf(hi))
		}
		switch {
		case c.counting:
			for _, v := range row {
				c.counts[int64(v)-int64(c.countsFrom^1<<63)]++
			}
		case s.values:
			c.keys = appendKeys(c.keys, row)
		}
	}
}

// extend widens the range of keys.
func (c *Collector) extend(lo, hi uint64) {
	if !c.found {
		c.min, c.max, c.found = lo, hi, true
	}
	c.min, c.max = min(c.min, lo), max(c.max, hi)
}

// sumIntegers adds a row of integers. A row has fewer than 2^31 pixels, so a row of 32-bit integers
// fits int64.
func sumIntegers[T ndarray.Real](c *Collector, row []T) {
	if ndarray.TypeOf[T]().Size() == 8 {
		for _, v := range row {
			var carry uint64
			c.sumLo, carry = bits.Add64(c.sumLo, uint64(v), 0)
			c.sumHi += int64(carry)
			if v < 0 {
				c.sumHi--
			}
		}
		return
	}
	sum := int64(0)
	for _, v := range row {
		sum += int64(v)
	}
	var carry uint64
	c.sumLo, carry = bits.Add64(c.sumLo, uint64(sum), 0)
	c.sumHi += sum>>63 + int64(carry)
}

func squareIntegers[T ndarray.Real](c *Collector, row []T) {
	switch ndarray.TypeOf[T]().Size() {
	case 8:
		for _, v := range row {
			hi, lo := square(v)
			c.squaresWide.add(hi, lo, 0, false)
		}
	case 4:
		for _, v := range row {
			c.squares = c.squares.add(uint128{0, uint64(int64(v) * int64(v))})
		}
	default:
		sum := uint64(0)
		for _, v := range row {
			sum += uint64(int64(v) * int64(v))
		}
		c.squares = c.squares.add(uint128{0, sum})
	}
}

// square returns the square of an integer.
func square[T ndarray.Real](v T) (hi, lo uint64) {
	u := uint64(v)
	if v < 0 {
		u = -u
	}
	return bits.Mul64(u, u)
}

// collectFloats adds valid pixels of weight 1; NaN counts as invalid.
func collectFloats[T float32 | float64](c *Collector, row []T) {
	s := c.spec
	for len(row) > 0 {
		n := 0
		for n < len(row) && row[n]-row[n] == 0 {
			n++
		}
		finite := row[:n]
		if n > 0 {
			c.whole += uint64(n)
			if s.sum {
				sumFloats(c, finite)
			}
			if s.squares {
				squareFloats(c, finite)
			}
			if s.extremes {
				lo, hi := finite[0], finite[0]
				for _, v := range finite {
					if v < lo {
						lo = v
					}
					if v > hi {
						hi = v
					}
				}
				c.extend(keyOf(lo), keyOf(hi))
			}
			if s.values {
				c.keys = appendKeys(c.keys, finite)
			}
		}
		row = row[n:]
		if len(row) == 0 {
			break
		}
		if v := row[0]; v != v {
			c.invalid++
		} else {
			c.whole++
			c.infinity(v > 0, keyOf(v))
			if s.values {
				c.keys = append(c.keys, keyOf(v))
			}
		}
		row = row[1:]
	}
}

func (c *Collector) infinity(positive bool, key uint64) {
	if positive {
		c.infinite |= plusInf
	} else {
		c.infinite |= minusInf
	}
	c.extend(key, key)
}

func sumFloats[T float32 | float64](c *Collector, row []T) {
	switch r := any(row).(type) {
	case []float32:
		// A chunk has space for 2^24 values.
		for part := range slices.Chunk(r, 1<<20) {
			if c.sum32.adds > 1<<23 {
				c.sum32.drain(&c.sumWide)
			}
			c.sum32.add(part)
		}
	case []float64:
		for part := range slices.Chunk(r, maxRow) {
			c.sumWide.addFloats(part)
		}
	}
}

func squareFloats[T float32 | float64](c *Collector, row []T) {
	switch r := any(row).(type) {
	case []float32:
		for part := range slices.Chunk(r, maxRow) {
			c.squaresWide.addSquares32(part)
		}
	case []float64:
		for _, v := range r {
			c.squaresWide.addSquare(v, One)
		}
	}
}

// float32Sum adds finite float32 values exactly. Chunk i holds a multiple of 2^(16 i - 150).
type float32Sum struct {
	chunks [16]int64
	adds   int
	used   bool
}

func (s *float32Sum) add(row []float32) {
	s.used = true
	s.adds += len(row)
	for _, v := range row {
		b := math.Float32bits(v)
		e := b >> 23 & 0xff
		m := int64(b & (1<<23 - 1))
		if e > 0 {
			m |= 1 << 23
		} else {
			e = 1
		}
		m <<= e & 15
		sign := int64(int32(b) >> 31)
		s.chunks[e>>4] += (m ^ sign) - sign
	}
}

// drain adds the sum to w and sets it to 0.
func (s *float32Sum) drain(w *wide) {
	if !s.used {
		return
	}
	for i, v := range s.chunks {
		if v < 0 {
			w.add(0, uint64(-v), 16*i-150, true)
		} else {
			w.add(0, uint64(v), 16*i-150, false)
		}
	}
	*s = float32Sum{}
}

// collectPartial adds a valid pixel of a weight below 1.
func collectPartial[T ndarray.Real](c *Collector, v T, w Weight) {
	s, key := c.spec, keyOf(v)
	if s.values {
		c.entries = append(c.entries, entry{key, w, 1})
	}
	if s.extremes {
		c.extend(key, key)
	}
	f := float64(v)
	if s.kind >= float32Kind && math.IsInf(f, 0) {
		c.infinity(f > 0, key)
		return
	}
	if !s.sum {
		return
	}
	if s.kind >= float32Kind {
		c.sumWide.addFloat(f, w)
		if s.squares {
			c.squaresWide.addSquare(f, w)
		}
		return
	}
	u := uint64(v)
	if v < 0 {
		u = -u
	}
	hi, lo := bits.Mul64(u, uint64(w))
	c.sumWide.add(hi, lo, -weightBits, v < 0)
	if s.squares {
		hi, lo := square(v)
		c.squaresWide.addProduct(hi, lo, w, -weightBits)
	}
}

// finish adds what the call has collected to a state and resets the collector.
func (c *Collector) finish(st *State) error {
	s := c.spec
	o := State{pixels: c.pixels + c.whole, weight: c.weight.addWeights(c.whole, One),
		nodata: c.nodata.addWeights(c.invalid, One), infinite: c.infinite, min: c.min, max: c.max}
	c.sum32.drain(&c.sumWide)
	c.sumWide.drain(&o.sum)
	o.sum.addInt128(c.sumHi, c.sumLo)
	c.squaresWide.drain(&o.squares)
	if !c.squares.zero() {
		o.squares.add(bigUint128(c.squares.hi, c.squares.lo), 0)
	}
	if s.values {
		o.table.add(c.encodeValues())
	}
	c.pixels, c.whole, c.invalid, c.weight, c.nodata = 0, 0, 0, uint128{}, uint128{}
	c.infinite, c.min, c.max, c.found, c.sumHi, c.sumLo, c.squares = 0, 0, 0, false, 0, 0, uint128{}
	return s.Merge(st, &o)
}

// encodeValues returns the values collected as an encoded run.
func (c *Collector) encodeValues() []byte {
	slices.SortFunc(c.entries, compareEntries)
	c.run = c.run[:0]
	last, i := uint64(0), 0
	// partials appends the entries of other weights up to a key, or all that are left.
	partials := func(to uint64, all bool) {
		for i < len(c.entries) && (all || c.entries[i].key <= to) {
			e := c.entries[i]
			for i++; i < len(c.entries) && c.entries[i].key == e.key && c.entries[i].weight == e.weight; i++ {
				e.n++
			}
			c.run = appendEntry(c.run, e, last)
			last = e.key
		}
	}
	// put appends n pixels of weight 1, which follow all other weights of their key.
	put := func(key, n uint64) {
		partials(key, false)
		c.run = appendEntry(c.run, entry{key, One, n}, last)
		last = key
	}
	if c.counting {
		for v, n := range c.counts {
			if n > 0 {
				put(c.countsFrom+uint64(v), uint64(n))
				c.counts[v] = 0
			}
		}
	}
	c.keys, c.spare = sortKeys(c.keys, c.spare)
	for j := 0; j < len(c.keys); {
		k := j + 1
		for k < len(c.keys) && c.keys[k] == c.keys[j] {
			k++
		}
		put(c.keys[j], uint64(k-j))
		j = k
	}
	partials(0, true)
	c.keys, c.entries = c.keys[:0], c.entries[:0]
	return slices.Clone(c.run)
}
