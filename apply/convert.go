package apply

import (
	"fmt"
	"math"

	"leat/ndarray"
)

// As returns the pixels of an input of one file and one band as a slice of rows*columns values of
// type T, whatever the type of the file. Pixels that are not valid (see Block.Valid) are NaN; with
// Controls.Unscale or Input.Scale the others are pixel*scale+offset. Integers that T can't
// represent are rounded to the nearest T.
//
// The slice is the caller's until the function returns: later blocks reuse its memory. As panics
// like Block.In, if the input has several bands, and if its pixels are complex.
func As[T float32 | float64](b *Block, input string) []T {
	if n := len(b.exec.File(b.file(input)).Layers); n != 1 {
		panic(fmt.Sprintf("input %q has %d bands: As needs one, AsBand selects one", input, n))
	}
	return AsBand[T](b, input, 1)
}

// AsBand is As for one band of an input, counted from 1.
func AsBand[T float32 | float64](b *Block, input string, band int) []T {
	i := b.file(input)
	f := b.exec.File(i)
	plane := b.plane(input, band)
	out := ndarray.Slice[T](b.exec.NewArray(ndarray.TypeOf[T](), 1).At(0))
	scale, offset := f.Scaling(f.Layers[band-1], b.names.unscale)
	if scale == 0 { // a source that gives none may leave it 0
		scale = 1
	}
	convertPlane(out, plane, scale, offset)
	nan := T(math.NaN())
	for i, valid := range b.exec.Valid(i).At(band - 1).Raw() {
		if valid == 0 {
			out[i] = nan
		}
	}
	return out
}

// convertPlane sets out to the elements of a plane times scale plus offset.
func convertPlane[T float32 | float64](out []T, plane *ndarray.Array, scale, offset float64) {
	switch plane.Type {
	case ndarray.Uint8:
		convert(out, ndarray.Slice[uint8](plane), scale, offset)
	case ndarray.Int8:
		convert(out, ndarray.Slice[int8](plane), scale, offset)
	case ndarray.Uint16:
		convert(out, ndarray.Slice[uint16](plane), scale, offset)
	case ndarray.Int16:
		convert(out, ndarray.Slice[int16](plane), scale, offset)
	case ndarray.Uint32:
		convert(out, ndarray.Slice[uint32](plane), scale, offset)
	case ndarray.Int32:
		convert(out, ndarray.Slice[int32](plane), scale, offset)
	case ndarray.Uint64:
		convert(out, ndarray.Slice[uint64](plane), scale, offset)
	case ndarray.Int64:
		convert(out, ndarray.Slice[int64](plane), scale, offset)
	case ndarray.Float32:
		convert(out, ndarray.Slice[float32](plane), scale, offset)
	case ndarray.Float64:
		convert(out, ndarray.Slice[float64](plane), scale, offset)
	default:
		panic(fmt.Sprintf("pixels of %v are not real numbers", plane.Type))
	}
}

// convert computes in float64 and rounds once, as expressions do.
func convert[T float32 | float64, S ndarray.Real](out []T, in []S, scale, offset float64) {
	if scale == 1 && offset == 0 {
		for i, v := range in {
			out[i] = T(v)
		}
		return
	}
	for i, v := range in {
		out[i] = T(float64(float64(v)*scale) + offset)
	}
}
