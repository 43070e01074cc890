// Package overview reduces the resolution of pixels by nearest, center, average or mode over cells
// of factor x factor pixels. Cells at the right and lower edge use the pixels inside the raster.
// All functions are pure. The types to know are [Method] and [Plane]; [Reduce] does the work.
package overview

import (
	"encoding/binary"
	"fmt"
	"math"
	"strings"

	"leat/internal/scalarvalue"
	"leat/ndarray"
)

// Method is the rule by which the pixels of a cell become one pixel.
type Method uint8

const (
	Nearest Method = iota // the upper left pixel, as in GDAL
	Average               // mean of the valid pixels, integers rounded half up; never nodata, see Reduce
	Mode                  // most frequent valid value, the smallest of several
	Center                // the pixel at the centre, the lower right one of four
)

func (m Method) String() string { return [...]string{"nearest", "average", "mode", "center"}[m] }

// Picks reports whether the method takes a pixel of the cell as it is, valid or not.
func (m Method) Picks() bool { return m == Nearest || m == Center }

// ParseMethod returns the method whose name is s; that of "" is Nearest.
func ParseMethod(s string) (Method, error) {
	s = strings.ToLower(s)
	if s == "" || s == "near" { // as resampling calls it
		return Nearest, nil
	}
	for m := Nearest; m <= Center; m++ {
		if m.String() == s {
			return m, nil
		}
	}
	return 0, fmt.Errorf("unknown overview method %q, expected nearest, center, average or mode", s)
}

// Plane is one band of pixels in the machine's byte order. Rows begin Stride pixels apart.
type Plane struct {
	Type          ndarray.DType
	Width, Height int
	Stride        int
	Data          []byte
	// Mask holds Height rows of Width bytes, 0 for invalid pixels; nil means that all are valid.
	// Nearest and Center ignore it.
	Mask []byte
}

// Reduced returns the size of n pixels in cells of factor pixels.
func Reduced(n, factor int) int { return (n + factor - 1) / factor }

// Reduce fills dst, Reduced(Width) x Reduced(Height) pixels without gaps, from src. Pixels that are
// NaN, masked, or equal to nodata, if it is not nil, are invalid. A cell without valid pixels
// becomes nodata; without a nodata value it becomes NaN, or 0 for integers. A mean that equals
// nodata becomes the next value above it (at the type's maximum, the one below), so that it stays
// valid. Complex pixels need Nearest or Center.
func Reduce(m Method, dst []byte, src Plane, factor int, nodata *ndarray.Scalar) error {
	if m.Picks() {
		at := 0
		if m == Center {
			at = factor / 2
		}
		switch src.Type.Size() {
		case 1:
			pick(dst, src.Data, src, factor, at, nil)
		case 2:
			pick(ndarray.Cast[uint16](dst), ndarray.Cast[uint16](src.Data), src, factor, at, nil)
		case 4:
			if !hasAVX2 && factor == 2 && at == 0 && pickHalf(dst, src) {
				return nil
			}
			pick(ndarray.Cast[uint32](dst), ndarray.Cast[uint32](src.Data), src, factor, at, pickFast)
		case 8:
			pick(ndarray.Cast[uint64](dst), ndarray.Cast[uint64](src.Data), src, factor, at, nil)
		default:
			pick(ndarray.Cast[complex128](dst), ndarray.Cast[complex128](src.Data), src, factor, at, nil)
		}
		return nil
	}
	f := reducers[src.Type]
	if f == nil {
		return fmt.Errorf("overviews of %v pixels can only be made by nearest or center", src.Type)
	}
	f(m, dst, src, factor, nodata)
	return nil
}

// reducers holds the function of Reduce by average and mode for each real type.
var reducers = map[ndarray.DType]func(m Method, dst []byte, src Plane, factor int, nodata *ndarray.Scalar){
	ndarray.Float16: half,
	ndarray.Uint8:   cells[uint8], ndarray.Int8: cells[int8], ndarray.Uint16: cells[uint16],
	ndarray.Int16: cells[int16], ndarray.Uint32: cells[uint32], ndarray.Int32: cells[int32],
	ndarray.Uint64: cells[uint64], ndarray.Int64: cells[int64], ndarray.Float32: cells[float32],
	ndarray.Float64: cells[float64],
}

// pick takes the pixel in row and column at of each cell, or the last one inside the raster. fast,
// unless nil, takes the first pixel of the first cells of a row and returns how many it took; the
// next row that is taken begins next pixels after it.
func pick[T any](dst, src []T, p Plane, f, at int, fast func(out, row []T, f, next int) int) {
	w, h := Reduced(p.Width, f), Reduced(p.Height, f)
	inside := w // cells whose pixel is inside the raster
	if (w-1)*f+at >= p.Width {
		inside--
	}
	for y := range h {
		row := src[min(y*f+at, p.Height-1)*p.Stride:][:p.Width]
		out := dst[y*w : (y+1)*w]
		taken := 0
		if fast != nil && at == 0 {
			taken = fast(out[:inside], row, f, f*p.Stride)
		}
		k := at + taken*f
		for x := taken; x < inside; x++ {
			out[x] = row[k]
			k += f
		}
		if inside < w {
			out[inside] = row[p.Width-1]
		}
	}
}

// pickHalf is pick for the first of every two pixels of four bytes, which it moves two at a time.
// It returns false if the width is odd.
func pickHalf(dst []byte, p Plane) bool {
	if p.Width%2 != 0 {
		return false
	}
	le := binary.LittleEndian // the order does not matter: bytes are only moved
	for y := 0; y < p.Height; y += 2 {
		row := p.Data[4*y*p.Stride:][:4*p.Width]
		for ; len(row) >= 32; row, dst = row[32:], dst[16:] {
			r, d := row[:32:32], dst[:16:16]
			le.PutUint64(d, uint64(le.Uint32(r))|uint64(le.Uint32(r[8:]))<<32)
			le.PutUint64(d[8:], uint64(le.Uint32(r[16:]))|uint64(le.Uint32(r[24:]))<<32)
		}
		for ; len(row) >= 8; row, dst = row[8:], dst[4:] {
			le.PutUint32(dst, le.Uint32(row))
		}
	}
	return true
}

// half is cells for float16. It converts to float32, in which every float16 is exact.
func half(m Method, dst []byte, src Plane, f int, nodata *ndarray.Scalar) {
	wide := make([]float32, src.Width*src.Height)
	bits := ndarray.Cast[uint16](src.Data)
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
	cells[float32](m, ndarray.BytesOf(out),
		Plane{ndarray.Float32, src.Width, src.Height, src.Width, ndarray.BytesOf(wide), src.Mask}, f, nodata)
	for i, v := range out {
		ndarray.Cast[uint16](dst)[i] = ndarray.Float32ToFloat16(v)
	}
}

func cells[T ndarray.Real](m Method, dstBytes []byte, p Plane, f int, nodata *ndarray.Scalar) {
	dst, src := ndarray.Cast[T](dstBytes), ndarray.Cast[T](p.Data)
	var none T // value of a cell without valid pixels
	has := nodata != nil && !nodata.IsNaN()
	if has {
		none = scalarvalue.As[T](*nodata)
	} else if p.Type.IsFloat() {
		none = notANumber[T]()
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
				for i, v := range src[at : at+cols] {
					if v == v && (!has || v != none) && (p.Mask == nil || p.Mask[(y*f+r)*p.Width+x*f+i] != 0) {
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
					v = nextValue(v)
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
		// Sums quotients and remainders separately, since a sum of 64-bit values could wrap.
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

// nextValue returns the next value above v, or the one below it at the type's maximum.
func nextValue[T ndarray.Real](v T) T {
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

// mode sorts by insertion: cells have few pixels, and those of class maps are often almost sorted.
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

// notANumber converts at run time, since the compiler refuses a NaN for the integer types of T.
func notANumber[T ndarray.Real]() T {
	nan := math.NaN()
	return T(nan)
}
