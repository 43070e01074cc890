package exec

import (
	"leat/internal/scalarvalue"
	"leat/ndarray"
)

// validity sets dst to 0 where a pixel of the plane is nodata, NaN or masked, and to 1 elsewhere.
func validity(dst []byte, plane *ndarray.Array, nodata *ndarray.Scalar, mask []byte) {
	switch plane.Type {
	case ndarray.Uint8:
		validOf[uint8](dst, plane, nodata)
	case ndarray.Int8:
		validOf[int8](dst, plane, nodata)
	case ndarray.Uint16:
		validOf[uint16](dst, plane, nodata)
	case ndarray.Int16:
		validOf[int16](dst, plane, nodata)
	case ndarray.Uint32:
		validOf[uint32](dst, plane, nodata)
	case ndarray.Int32:
		validOf[int32](dst, plane, nodata)
	case ndarray.Uint64:
		validOf[uint64](dst, plane, nodata)
	case ndarray.Int64:
		validOf[int64](dst, plane, nodata)
	case ndarray.Float32:
		validOf[float32](dst, plane, nodata)
	case ndarray.Float64:
		validOf[float64](dst, plane, nodata)
	case ndarray.Complex64:
		validComplex[complex64](dst, plane, nodata)
	case ndarray.Complex128:
		validComplex[complex128](dst, plane, nodata)
	}
	for i, m := range mask {
		if m == 0 {
			dst[i] = 0
		}
	}
}

func validOf[T ndarray.Real](dst []byte, plane *ndarray.Array, nodata *ndarray.Scalar) {
	px := ndarray.Slice[T](plane)
	has := nodata != nil && !nodata.IsNaN()
	var none T
	if has {
		none = scalarvalue.As[T](*nodata)
	}
	for i, v := range px {
		dst[i] = 0
		if v == v && (!has || v != none) {
			dst[i] = 1
		}
	}
}

// validComplex compares nodata with the real part, as GDAL does.
func validComplex[T complex64 | complex128](dst []byte, plane *ndarray.Array, nodata *ndarray.Scalar) {
	for i, v := range ndarray.Slice[T](plane) {
		dst[i] = 0
		re, im := real(complex128(v)), imag(complex128(v))
		if re == re && im == im && (nodata == nil || nodata.IsNaN() || re != nodata.Float64()) {
			dst[i] = 1
		}
	}
}
