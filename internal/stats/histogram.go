package stats

import (
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"math"

	"leat/ndarray"
)

// histogram counts the pixels of one band: per value for 8- and 16-bit integers, else per leading
// 16 bits of the value as a float32. Its counters hold what one block can have; Totals sums blocks.
// Counters are numbered in increasing order of value.
type histogram struct {
	typ ndarray.DType
	// counts holds the counters in the order of values for 8- and 16-bit integers, else in that of
	// leadingBits, so that pixels are counted as they are.
	counts []uint32
	// low and high bound the numbers of counters that may not be 0: of small blocks they are few.
	low, high int
	// parts are further counters of 8-bit integers, added up at the end; nil for other types.
	parts *[apart8 - 1][1 << 8]uint32
	bins  [chunk]uint16 // of the pixels that are being counted: their places in counts
}

// newHistogram returns an empty histogram for a band of type t.
func newHistogram(t ndarray.DType) *histogram {
	h := &histogram{typ: t, counts: make([]uint32, counters(t)), low: counters(t)}
	if len(h.counts) == 1<<8 {
		h.parts = new([apart8 - 1][1 << 8]uint32)
	}
	return h
}

// Neighbours often have the same counter, which is not yet stored when the next pixel needs it.
// Therefore pixels of apart parts of a row are counted in turn, and each of apart8 neighbouring
// 8-bit pixels, which are often equal in large areas, has counters of its own.
const (
	apart  = 8
	apart8 = 4
)

// count counts pixels by the places of their counters, which the caller notes by touch.
func (h *histogram) count(bins []uint16) {
	counts := (*[1 << 16]uint32)(h.counts)
	n := len(bins) / apart
	b0, b1, b2, b3 := bins[:n], bins[n:][:n], bins[2*n:][:n], bins[3*n:][:n]
	b4, b5, b6, b7 := bins[4*n:][:n], bins[5*n:][:n], bins[6*n:][:n], bins[7*n:][:n]
	for i := range b0 {
		counts[b0[i]]++
		counts[b1[i]]++
		counts[b2[i]]++
		counts[b3[i]]++
		counts[b4[i]]++
		counts[b5[i]]++
		counts[b6[i]]++
		counts[b7[i]]++
	}
	for _, b := range bins[apart*n:] {
		counts[b]++
	}
}

// uncount takes back that pixels were counted. It does nothing without a histogram.
func (h *histogram) uncount(px []float32) {
	if h == nil {
		return
	}
	for _, v := range px {
		h.counts[leadingBits(v)]--
	}
}

// countInts is count for 8- and 16-bit integers.
func countInts[T uint8 | int8 | uint16 | int16](h *histogram, px []T) {
	switch p := any(px).(type) {
	case []uint8:
		h.countBytes(p, 0)
	case []int8:
		h.countBytes(ndarray.BytesOf(p), 1<<7)
	case []uint16:
		h.count(p)
	case []int16:
		bins := h.bins[:len(p)]
		for i, v := range p {
			bins[i] = uint16(v) ^ 1<<15
		}
		h.count(bins)
	}
}

// countBytes is count for 8-bit integers. flip is the bit that differs between a value and its
// counter.
func (h *histogram) countBytes(px []uint8, flip uint8) {
	c0, p := (*[1 << 8]uint32)(h.counts), h.parts
	for ; len(px) >= apart8; px = px[apart8:] {
		q := px[:apart8:apart8]
		c0[q[0]^flip]++
		p[0][q[1]^flip]++
		p[1][q[2]^flip]++
		p[2][q[3]^flip]++
	}
	for _, v := range px {
		c0[v^flip]++
	}
}

// addParts adds the counters of parts to those of the histogram and empties them.
func (h *histogram) addParts() {
	if h.parts == nil || h.low >= h.high {
		return
	}
	for i := range h.parts {
		part := h.parts[i][h.low:h.high]
		for k, n := range part {
			h.counts[h.low+k] += n
		}
		clear(part)
	}
}

// touch notes that counters from low to high, included, may change.
func (h *histogram) touch(low, high int) {
	h.low, h.high = max(0, min(h.low, low)), min(len(h.counts), max(h.high, high+1))
}

// touchFloats is touch for the counters of values from lo to hi. Those of -0 and 0 adjoin, and lo
// and hi may be either.
func (h *histogram) touchFloats(lo, hi float32) {
	h.touch(counterOf(lo)-1, counterOf(hi)+1)
}

func counters(t ndarray.DType) int {
	if t == ndarray.Uint8 || t == ndarray.Int8 {
		return 1 << 8
	}
	return 1 << 16
}

// exact reports whether each counter counts a single value.
func exact(t ndarray.DType) bool { return t.IsInteger() && t.Size() <= 2 }

// leadingBits returns the leading 16 bits of v: the place of its counter.
func leadingBits(v float32) uint16 { return uint16(math.Float32bits(v) >> 16) }

// counterOf returns the number of v's counter among the 65,536, which increases with v. It flips
// all bits of negative numbers, and the sign bit of others.
func counterOf(v float32) int {
	b := leadingBits(v)
	return int(b ^ (uint16(int16(b)>>15) | 1<<15))
}

// place returns the place of counter i in counts.
func (h *histogram) place(i int) int {
	switch {
	case exact(h.typ):
		return i
	case i < 1<<15:
		return 1<<16 - 1 - i
	}
	return i - 1<<15
}

// bounds returns the smallest and the largest value that counter i counts.
func bounds(t ndarray.DType, i int) (lo, hi float64) {
	if exact(t) {
		v := float64(i)
		if t.IsSigned() {
			v -= float64(int(1) << (8*t.Size() - 1))
		}
		return v, v
	}
	top := uint32(i) << 16
	if top&(1<<31) != 0 {
		top ^= 1 << 31
		lo, hi = float64(math.Float32frombits(top)), float64(math.Float32frombits(top|0xffff))
	} else {
		top = ^top &^ 0xffff
		lo, hi = float64(math.Float32frombits(top|0xffff)), float64(math.Float32frombits(top))
	}
	if math.IsNaN(lo) || math.IsNaN(hi) { // the counter of an infinity
		v := float64(math.Float32frombits(top))
		return v, v
	}
	return lo, hi
}

// The numbers of counters that all skips at once if they are 0. The many of tiny values are rarely
// used.
const (
	together = 8
	many     = 128
)

// all yields the numbers of the counters that are not 0, in increasing order, and where they are.
func (h *histogram) all(yield func(i int, count *uint32) bool) {
	for i := h.low; i < h.high; i++ {
		at := h.place(i)
		if i%many == 0 && *(*[many]uint32)(h.counts[at&^(many-1):]) == [many]uint32{} {
			i += many - 1
		} else if i%together == 0 && *(*[together]uint32)(h.counts[at&^(together-1):]) == [together]uint32{} {
			i += together - 1
		} else if c := &h.counts[at]; *c != 0 && !yield(i, c) {
			return
		}
	}
}

// appendTo is [Collector.AppendHistogram].
func (h *histogram) appendTo(dst []byte) []byte {
	h.addParts()
	const most = 3 // bytes of the number of counters
	begin, n, last := len(dst), 0, 0
	dst = append(dst, make([]byte, most)...)
	for i, c := range h.all {
		dst = binary.AppendUvarint(dst, uint64(i-last))
		dst = binary.AppendUvarint(dst, uint64(*c))
		*c = 0 // and no other: most pages of the counters were never written
		n, last = n+1, i
	}
	h.low, h.high = len(h.counts), 0
	size := binary.PutUvarint(dst[begin:], uint64(n))
	return append(dst[:begin+size], dst[begin+most:]...)
}

// Totals sums the histograms of blocks.
type Totals struct {
	typ    ndarray.DType
	counts []uint64
	used   [1 << 16 / usedTogether]bool // whether any of the counters is not 0
}

// usedTogether is the number of counters that Totals notes together as used. They are a page of
// memory: the pages of the others are not read, so that they take none.
const usedTogether = 512

// NewTotals returns empty totals for a band of type t.
func NewTotals(t ndarray.DType) *Totals { return &Totals{typ: t, counts: make([]uint64, counters(t))} }

// all yields the counters that are not 0 and their counts, in increasing order.
func (t *Totals) all() iter.Seq2[int, uint64] {
	return func(yield func(int, uint64) bool) {
		for i := 0; i < len(t.counts); i += usedTogether {
			if !t.used[i/usedTogether] {
				continue
			}
			for k, c := range t.counts[i:min(i+usedTogether, len(t.counts))] {
				if c != 0 && !yield(i+k, c) {
					return
				}
			}
		}
	}
}

// Add adds a histogram in the format of [Collector.AppendHistogram] and returns the bytes that
// follow it. It returns an error, and adds nothing, when the bytes are not a histogram.
func (t *Totals) Add(b []byte) ([]byte, error) {
	rest, err := t.CheckEncoded(b)
	if err != nil {
		return nil, err
	}
	counters, size := binary.Uvarint(b)
	at := uint64(0)
	for b = b[size:]; counters > 0; counters-- {
		d, size := binary.Uvarint(b)
		b = b[size:]
		n, size := binary.Uvarint(b)
		b = b[size:]
		at += d
		t.counts[at] += n
		t.used[at/usedTogether] = true
	}
	return rest, nil
}

// CheckEncoded returns the bytes that follow the histogram at the start of b, or an error when Add
// would refuse it.
func (t *Totals) CheckEncoded(b []byte) ([]byte, error) {
	counters, size := binary.Uvarint(b)
	if size <= 0 {
		return nil, errTruncated
	}
	at, limit := uint64(0), uint64(len(t.counts))
	if counters > limit {
		return nil, fmt.Errorf("stats: histogram has %d counters, at most %d are possible", counters, limit)
	}
	for b = b[size:]; counters > 0; counters-- {
		d, size := binary.Uvarint(b)
		if size <= 0 {
			return nil, errTruncated
		}
		_, sizeOfCount := binary.Uvarint(b[size:])
		if sizeOfCount <= 0 {
			return nil, errTruncated
		}
		b = b[size+sizeOfCount:]
		if d >= limit || at+d >= limit {
			return nil, fmt.Errorf("stats: histogram counter %d out of range (%d counters)", at+d, limit)
		}
		at += d
	}
	return b, nil
}

var errTruncated = errors.New("stats: truncated histogram")

// Bins is a histogram over equal parts of [Min, Max]. With Direct, each bin is one value: bin 0
// counts Min, bin 1 counts Min+1, and so on.
type Bins struct {
	Min, Max float64
	Direct   bool
	Counts   []uint64
}

// maxBins is the number of bins that RIOS and GDAL use by default.
const maxBins = 256

// Bins returns at most maxBins bins between the band's minimum and maximum. For 8- and 16-bit
// integers they are exact: each bin is one value if at most maxBins values lie between the two, and
// else holds whole values. For other types the pixels of a counter are spread evenly over its
// values, so that a pixel may be counted in a bin up to 1/128 of its own value away. Values of
// float64 beyond those of float32 are all counted in the first or the last bin.
func (t *Totals) Bins(m Moments) Bins {
	b := Bins{Min: m.Min, Max: m.Max}
	if m.Valid == 0 || math.IsInf(m.Min, 0) || math.IsInf(m.Max, 0) {
		return b
	}
	n := maxBins
	if exact(t.typ) && m.Max-m.Min < maxBins {
		b.Direct = true
		n = int(m.Max-m.Min) + 1
	}
	b.Counts = make([]uint64, n)
	scale := 1.0
	if math.IsInf(m.Max-m.Min, 0) {
		scale = 0.5 // halves have a finite difference
	}
	// place returns the bin of a value, with its fraction.
	place := func(v float64) float64 {
		switch {
		case b.Direct:
			return v - m.Min
		case m.Max > m.Min:
			part := (v*scale - m.Min*scale) / (m.Max*scale - m.Min*scale)
			return math.Min(math.Max(part*float64(n), 0), float64(n))
		}
		return 0
	}
	for i, c := range t.all() {
		lo, hi := bounds(t.typ, i)
		first, end := place(math.Max(lo, m.Min)), place(math.Min(hi, m.Max))
		k, last := min(int(first), n-1), min(int(end), n-1)
		// Pixels beyond a bin's upper edge remain for the next bin, so rounding loses none.
		for left := c; left > 0; k++ {
			if k >= last {
				b.Counts[k] += left
				break
			}
			part := min(left, uint64(math.Round(float64(left)*(float64(k+1)-first)/(end-first))))
			b.Counts[k] += part
			left -= part
			first = float64(k + 1)
		}
	}
	return b
}

// Quantile returns the value below which the share q (0 to 1) of the pixels lies. It is exact for
// 8- and 16-bit integers, else the middle of a counter's values.
func (t *Totals) Quantile(q float64, m Moments) float64 {
	var total uint64
	for _, c := range t.all() {
		total += c
	}
	if total == 0 {
		return math.NaN()
	}
	rank := uint64(q * float64(total-1))
	var seen uint64
	for i, c := range t.all() {
		if seen += c; seen > rank {
			return t.value(i, m)
		}
	}
	return m.Max
}

// Mode returns the most frequent value, the smallest of several. For types other than 8- and 16-bit
// integers it is the middle of the values of the counter with the most pixels.
func (t *Totals) Mode(m Moments) float64 {
	best := -1
	for i, c := range t.all() {
		if best < 0 || c > t.counts[best] {
			best = i
		}
	}
	if best < 0 {
		return math.NaN()
	}
	return t.value(best, m)
}

// value returns the value that represents counter i: 0 if it counts 0, else the middle of its
// values, rounded to a whole one for integers, and clamped to [Min, Max].
func (t *Totals) value(i int, m Moments) float64 {
	lo, hi := bounds(t.typ, i)
	v := lo
	switch {
	case lo <= 0 && hi >= 0:
		v = 0
	case lo < hi:
		// The middle extends to the start of the next counter: 337 for 336 up to 338.
		from, to := lo, float64(math.Nextafter32(float32(hi), float32(math.Inf(1))))
		if lo < 0 {
			from, to = float64(math.Nextafter32(float32(lo), float32(math.Inf(-1)))), hi
		}
		if math.IsInf(from, 0) || math.IsInf(to, 0) {
			from, to = lo, hi
		}
		v = from + float64((to-from)/2)
		if t.typ.IsInteger() && math.Ceil(lo) <= math.Floor(hi) {
			v = math.Min(math.Max(math.Round(v), math.Ceil(lo)), math.Floor(hi))
		}
	}
	return math.Min(math.Max(v, m.Min), m.Max)
}
