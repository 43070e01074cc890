package expr

import (
	"bytes"
	"math"

	"leat/internal/scalarvalue"
	"leat/ndarray"
)

// intStores holds functions that return the instruction that writes an output band of integers.
var intStores = map[ndarray.DType]func(o *output, r *root) runner{
	ndarray.Uint8: storeInt[uint8], ndarray.Int8: storeInt[int8], ndarray.Uint16: storeInt[uint16],
	ndarray.Int16: storeInt[int16], ndarray.Uint32: storeInt[uint32], ndarray.Int32: storeInt[int32],
	ndarray.Uint64: storeInt[uint64], ndarray.Int64: storeInt[int64],
}

// storeKernel returns the instruction that writes an output band.
func storeKernel(o *output, r *root) runner {
	switch {
	case o.typ.IsInteger():
		return intStores[o.typ](o, r)
	case o.typ == ndarray.Float16:
		return storeFloat16(o)
	case o.typ == ndarray.Float32 && r.reg == reg32 && !o.scaled:
		return storeSame[float32](o, r)
	case o.typ == ndarray.Float32:
		return storeFloat[float32](o)
	case r.reg == reg64 && !o.scaled:
		return storeSame[float64](o, r)
	}
	return storeFloat[float64](o)
}

// noNodata records the error of an invalid pixel in an output without nodata.
func (ev *Evaluator) noNodata(in *instr, i int) {
	ev.recordError(PixelError{Index: i, Output: in.root.output, Band: in.root.band + 1,
		Msg: "the result is invalid and the output has no nodata value: declare one, or give a value with fill(a, number)"})
}

// recordInvalid records the first masked pixel, or else the first NaN.
func recordInvalid[T real](ev *Evaluator, in *instr, v []T, mask []byte) {
	for i, x := range v {
		if mask != nil && mask[i] == 0 || x != x {
			ev.noNodata(in, i)
			return
		}
	}
}

func (ev *Evaluator) collision(in *instr, i int) {
	c := ev.counts[in.root.output]
	if c.NodataCollision == 0 || c.FirstCollision > ev.base+i {
		c.FirstCollision = ev.base + i
	}
	c.NodataCollision++
}

// storeSame stores floats unchanged.
func storeSame[T real](o *output, r *root) runner {
	has := o.nodata != nil
	nodata := T(math.NaN()) // equals nothing
	if has {
		nodata = scalarvalue.As[T](*o.nodata)
	}
	direct := r.direct
	return func(ev *Evaluator, in *instr, n int) {
		d, mask, c := ndarray.Cast[T](ev.dst[in.root.at])[:n], ev.masks[in.args[1]], ev.counts[in.root.output]
		if !direct {
			copy(d, vectors[T](ev)[in.args[0]])
		}
		c.Pixels += int64(n)
		if !has && (mask != nil || hasNot(d)) {
			recordInvalid(ev, in, d, mask)
		}
		if mask == nil && !special(d, nodata) {
			return
		}
		if mask != nil {
			// An ordinary value hides what is computed where pixels are invalid.
			plain := T(1)
			if nodata == plain {
				plain = 0
			}
			if patchFloat(d, mask, plain); !special(d, nodata) {
				c.Invalid += int64(bytes.Count(mask[:n], []byte{0}))
				patchFloat(d, mask, nodata)
				return
			}
		}
		// The count has no branches, since invalid pixels may be anywhere.
		ok := ev.valid()[:n]
		var invalid, nans, infinite, equal int
		for i, v := range d {
			m := byte(1)
			if mask != nil {
				m = mask[i]
			}
			invalid += int(m ^ 1)
			nan := m & one(v != v)
			nans += int(nan)
			m &^= nan
			infinite += int(m & one(v-v != 0))
			equal += int(m & one(v == nodata))
			ok[i] = m
		}
		if equal > 0 {
			for i, v := range d {
				if ok[i] != 0 && v == nodata {
					ev.collision(in, i)
				}
			}
		}
		patchFloat(d, ok, nodata)
		c.Invalid += int64(invalid + nans)
		c.NaN += int64(nans)
		c.Inf += int64(infinite)
	}
}

// special reports whether any value is NaN, infinite or k.
func special[T real](s []T, k T) bool {
	if t, ok := any(s).([]float32); ok {
		n, found := special32Fast(t, float32(k))
		if found {
			return true
		}
		s = s[n:]
	}
	bad := byte(0)
	for _, v := range s {
		bad |= one(v-v != 0) | one(v == k)
	}
	return bad != 0
}

// wideSource returns the results of a root as float64.
func wideSource(ev *Evaluator, in *instr, n int) []float64 {
	switch in.root.reg {
	case reg64:
		return ev.r64[in.args[0]][:n]
	case reg32:
		convert(ev.wide(), ev.r32[in.args[0]][:n])
	default:
		convert(ev.wide(), ev.rb[in.args[0]][:n])
	}
	return ev.wide()[:n]
}

// wide returns scratch memory for a chunk of float64.
func (ev *Evaluator) wide() []float64 {
	if ev.stored == nil {
		ev.stored = make([]float64, chunk)
	}
	return ev.stored
}

// valid returns scratch memory for a mask.
func (ev *Evaluator) valid() []byte {
	if ev.ok == nil {
		ev.ok = make([]byte, chunk)
	}
	return ev.ok
}

// writer stores pixels of any type: it scales, converts, replaces invalid pixels and counts.
type writer[T ndarray.Real] struct {
	has    bool
	nodata T
	zero   bool // nodata is a float16 zero, whose sign == of the bits would distinguish
	float  bool
}

// store writes the results to d. convert returns the pixel of a value, and whether the value
// exceeds the type.
func (w *writer[T]) store(ev *Evaluator, in *instr, d []T, convert func(v float64) (T, bool)) {
	o, v, mask, c := in.root.out, wideSource(ev, in, len(d)), ev.masks[in.args[1]], ev.counts[in.root.output]
	if o.scaled {
		s := ev.wide()[:len(v)]
		for i := range v {
			s[i] = (v[i] - o.offset) / o.scale
		}
		v = s
	}
	c.Pixels += int64(len(d))
	for i, x := range v {
		if mask != nil && mask[i] == 0 || x != x {
			c.Invalid++
			if mask == nil || mask[i] != 0 {
				c.NaN++
			}
			if !w.has {
				ev.noNodata(in, i)
				return
			}
			d[i] = w.nodata
			continue
		}
		if w.float && math.IsInf(x, 0) {
			c.Inf++
		}
		r, beyond := convert(x)
		if beyond {
			c.Saturated++
		}
		d[i] = r
		if w.has && (r == w.nodata || w.zero && uint16(r)<<1 == 0) {
			ev.collision(in, i)
		}
	}
}

func storeInt[T integer](o *output, r *root) runner {
	w := writer[T]{has: o.nodata != nil}
	if w.has {
		w.nodata = scalarvalue.As[T](*o.nodata)
	}
	exact := r.typ.fits(o.typ) && !o.scaled && !r.nan
	convert := saturate[T](o.typ)
	general := func(ev *Evaluator, in *instr, n int) {
		w.store(ev, in, ndarray.Cast[T](ev.dst[in.root.at])[:n], convert)
	}
	switch {
	case exact && r.reg == regBool:
		return func(ev *Evaluator, in *instr, n int) { storeExact(&w, ev, in, ev.rb[in.args[0]][:n]) }
	case exact && r.reg == reg64:
		return func(ev *Evaluator, in *instr, n int) { storeExact(&w, ev, in, ev.r64[in.args[0]][:n]) }
	case exact && o.typ.Size() > 2:
		return func(ev *Evaluator, in *instr, n int) { storeExact(&w, ev, in, ev.r32[in.args[0]][:n]) }
	case !o.scaled && r.reg == reg32 && o.typ.Size() <= 2:
		lo, hi := o.typ.Limits()
		return func(ev *Evaluator, in *instr, n int) {
			if !storeRounded(&w, ev, in, n, float32(lo), float32(hi)) {
				general(ev, in, n)
			}
		}
	}
	return general
}

// storeRounded stores float32 in a type of at most 16 bits. It returns false, and counts nothing,
// unless all valid pixels are within the type and invalid ones can be stored.
func storeRounded[T integer](w *writer[T], ev *Evaluator, in *instr, n int, lo, hi float32) bool {
	v, mask := ev.r32[in.args[0]][:n], ev.masks[in.args[1]]
	if ev.rounded == nil {
		ev.rounded = make([]int32, chunk)
	}
	k := ev.rounded[:n]
	if mask != nil {
		if !w.has {
			return false
		}
		masked := ndarray.Cast[float32](ndarray.BytesOf(k))
		copy(masked, v)
		patchFloat(masked, mask, 0)
		v = masked
	}
	if round32(k, v, lo, hi) {
		return false
	}
	d := ndarray.Cast[T](ev.dst[in.root.at])[:n]
	narrow(d, k)
	finish(w, ev, in, d, mask)
	return true
}

// round32 sets d to a rounded half to even, and reports whether any of a is NaN or beyond lo and
// hi. d can be the memory of a.
func round32(d []int32, a []float32, lo, hi float32) (beyond bool) {
	n, beyond := round32Fast(d, a, lo, hi)
	for i, x := range a[n:] {
		r := float32(math.RoundToEven(float64(x)))
		beyond = beyond || !(r >= lo && r <= hi)
		d[n+i] = int32(r)
	}
	return beyond
}

// narrow sets d to the lowest bits of s.
func narrow[T integer](d []T, s []int32) {
	i := 0
	switch any(T(0)).(type) {
	case uint8, int8:
		i = narrow8Fast(ndarray.BytesOf(d), s)
	case uint16, int16:
		i = narrow16Fast(ndarray.Cast[uint16](ndarray.BytesOf(d)), s)
	}
	for ; i < len(s); i++ {
		d[i] = T(s[i])
	}
}

// storeExact stores whole numbers that are known to fit the type.
func storeExact[T integer, S real | byte](w *writer[T], ev *Evaluator, in *instr, v []S) {
	d, mask := ndarray.Cast[T](ev.dst[in.root.at])[:len(v)], ev.masks[in.args[1]]
	for i, x := range v {
		d[i] = T(int64(x))
	}
	if mask != nil && !w.has {
		if i := bytes.IndexByte(mask[:len(v)], 0); i >= 0 {
			ev.counts[in.root.output].Pixels += int64(len(v))
			ev.noNodata(in, i)
			return
		}
	}
	finish(w, ev, in, d, mask)
}

// finish counts stored pixels and sets the invalid ones.
func finish[T integer](w *writer[T], ev *Evaluator, in *instr, d []T, mask []byte) {
	c := ev.counts[in.root.output]
	c.Pixels += int64(len(d))
	if w.has && contains(d, w.nodata) {
		for i, x := range d {
			if x == w.nodata && (mask == nil || mask[i] != 0) {
				ev.collision(in, i)
			}
		}
	}
	if mask == nil {
		return
	}
	mask = mask[:len(d)]
	for i, ok := range mask {
		x := d[i]
		if ok == 0 {
			x = w.nodata
		}
		d[i] = x
	}
	c.Invalid += int64(bytes.Count(mask, []byte{0}))
}

// saturate returns a function that rounds half to even and clamps to the range of the type.
func saturate[T integer](t ndarray.DType) func(v float64) (T, bool) {
	lo, hi := t.Limits()
	least := T(0)
	if t.IsSigned() {
		least = T(int64(math.MinInt64) >> (64 - 8*t.Size()))
	}
	most := least - 1
	return func(v float64) (T, bool) {
		v = math.RoundToEven(v)
		switch {
		case v < lo:
			return least, true
		case v > hi || v == hi && t.Size() == 8: // the limit of a 64-bit type is rounded up
			return most, true
		}
		return T(v), false
	}
}

func storeFloat[T real](o *output) runner {
	w := writer[T]{has: o.nodata != nil, float: true}
	if w.has {
		w.nodata = scalarvalue.As[T](*o.nodata)
	}
	convert := func(v float64) (T, bool) {
		f := T(v)
		return f, math.IsInf(float64(f), 0) && !math.IsInf(v, 0)
	}
	return func(ev *Evaluator, in *instr, n int) {
		w.store(ev, in, ndarray.Cast[T](ev.dst[in.root.at])[:n], convert)
	}
}

func storeFloat16(o *output) runner {
	w := writer[uint16]{has: o.nodata != nil, float: true}
	if w.has {
		w.nodata = uint16(o.nodata.Bits)
		w.zero = w.nodata<<1 == 0
	}
	return func(ev *Evaluator, in *instr, n int) {
		w.store(ev, in, ndarray.Cast[uint16](ev.dst[in.root.at])[:n], toFloat16)
	}
}

// toFloat16 rounds once: the last bit of the intermediate float32 records that bits were lost.
func toFloat16(v float64) (uint16, bool) {
	f := float32(v)
	if exact := float64(f); exact != v && !math.IsInf(exact, 0) {
		b := math.Float32bits(f)
		if math.Abs(exact) > math.Abs(v) {
			b-- // towards zero
		}
		f = math.Float32frombits(b | 1)
	}
	h := ndarray.Float32ToFloat16(f)
	return h, h&0x7fff == 0x7c00 && !math.IsInf(v, 0)
}
