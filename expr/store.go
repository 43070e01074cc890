package expr

import (
	"math"

	"leat/ndarray"
)

// storeKernel returns the instruction that writes an output band.
func storeKernel(o *output, r *root) runner {
	switch o.typ {
	case ndarray.Uint8:
		return storeInt[uint8](o, r)
	case ndarray.Int8:
		return storeInt[int8](o, r)
	case ndarray.Uint16:
		return storeInt[uint16](o, r)
	case ndarray.Int16:
		return storeInt[int16](o, r)
	case ndarray.Uint32:
		return storeInt[uint32](o, r)
	case ndarray.Int32:
		return storeInt[int32](o, r)
	case ndarray.Uint64:
		return storeInt[uint64](o, r)
	case ndarray.Int64:
		return storeInt[int64](o, r)
	case ndarray.Float16:
		return storeFloat16(o, r)
	case ndarray.Float32:
		return storeFloat[float32](o, r)
	}
	return storeFloat[float64](o, r)
}

// source returns the i-th result of a root as float64.
func source(ev *Evaluator, in *instr) func(i int) float64 {
	switch in.root.reg {
	case reg32:
		v := ev.r32[in.args[0]]
		return func(i int) float64 { return float64(v[i]) }
	case reg64:
		v := ev.r64[in.args[0]]
		return func(i int) float64 { return v[i] }
	}
	v := ev.rb[in.args[0]]
	return func(i int) float64 { return float64(v[i]) }
}

// noNodata records that the pixel is invalid and nothing can say so.
func (ev *Evaluator) noNodata(in *instr, i int) {
	ev.failed(PixelError{Index: i, Band: in.root.band + 1,
		Msg: "the result is invalid and the output has no nodata value: declare one, or give a value with fill(a, number)"})
}

func (ev *Evaluator) collision(i int) {
	if ev.counts.NodataCollision == 0 || ev.counts.FirstCollision > ev.base+i {
		ev.counts.FirstCollision = ev.base + i
	}
	ev.counts.NodataCollision++
}

// writer stores pixels one by one, whatever their type: what is fast goes before it.
type writer[T ndarray.Real] struct {
	has    bool
	nodata T
	zero   bool // nodata is a zero of a type whose zeros have a sign that == does not see through
	// convert makes a pixel of a stored value, and says whether it was beyond the type.
	convert func(v float64) (T, bool)
}

func (w *writer[T]) store(ev *Evaluator, in *instr, d []T, float bool) {
	o := &ev.p.out
	get := source(ev, in)
	mask := ev.masks[in.args[1]]
	c := ev.counts
	c.Pixels += int64(len(d))
	for i := range d {
		v := get(i)
		if mask != nil && mask[i] == 0 || v != v {
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
		if o.scaled {
			v = (v - o.offset) / o.scale
		}
		if float && math.IsInf(v, 0) {
			c.Inf++
		}
		r, beyond := w.convert(v)
		if beyond {
			c.Saturated++
		}
		d[i] = r
		if w.has && (r == w.nodata || w.zero && uint16(r)<<1 == 0) {
			ev.collision(i)
		}
	}
}

func storeInt[T integer](o *output, r *root) runner {
	w := writer[T]{has: o.nodata != nil, convert: saturate[T](o.typ)}
	if w.has {
		w.nodata = ndarray.Value[T](*o.nodata)
	}
	return func(ev *Evaluator, in *instr, n int) {
		w.store(ev, in, ndarray.OfBytes[T](ev.dst[in.root.band])[:n], false)
	}
}

// saturate rounds half to even and holds the value within the type.
func saturate[T integer](t ndarray.DType) func(v float64) (T, bool) {
	lo, hi := t.Limits()
	least, most := T(0), T(0)
	if t.IsSigned() {
		least = T(int64(math.MinInt64) >> (64 - 8*t.Size()))
	}
	most = least - 1
	return func(v float64) (T, bool) {
		v = math.RoundToEven(v)
		switch {
		case v < lo:
			return least, true
		case v > hi || v == hi && t.Size() == 8: // the 64-bit limit is rounded up
			return most, true
		}
		return T(v), false
	}
}

func storeFloat[T real](o *output, r *root) runner {
	w := writer[T]{has: o.nodata != nil, convert: func(v float64) (T, bool) {
		f := T(v)
		return f, math.IsInf(float64(f), 0) && !math.IsInf(v, 0)
	}}
	if w.has {
		w.nodata = ndarray.Value[T](*o.nodata)
	}
	return func(ev *Evaluator, in *instr, n int) {
		w.store(ev, in, ndarray.OfBytes[T](ev.dst[in.root.band])[:n], true)
	}
}

func storeFloat16(o *output, r *root) runner {
	w := writer[uint16]{has: o.nodata != nil, convert: toFloat16}
	if w.has {
		w.nodata = uint16(o.nodata.Bits)
		w.zero = w.nodata<<1 == 0
	}
	return func(ev *Evaluator, in *instr, n int) {
		w.store(ev, in, ndarray.OfBytes[uint16](ev.dst[in.root.band])[:n], true)
	}
}

// toFloat16 rounds once: the float32 between keeps, in its last bit, that something was cut off.
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
