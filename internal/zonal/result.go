package zonal

import (
	"math"
	"math/big"
	"math/bits"
)

// Results appends the statistics of a zone to dst, in the order of the spec's columns. Without
// valid pixels, counts are 0 and the others null.
func (s *Spec) Results(dst []Value, st *State) []Value {
	return s.results(dst, st, &entryReader{rest: st.table.compact()})
}

// entries yields the entries of a table in order.
type entries interface {
	next() bool
	entry() entry
}

func (r *entryReader) entry() entry { return r.e }

func (s *Spec) results(dst []Value, st *State, values entries) []Value {
	first := len(dst)
	for _, x := range s.stats {
		dst = append(dst, s.result(x, st))
	}
	if s.values {
		s.fromTable(dst[first:], st, values)
	}
	return dst
}

// result returns a statistic, or null (0 for variety) if it needs the table.
func (s *Spec) result(x Statistic, st *State) Value {
	v := Value{Type: s.columnType(x.kind)}
	number := func(u uint128) Value {
		if v.Type == Int64 {
			v.Int = int64(u.hi<<(64-weightBits) | u.lo>>weightBits)
		} else {
			v.Float = float(bigUint128(u.hi, u.lo), -weightBits)
		}
		return v
	}
	switch x.kind {
	case statCount:
		return number(st.weight)
	case statNodata:
		return number(st.nodata)
	case statVariety:
		return v
	}
	if st.pixels == 0 {
		v.Null = true
		return v
	}
	switch x.kind {
	case statMin:
		return s.kind.value(st.min)
	case statMax:
		return s.kind.value(st.max)
	case statRange:
		switch v.Type {
		case Int64:
			v.Int = int64(st.max - st.min)
		case Uint64:
			v.Uint = st.max - st.min
		default:
			v.Float = s.kind.value(st.max).Float - s.kind.value(st.min).Float
		}
		return v
	case statSum, statMean, statVar, statStd:
		v.Float = s.moment(x.kind, st)
		return v
	}
	v.Null = true
	return v
}

// moment returns a sum, a mean or a variance, rounded once from exact sums, or a standard
// deviation, which is the rounded root of the rounded variance.
func (s *Spec) moment(k statKind, st *State) float64 {
	if st.infinite != 0 {
		if k == statSum || k == statMean {
			return st.infinity()
		}
		return math.NaN()
	}
	if k == statSum {
		return float(&st.sum.m, st.sum.exp)
	}
	// The weight is w * 2^-40.
	w := bigUint128(st.weight.hi, st.weight.lo)
	if k == statMean {
		return quotient(&st.sum.m, st.sum.exp+weightBits, w)
	}
	// Σwv²/w - (Σwv/w)² = (w Σwv² - (Σwv)² 2^40) 2^40 / w²
	num := exact{}
	num.add(new(big.Int).Mul(w, &st.squares.m), st.squares.exp)
	square := new(big.Int).Mul(&st.sum.m, &st.sum.m)
	num.add(square.Neg(square), 2*st.sum.exp+weightBits)
	v := quotient(&num.m, num.exp+weightBits, w.Mul(w, w))
	if k == statStd {
		v = math.Sqrt(v)
	}
	return v
}

// fromTable sets the statistics that need a zone's values in order.
func (s *Spec) fromTable(dst []Value, st *State, in entries) {
	if st.pixels == 0 {
		for i, x := range s.stats {
			if x.kind == statHistogram && x.edges != nil {
				dst[i] = Value{Type: Histogram, Null: true}
			}
		}
		return
	}
	var percentiles []*percentile
	var histograms []*bins
	for i, x := range s.stats {
		switch x.kind {
		case statPercentile:
			percentiles = append(percentiles, newPercentile(&dst[i], x, st))
		case statHistogram:
			histograms = append(histograms, &bins{to: &dst[i], edges: x.edges, kind: s.kind,
				weights: make([]uint128, max(len(x.edges)-1, 0))})
		}
	}
	var variety int64
	var most, least, weight uint128 // of the most frequent, the least frequent and the current key
	var mode, minority uint64
	var before uint128 // weight of the entries before this one
	index := uint64(0) // pixels before this entry
	more := in.next()
	for more {
		key := in.entry().key
		weight = uint128{}
		for ; more && in.entry().key == key; more = in.next() {
			e := in.entry()
			for _, p := range percentiles {
				p.add(s.kind, e, index, before)
			}
			index += e.n
			before = before.addWeights(e.n, e.weight)
			weight = weight.addWeights(e.n, e.weight)
		}
		if most.less(weight) {
			most, mode = weight, key
		}
		if variety == 0 || weight.less(least) {
			least, minority = weight, key
		}
		variety++
		for _, h := range histograms {
			h.add(key, weight)
		}
	}
	for i, x := range s.stats {
		switch x.kind {
		case statVariety:
			dst[i].Int = variety
		case statMode:
			dst[i] = s.kind.value(mode)
		case statMinority:
			dst[i] = s.kind.value(minority)
		}
	}
	for _, p := range percentiles {
		p.finish(s.kind)
	}
	for _, h := range histograms {
		h.finish()
	}
}

// percentile finds a weighted percentile among n pixels in order of value, then weight. As in
// exactextract, pixel i of weight w_i lies at s_i = i w_i + (n-1) (w_0 + … + w_(i-1)), and the
// value at q s_n, with s_n = (n-1) (w_0 + … + w_(n-1)), is interpolated between the pixels around
// it. With equal weights this is NumPy's "linear".
type percentile struct {
	to        *Value
	num, den  *big.Int // position q s_n
	floor     uint128  // its integer part
	intervals uint64   // n-1
	done      bool
	key       uint64  // of the last pixel
	at        uint128 // its position
}

func newPercentile(to *Value, x Statistic, st *State) *percentile {
	p := &percentile{to: to, intervals: st.pixels - 1, den: big.NewInt(x.den)}
	p.num = bigUint128(st.weight.hi, st.weight.lo)
	p.num.Mul(p.num, new(big.Int).SetUint64(p.intervals))
	p.num.Mul(p.num, big.NewInt(x.num))
	f := new(big.Int).Quo(p.num, p.den)
	p.floor.lo = new(big.Int).And(f, new(big.Int).SetUint64(math.MaxUint64)).Uint64()
	p.floor.hi = f.Rsh(f, 64).Uint64()
	return p
}

// add adds the pixels of an entry. Before it, there were index pixels with the total weight before.
func (p *percentile) add(k kind, e entry, index uint64, before uint128) {
	if p.done {
		return
	}
	at := before.times(p.intervals).addWeights(index, e.weight)
	if p.floor.less(at) { // between the last pixel and the first of this entry
		p.done = true
		p.interpolate(k, e.key, at)
		return
	}
	index += e.n - 1
	p.key = e.key
	p.at = before.addWeights(e.n-1, e.weight).times(p.intervals).addWeights(index, e.weight)
	if p.floor.less(p.at) { // among the entry's pixels
		p.finish(k)
		p.done = true
	}
}

// times returns a * n, which fits.
func (a uint128) times(n uint64) uint128 {
	hi, lo := bits.Mul64(a.lo, n)
	return uint128{hi + a.hi*n, lo}
}

// interpolate sets the value between the last pixel and the next.
func (p *percentile) interpolate(k kind, key uint64, at uint128) {
	left, right := k.value(p.key), k.value(key)
	from := bigUint128(p.at.hi, p.at.lo)
	num := new(big.Int).Mul(from, p.den)
	num.Sub(p.num, num) // (q s_n - s_left) den
	p.to.Null = false
	if num.Sign() == 0 || p.key == key {
		p.to.Float = left.AsFloat()
		return
	}
	den := bigUint128(at.hi, at.lo)
	den.Mul(den.Sub(den, from), p.den)
	a, b := ratOf(left), ratOf(right)
	if a == nil || b == nil { // infinite
		p.to.Float = left.Float + (right.Float - left.Float)
		return
	}
	f := new(big.Rat).SetFrac(num, den)
	b.Sub(b, a)
	p.to.Float, _ = a.Add(a, b.Mul(b, f)).Float64()
}

// ratOf returns a finite number, and nil for an infinite one.
func ratOf(v Value) *big.Rat {
	switch v.Type {
	case Int64:
		return new(big.Rat).SetInt64(v.Int)
	case Uint64:
		return new(big.Rat).SetUint64(v.Uint)
	}
	return new(big.Rat).SetFloat64(v.Float)
}

// finish sets the value to that of the last pixel if no later one was needed.
func (p *percentile) finish(k kind) {
	if !p.done {
		p.to.Null = false
		p.to.Float = k.value(p.key).AsFloat()
	}
}

// bins collects a histogram, by value or by ranges. As in NumPy, a range includes its lower edge,
// and the last one its upper edge too; values outside all ranges are not counted.
type bins struct {
	to      *Value
	edges   []float64
	kind    kind
	weights []uint128
	i       int // range of the last value
}

func (h *bins) add(key uint64, w uint128) {
	if h.edges == nil {
		v := h.kind.value(key)
		h.to.Bins = append(h.to.Bins, Bin{v, v, float(bigUint128(w.hi, w.lo), -weightBits)})
		return
	}
	n := len(h.edges) - 1
	v := h.kind.value(key)
	for h.i < n && !v.below(h.edges[h.i+1]) && (h.i < n-1 || v.AsFloat() != h.edges[n]) {
		h.i++
	}
	if h.i < n && !v.below(h.edges[h.i]) {
		h.weights[h.i] = h.weights[h.i].add(w)
	}
}

// below reports whether v < edge, exactly.
func (v Value) below(edge float64) bool {
	if v.Type == Float64 {
		return v.Float < edge
	}
	if math.IsInf(edge, 0) {
		return edge > 0
	}
	return ratOf(v).Cmp(new(big.Rat).SetFloat64(edge)) < 0
}

func (h *bins) finish() {
	h.to.Null = false
	for i, w := range h.weights {
		h.to.Bins = append(h.to.Bins, Bin{Value{Float: h.edges[i]}, Value{Float: h.edges[i+1]},
			float(bigUint128(w.hi, w.lo), -weightBits)})
	}
}
