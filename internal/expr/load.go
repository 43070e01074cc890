package expr

import (
	"bytes"
	"fmt"
	"math"

	"leat/internal/scalarvalue"
	"leat/ndarray"
)

type integer interface {
	uint8 | int8 | uint16 | int16 | uint32 | int32 | uint64 | int64
}

// alias makes a register point to the input's memory.
func alias[T real](ev *Evaluator, in *instr, n int) {
	vectors[T](ev)[in.dst] = ndarray.Cast[T](ev.src[in.ref].Data)
}

// loaders holds functions that return the instruction that converts a band's pixels.
var loaders = map[ndarray.DType]func(b *Band, r regKind) runner{
	ndarray.Uint8: loader[uint8], ndarray.Int8: loader[int8], ndarray.Uint16: loader[uint16],
	ndarray.Int16: loader[int16], ndarray.Uint32: loader[uint32], ndarray.Int32: loader[int32],
	ndarray.Uint64: loader[uint64], ndarray.Int64: loader[int64], ndarray.Float32: loader[float32],
	ndarray.Float64: loader[float64],
}

func loader[T integer | real](b *Band, r regKind) runner {
	if r == reg32 {
		return load[float32, T](b)
	}
	return load[float64, T](b)
}

func load[D real, T integer | real](b *Band) runner {
	wide := b.Type.IsInteger() && b.Type.Size() == 8
	raw := b.raw()
	scale, offset := b.Scale, b.Offset
	return func(ev *Evaluator, in *instr, n int) {
		s, d := ndarray.Cast[T](ev.src[in.ref].Data)[:n], vectors[D](ev)[in.dst]
		if wide {
			checkExact(ev, in, s)
		}
		if raw {
			convert(d, s)
		} else {
			convertScaled(d, s, scale, offset)
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

// maskers holds functions that return the instruction that finds a band's invalid pixels: masked,
// NaN, or equal to nodata.
var maskers = map[ndarray.DType]func(b *Band) runner{
	ndarray.Uint8: masker[uint8], ndarray.Int8: masker[int8], ndarray.Uint16: masker[uint16],
	ndarray.Int16: masker[int16], ndarray.Uint32: masker[uint32], ndarray.Int32: masker[int32],
	ndarray.Uint64: masker[uint64], ndarray.Int64: masker[int64], ndarray.Float32: masker[float32],
	ndarray.Float64: masker[float64],
}

func masker[T integer | real](b *Band) runner {
	float := b.Type.IsFloat()
	var nodata T
	has := b.Nodata != nil && !b.Nodata.IsNaN()
	if has {
		nodata = scalarvalue.As[T](*b.Nodata)
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
			for i := differ(d, s, nodata); i < len(s); i++ {
				d[i] = one(s[i] != nodata)
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

// differ sets d to 1 where a pixel is not v and to 0 elsewhere, for as many pixels as the vector
// routine handles, and returns their number.
func differ[T integer | real](d []byte, s []T, v T) int {
	switch s := any(s).(type) {
	case []uint16:
		return differ16Fast(d, s, uint16(v))
	case []int16:
		return differ16Fast(d, ndarray.Cast[uint16](ndarray.BytesOf(s)), uint16(int16(v)))
	}
	return 0
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
