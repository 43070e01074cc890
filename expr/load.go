package expr

import (
	"bytes"
	"fmt"
	"math"

	"leat/ndarray"
)

type integer interface {
	uint8 | int8 | uint16 | int16 | uint32 | int32 | uint64 | int64
}

// alias32 makes a register point to the input's memory.
func alias32(ev *Evaluator, in *instr, n int) {
	ev.r32[in.dst] = ndarray.Cast[float32](ev.src[in.ref].Data)
}

func alias64(ev *Evaluator, in *instr, n int) {
	ev.r64[in.dst] = ndarray.Cast[float64](ev.src[in.ref].Data)
}

// loadKernel returns the instruction that converts a band's pixels.
func loadKernel(b *Band, r regKind) runner {
	switch b.Type {
	case ndarray.Uint8:
		return loader[uint8](b, r)
	case ndarray.Int8:
		return loader[int8](b, r)
	case ndarray.Uint16:
		return loader[uint16](b, r)
	case ndarray.Int16:
		return loader[int16](b, r)
	case ndarray.Uint32:
		return loader[uint32](b, r)
	case ndarray.Int32:
		return loader[int32](b, r)
	case ndarray.Uint64:
		return loader[uint64](b, r)
	case ndarray.Int64:
		return loader[int64](b, r)
	case ndarray.Float32:
		return loader[float32](b, r)
	}
	return loader[float64](b, r)
}

func loader[T integer | real](b *Band, r regKind) runner {
	wide := b.Type.IsInteger() && b.Type.Size() == 8
	raw := b.raw()
	scale, offset := b.Scale, b.Offset
	return func(ev *Evaluator, in *instr, n int) {
		s := ndarray.Cast[T](ev.src[in.ref].Data)[:n]
		if wide {
			checkExact(ev, in, s)
		}
		switch {
		case raw && r == reg32:
			convert(ev.r32[in.dst], s)
		case raw:
			convert(ev.r64[in.dst], s)
		case r == reg32:
			convertScaled(ev.r32[in.dst], s, scale, offset)
		default:
			convertScaled(ev.r64[in.dst], s, scale, offset)
		}
	}
}

func convert[D real, T integer | real](d []D, s []T) {
	d = d[:len(s)]
	for i := widen(d, s); i < len(s); i++ {
		d[i] = D(s[i])
	}
}

// widen converts as many pixels as a vector routine can and returns their number.
func widen[D real, T integer | real](d []D, s []T) int {
	f, ok := any(d).([]float32)
	if !ok {
		return 0
	}
	switch s := any(s).(type) {
	case []uint8:
		return widenU8(f, s)
	case []uint16:
		return widenU16(f, s)
	case []int16:
		return widenI16(f, s)
	}
	return 0
}

// convertScaled computes in float64 and rounds once to the result.
func convertScaled[D real, T integer | real](d []D, s []T, scale, offset float64) {
	d = d[:len(s)]
	for i := range s {
		d[i] = D(float64(float64(s[i])*scale) + offset)
	}
}

// checkExact records the first valid pixel that float64 cannot represent.
func checkExact[T integer | real](ev *Evaluator, in *instr, s []T) {
	mask := ev.masks[in.args[0]]
	for i, v := range s {
		if f := float64(v); f <= maxExact && f >= -maxExact && T(f) == v || mask != nil && mask[i] == 0 {
			continue
		}
		ev.recordError(PixelError{Index: i, Input: ev.p.refNames[in.ref],
			Msg: fmt.Sprintf("the value %v is beyond 2^53, where float64 is no longer exact", v)})
		return
	}
}

// maskKernel returns the instruction that finds a band's invalid pixels: masked, NaN, or equal to
// nodata.
func maskKernel(b *Band) runner {
	switch b.Type {
	case ndarray.Uint8:
		return masker[uint8](b)
	case ndarray.Int8:
		return masker[int8](b)
	case ndarray.Uint16:
		return masker[uint16](b)
	case ndarray.Int16:
		return masker[int16](b)
	case ndarray.Uint32:
		return masker[uint32](b)
	case ndarray.Int32:
		return masker[int32](b)
	case ndarray.Uint64:
		return masker[uint64](b)
	case ndarray.Int64:
		return masker[int64](b)
	case ndarray.Float32:
		return masker[float32](b)
	}
	return masker[float64](b)
}

func masker[T integer | real](b *Band) runner {
	float := b.Type.IsFloat()
	var nodata T
	has := b.Nodata != nil && !b.Nodata.IsNaN()
	if has {
		nodata = ndarray.Value[T](*b.Nodata)
	}
	return func(ev *Evaluator, in *instr, n int) {
		s := ndarray.Cast[T](ev.src[in.ref].Data)[:n]
		found := has && contains(s, nodata) || float && hasNot(s)
		mask := ev.src[in.ref].Mask
		if mask != nil && bytes.IndexByte(mask[:n], 0) < 0 {
			mask = nil
		}
		if !found && mask == nil {
			ev.masks[in.dst] = nil
			return
		}
		d := ev.maskBuffer(in, n)
		switch {
		case !found:
		case has && float:
			for i, v := range s {
				d[i] = one(v != nodata) & one(v == v)
			}
		case has:
			for i, v := range s {
				d[i] = one(v != nodata)
			}
		default:
			for i, v := range s {
				d[i] = one(v == v)
			}
		}
		if mask != nil {
			for i, v := range mask[:n] {
				m := one(v != 0)
				if found {
					m &= d[i]
				}
				d[i] = m
			}
		}
	}
}

func contains[T integer | real](s []T, v T) bool {
	switch t := any(s).(type) {
	case []uint8:
		return bytes.IndexByte(t, uint8(v)) >= 0
	case []uint16:
		n, found := contains16Fast(t, uint16(v))
		if found {
			return true
		}
		s = s[n:]
	case []int16:
		n, found := contains16Fast(ndarray.Cast[uint16](ndarray.BytesOf(t)), uint16(v))
		if found {
			return true
		}
		s = s[n:]
	}
	for _, x := range s {
		if x == v {
			return true
		}
	}
	return false
}

// hasNot reports whether any value is NaN.
func hasNot[T integer | real](s []T) bool {
	if t, ok := any(s).([]float32); ok {
		n, found := special32Fast(t, float32(math.NaN()))
		if !found {
			s = s[n:] // else an infinity may be the cause: search all
		}
	}
	for _, x := range s {
		if x != x {
			return true
		}
	}
	return false
}
