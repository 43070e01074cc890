package zonal

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"
)

// stateVersion is the first byte of an encoded state.
const stateVersion = 1

// A State holds what some pixels of a zone contribute to the statistics of one value. The zero
// State holds no pixels.
type State struct {
	pixels   uint64 // valid ones
	weight   uint128
	nodata   uint128 // weight of invalid pixels
	infinite uint8   // plusInf, minusInf: there were such values, which the sums leave out
	min, max uint64  // keys
	sum      exact
	squares  exact
	table    table
}

const (
	plusInf = 1 << iota
	minusInf
)

// maxPixels bounds the pixels of a state, so that sums of weights and quantiles fit 128 bits.
const maxPixels = 1 << 43

// uint128 is a sum of weights.
type uint128 struct{ hi, lo uint64 }

func (a uint128) add(b uint128) uint128 {
	lo, c := bits.Add64(a.lo, b.lo, 0)
	return uint128{a.hi + b.hi + c, lo}
}

// addWeights adds n times a weight.
func (a uint128) addWeights(n uint64, w Weight) uint128 {
	hi, lo := bits.Mul64(n, uint64(w))
	return a.add(uint128{hi, lo})
}

func weights(n uint64, w Weight) uint128 { return uint128{}.addWeights(n, w) }

func (a uint128) less(b uint128) bool { return a.hi < b.hi || a.hi == b.hi && a.lo < b.lo }

func (a uint128) zero() bool { return a == uint128{} }

// Empty reports whether the state has neither valid nor invalid pixels.
func (st *State) Empty() bool { return st.weight.zero() && st.nodata.zero() }

// Merge adds the pixels of o to st. Both are states of the spec. o must not be used afterwards.
func (s *Spec) Merge(st, o *State) error {
	if st.pixels+o.pixels > maxPixels {
		return fmt.Errorf("zone of %d pixels, expected at most %d", st.pixels+o.pixels, uint64(maxPixels))
	}
	if o.pixels > 0 {
		if st.pixels == 0 {
			st.min, st.max = o.min, o.max
		}
		st.min, st.max = min(st.min, o.min), max(st.max, o.max)
	}
	st.pixels += o.pixels
	st.weight, st.nodata = st.weight.add(o.weight), st.nodata.add(o.nodata)
	st.infinite |= o.infinite
	st.sum.add(&o.sum.m, o.sum.exp)
	st.squares.add(&o.squares.m, o.squares.exp)
	for _, run := range o.table.runs {
		st.table.add(run)
	}
	return nil
}

// Append appends the encoding of a state. States of the same pixels have the same encoding.
func (s *Spec) Append(dst []byte, st *State) []byte {
	dst = s.appendHead(dst, st)
	if s.values {
		run := st.table.compact()
		dst = binary.AppendUvarint(dst, uint64(len(run)))
		dst = append(dst, run...)
	}
	return dst
}

// appendHead appends the encoding of a state without its table.
func (s *Spec) appendHead(dst []byte, st *State) []byte {
	dst = append(dst, stateVersion, st.infinite)
	for _, v := range []uint64{st.pixels, st.weight.hi, st.weight.lo, st.nodata.hi, st.nodata.lo} {
		dst = binary.AppendUvarint(dst, v)
	}
	if s.extremes {
		dst = binary.AppendUvarint(dst, st.min)
		dst = binary.AppendUvarint(dst, st.max-st.min)
	}
	if s.sum {
		dst = st.sum.append(dst)
	}
	if s.squares {
		dst = st.squares.append(dst)
	}
	return dst
}

// Decode reads a state that Append wrote and returns the bytes that follow it. The state keeps
// references to b. Decode returns an error for bytes that Append never writes.
func (s *Spec) Decode(b []byte, st *State) (rest []byte, err error) {
	if b, err = s.decodeHead(b, st); err != nil || !s.values {
		return b, err
	}
	size, n := binary.Uvarint(b)
	if n <= 0 || size > uint64(len(b)-n) {
		return nil, errState
	}
	run, rest := b[n:][:size:size], b[n:][size:]
	if !checkRun(run, s.kind.maxKey(), st.pixels) {
		return nil, errState
	}
	if size > 0 {
		st.table.runs = [][]byte{run}
	}
	return rest, nil
}

// decodeHead reads what appendHead wrote.
func (s *Spec) decodeHead(b []byte, st *State) (rest []byte, err error) {
	if len(b) < 2 || b[0] != stateVersion || b[1] > plusInf|minusInf {
		return nil, errState
	}
	*st = State{infinite: b[1]}
	b = b[2:]
	ok := true
	next := func() uint64 {
		v, n := binary.Uvarint(b)
		if n <= 0 {
			ok = false
			return 0
		}
		b = b[n:]
		return v
	}
	st.pixels = next()
	st.weight.hi, st.weight.lo = next(), next()
	st.nodata.hi, st.nodata.lo = next(), next()
	most := weights(maxPixels, One)
	if !ok || st.pixels > maxPixels || most.less(st.nodata) || st.weight.less(uint128{lo: st.pixels}) ||
		weights(st.pixels, One).less(st.weight) ||
		st.infinite != 0 && (st.pixels == 0 || s.kind < float32Kind) {
		return nil, errState
	}
	if s.extremes {
		st.min = next()
		st.max = st.min + next()
		if !ok || st.max < st.min || st.max > s.kind.maxKey() || st.pixels == 0 && st.max != 0 {
			return nil, errState
		}
	}
	for _, sum := range []struct {
		on bool
		to *exact
	}{{s.sum, &st.sum}, {s.squares, &st.squares}} {
		if sum.on {
			if b, err = sum.to.decode(b); err != nil {
				return nil, err
			}
		}
	}
	if st.squares.m.Sign() < 0 || st.pixels == 0 && (st.sum.m.Sign() != 0 || st.squares.m.Sign() != 0) {
		return nil, errState
	}
	return b, nil
}

// infinity returns the sum of a state with infinite values.
func (st *State) infinity() float64 {
	switch st.infinite {
	case plusInf:
		return math.Inf(1)
	case minusInf:
		return math.Inf(-1)
	}
	return math.NaN()
}
