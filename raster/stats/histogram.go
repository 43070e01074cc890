package stats

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"leat/ndarray"
)

// Histogram counts the pixels of one band: per value for 8- and 16-bit integers, else per leading 16 bits of
// the value as a float32, in an order that follows the values. Counters hold what one block can have;
// [Totals] sums blocks.
type Histogram struct {
	typ    ndarray.DType
	counts []uint32
}

// NewHistogram returns an empty histogram for a band of type t.
func NewHistogram(t ndarray.DType) *Histogram {
	return &Histogram{typ: t, counts: make([]uint32, counters(t))}
}

func counters(t ndarray.DType) int {
	if t == ndarray.Uint8 || t == ndarray.Int8 {
		return 1 << 8
	}
	return 1 << 16
}

// exact reports whether each counter stands for one value.
func exact(t ndarray.DType) bool { return t.IsInteger() && t.Size() <= 2 }

// leadingBits is the place of v among the 65,536 counters; it rises with v.
func leadingBits(v float32) uint16 {
	b := math.Float32bits(v)
	// Negative numbers: all bits flipped; others: the sign bit.
	return uint16((b ^ (uint32(int32(b)>>31) | 1<<31)) >> 16)
}

// bounds gives the smallest and the largest value that counter i stands for.
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

// AppendTo appends the counters that are not 0 to dst and sets all to 0: a uvarint with their number, then for
// each the distance from the counter before it and its count, both as uvarints.
func (h *Histogram) AppendTo(dst []byte) []byte {
	n := 0
	for _, c := range h.counts {
		if c != 0 {
			n++
		}
	}
	dst = binary.AppendUvarint(dst, uint64(n))
	last := 0
	for i, c := range h.counts {
		if c != 0 {
			dst = binary.AppendUvarint(dst, uint64(i-last))
			dst = binary.AppendUvarint(dst, uint64(c))
			last = i
			h.counts[i] = 0
		}
	}
	return dst
}

// Totals sums the histograms of blocks.
type Totals struct {
	typ    ndarray.DType
	counts []uint64
}

// NewTotals returns empty totals for a band of type t.
func NewTotals(t ndarray.DType) *Totals { return &Totals{t, make([]uint64, counters(t))} }

// Add adds a histogram in the form of AppendTo and returns the bytes behind it. The error says that the
// bytes are not one; nothing is added then.
func (t *Totals) Add(b []byte) ([]byte, error) {
	if _, err := t.Check(b); err != nil {
		return nil, err
	}
	return t.walk(b, func(counter, n uint64) { t.counts[counter] += n })
}

// Check reports whether bytes begin with a histogram that Add takes, and returns those behind it.
func (t *Totals) Check(b []byte) ([]byte, error) { return t.walk(b, func(uint64, uint64) {}) }

// walk calls f for each counter of a histogram that is not 0.
func (t *Totals) walk(b []byte, f func(counter, n uint64)) ([]byte, error) {
	torn := false
	next := func() uint64 {
		v, n := binary.Uvarint(b)
		if n <= 0 {
			torn = true
			return 0
		}
		b = b[n:]
		return v
	}
	counters, at, limit := next(), uint64(0), uint64(len(t.counts))
	if counters > limit {
		return nil, fmt.Errorf("stats: a histogram with %d counters of %d", counters, limit)
	}
	for range counters {
		d, n := next(), next()
		if torn {
			break
		}
		if d >= limit || at+d >= limit {
			return nil, fmt.Errorf("stats: histogram counter %d of %d", at+d, limit)
		}
		at += d
		f(at, n)
	}
	if torn {
		return nil, errors.New("stats: torn histogram")
	}
	return b, nil
}

// Bins is a histogram over equal parts of [Min, Max]. With Direct, each bin is one value: bin 0 counts
// Min, bin 1 counts Min+1, and so on.
type Bins struct {
	Min, Max float64
	Direct   bool
	Counts   []uint64
}

// MaxBins is the number of bins that RIOS and GDAL use by default.
const MaxBins = 256

// Bins derives at most MaxBins bins between the band's minimum and maximum. For 8- and 16-bit integers with at
// most MaxBins values between them bins are direct; with more values a bin holds whole values. Both are exact. For
// other types a counter's pixels are spread evenly over the values it stands for, so that a pixel may stand in a bin at
// most 1/128 of its own value away from its own.
func (t *Totals) Bins(m Moments) Bins {
	b := Bins{Min: m.Min, Max: m.Max}
	if m.Valid == 0 || math.IsInf(m.Min, 0) || math.IsInf(m.Max, 0) {
		return b
	}
	n := MaxBins
	if exact(t.typ) && m.Max-m.Min < MaxBins {
		b.Direct = true
		n = int(m.Max-m.Min) + 1
	}
	b.Counts = make([]uint64, n)
	// place gives the bin of a value, with its fraction.
	place := func(v float64) float64 {
		switch {
		case b.Direct:
			return v - m.Min
		case m.Max > m.Min:
			return math.Min(math.Max((v-m.Min)/(m.Max-m.Min)*float64(n), 0), float64(n))
		}
		return 0
	}
	for i, c := range t.counts {
		if c == 0 {
			continue
		}
		lo, hi := bounds(t.typ, i)
		first, end := place(math.Max(lo, m.Min)), place(math.Min(hi, m.Max))
		k, last := min(int(first), n-1), min(int(end), n-1)
		// What falls beyond each bin's upper edge is left for the next; rounding cannot lose a pixel.
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

// Quantile returns a value below which the share q (0 to 1) of the pixels lies: exact for 8- and 16-bit
// integers, else the middle of a counter kept inside [Min, Max].
func (t *Totals) Quantile(q float64, m Moments) float64 {
	var total uint64
	for _, c := range t.counts {
		total += c
	}
	if total == 0 {
		return math.NaN()
	}
	rank := uint64(q * float64(total-1))
	var seen uint64
	for i, c := range t.counts {
		seen += c
		if c > 0 && seen > rank {
			lo, hi := bounds(t.typ, i)
			return math.Min(math.Max(lo+(hi-lo)/2, m.Min), m.Max)
		}
	}
	return m.Max
}

// Mode returns the most frequent value, the smallest of several; for other than 8- and 16-bit integers the
// middle of the counter with the most pixels.
func (t *Totals) Mode(m Moments) float64 {
	best := -1
	for i, c := range t.counts {
		if c > 0 && (best < 0 || c > t.counts[best]) {
			best = i
		}
	}
	if best < 0 {
		return math.NaN()
	}
	lo, hi := bounds(t.typ, best)
	return math.Min(math.Max(lo+(hi-lo)/2, m.Min), m.Max)
}
