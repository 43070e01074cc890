// Package overview makes reduced copies of pixels: nearest, average and mode, over cells of
// factor x factor pixels. Cells at the right and lower edge have the pixels that there are. All functions are
// pure and keep nothing.
package overview

import (
	"fmt"
	"math"

	"leat/ndarray"
)

// Method says how the pixels of a cell become one.
type Method uint8

const (
	Nearest Method = iota // the upper left pixel, as GDAL takes it
	Average               // mean of the valid pixels, integers rounded half up; never nodata, see Reduce
	Mode                  // most frequent valid value, the smallest of several
)

func (m Method) String() string { return [...]string{"nearest", "average", "mode"}[m] }

// ParseMethod returns the method of that name.
func ParseMethod(s string) (Method, error) {
	for m := Nearest; m <= Mode; m++ {
		if m.String() == s {
			return m, nil
		}
	}
	return 0, fmt.Errorf("unknown overview method %q (use nearest, average or mode)", s)
}

// Plane is one band of pixels in machine order; rows begin Stride pixels apart.
type Plane struct {
	Type          ndarray.DType
	Width, Height int
	Stride        int
	Data          []byte
}

// Reduced returns the size of n pixels in cells of factor.
func Reduced(n, factor int) int { return (n + factor - 1) / factor }

// Reduce fills dst, Reduced(Width) x Reduced(Height) pixels without gaps, from src. nodata may be nil; where it
// is set, and for NaN, pixels are invalid: a cell with no valid pixel becomes nodata (NaN without
// one), and a mean of valid pixels that happens to be nodata becomes the next value above it (below, at the type's
// end), so that it stays valid. Only Nearest works on complex pixels.
func Reduce(m Method, dst []byte, src Plane, factor int, nodata *ndarray.Scalar) error {
	if m == Nearest {
		switch src.Type.Size() {
		case 1:
			nearest(dst, src.Data, src, factor)
		case 2:
			nearest(ndarray.OfBytes[uint16](dst), ndarray.OfBytes[uint16](src.Data), src, factor)
		case 4:
			nearest(ndarray.OfBytes[uint32](dst), ndarray.OfBytes[uint32](src.Data), src, factor)
		case 8:
			nearest(ndarray.OfBytes[uint64](dst), ndarray.OfBytes[uint64](src.Data), src, factor)
		default:
			nearest(ndarray.OfBytes[complex128](dst), ndarray.OfBytes[complex128](src.Data), src, factor)
		}
		return nil
	}
	switch src.Type {
	case ndarray.Uint8:
		cells[uint8](m, dst, src, factor, nodata)
	case ndarray.Int8:
		cells[int8](m, dst, src, factor, nodata)
	case ndarray.Uint16:
		cells[uint16](m, dst, src, factor, nodata)
	case ndarray.Int16:
		cells[int16](m, dst, src, factor, nodata)
	case ndarray.Uint32:
		cells[uint32](m, dst, src, factor, nodata)
	case ndarray.Int32:
		cells[int32](m, dst, src, factor, nodata)
	case ndarray.Uint64:
		cells[uint64](m, dst, src, factor, nodata)
	case ndarray.Int64:
		cells[int64](m, dst, src, factor, nodata)
	case ndarray.Float32:
		cells[float32](m, dst, src, factor, nodata)
	case ndarray.Float64:
		cells[float64](m, dst, src, factor, nodata)
	case ndarray.Float16:
		half(m, dst, src, factor, nodata)
	default:
		return fmt.Errorf("overviews of %v pixels can only be made by nearest", src.Type)
	}
	return nil
}

func nearest[T any](dst, src []T, p Plane, f int) {
	w, h := Reduced(p.Width, f), Reduced(p.Height, f)
	for y := range h {
		row := src[y*f*p.Stride:]
		out := dst[y*w : (y+1)*w]
		for x := range out {
			out[x] = row[x*f]
		}
	}
}

// half does it for float16, by way of float32, in which every value is exact.
func half(m Method, dst []byte, src Plane, f int, nodata *ndarray.Scalar) {
	wide := make([]float32, src.Width*src.Height)
	bits := ndarray.OfBytes[uint16](src.Data)
	for y := range src.Height {
		for x := range src.Width {
			wide[y*src.Width+x] = ndarray.Float16ToFloat32(bits[y*src.Stride+x])
		}
	}
	if nodata != nil {
		s := ndarray.ScalarOf(float32(nodata.Float64()))
		nodata = &s
	}
	out := make([]float32, Reduced(src.Width, f)*Reduced(src.Height, f))
	cells[float32](m, ndarray.AsBytes(out), Plane{ndarray.Float32, src.Width, src.Height, src.Width, ndarray.AsBytes(wide)}, f, nodata)
	for i, v := range out {
		ndarray.OfBytes[uint16](dst)[i] = ndarray.Float32ToFloat16(v)
	}
}

func cells[T ndarray.Real](m Method, dstBytes []byte, p Plane, f int, nodata *ndarray.Scalar) {
	dst, src := ndarray.OfBytes[T](dstBytes), ndarray.OfBytes[T](p.Data)
	var none T // what a cell without a valid pixel becomes
	has := nodata != nil && !nodata.IsNaN()
	if has {
		none = ndarray.Value[T](*nodata)
	} else if p.Type.IsFloat() {
		none = T(nan())
	}
	w, h := Reduced(p.Width, f), Reduced(p.Height, f)
	valid := make([]T, 0, f*f)
	for y := range h {
		rows := min(f, p.Height-y*f)
		for x := range w {
			cols := min(f, p.Width-x*f)
			valid = valid[:0]
			for r := range rows {
				at := (y*f+r)*p.Stride + x*f
				for _, v := range src[at : at+cols] {
					if v == v && (!has || v != none) {
						valid = append(valid, v)
					}
				}
			}
			switch {
			case len(valid) == 0:
				dst[y*w+x] = none
			case m == Average:
				v := mean(valid)
				if has && v == none {
					v = beside(v)
				}
				dst[y*w+x] = v
			default:
				dst[y*w+x] = mode(valid)
			}
		}
	}
}

func mean[T ndarray.Real](v []T) T {
	n := len(v)
	switch any(v[0]).(type) {
	case float32, float64:
		sum := 0.0
		for _, x := range v {
			sum += float64(x)
		}
		return T(sum / float64(n))
	case uint64:
		// Quotients and remainders apart: a sum of 64-bit values could wrap.
		var q, r uint64
		for _, x := range v {
			q += uint64(x) / uint64(n)
			r += uint64(x) % uint64(n)
		}
		return T(q + (2*r+uint64(n))/uint64(2*n))
	}
	var q, r int64
	for _, x := range v {
		q += int64(x) / int64(n)
		r += int64(x) % int64(n)
	}
	return T(q + floorDiv(2*r+int64(n), int64(2*n)))
}

// beside is the next value above v, or the one below the largest of the type.
func beside[T ndarray.Real](v T) T {
	switch x := any(v).(type) {
	case float32:
		return T(math.Nextafter32(x, float32(math.Inf(1))))
	case float64:
		return T(math.Nextafter(x, math.Inf(1)))
	}
	if v+1 < v { // integers wrap
		return v - 1
	}
	return v + 1
}

func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}

// mode sorts by insertion: a cell has few pixels, and those of a class map mostly lie sorted.
func mode[T ndarray.Real](v []T) T {
	for i := 1; i < len(v); i++ {
		for k := i; k > 0 && v[k] < v[k-1]; k-- {
			v[k], v[k-1] = v[k-1], v[k]
		}
	}
	best, most := v[0], 0
	for i := 0; i < len(v); {
		k := i
		for k < len(v) && v[k] == v[i] {
			k++
		}
		if k-i > most {
			best, most = v[i], k-i
		}
		i = k
	}
	return best
}

func nan() float64 { return math.NaN() }

// DefaultLevels are RIOS's: 4, 8, 16, ... up to 512 while the smaller side stays above 128 pixels.
func DefaultLevels(width, height int) []int {
	var l []int
	for f := 4; f <= 512 && min(width, height)/f > 128; f *= 2 {
		l = append(l, f)
	}
	return l
}

// COGLevels are 2, 4, 8, ... until the larger side has at most 512 pixels.
func COGLevels(width, height int) []int {
	var l []int
	for f := 1; Reduced(max(width, height), f) > 512; {
		f *= 2
		l = append(l, f)
	}
	return l
}
