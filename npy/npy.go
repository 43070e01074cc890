// Package npy reads NumPy's .npy files as rasters, and writes their headers.
//
// [Open] returns a [raster.Source] of an array of the shape (rows, columns) or (bands, rows,
// columns), without georeferencing or nodata value. It reads with pread and caches no pixels; it is
// also a [raster.RangeLister].
//
// Headers come from outside: their sizes and nesting are limited, and everything else that NumPy's
// own writer would not produce is an error.
package npy

import (
	"io"

	"leat/internal/npy"
	"leat/ndarray"
	"leat/raster"
)

// Open opens the .npy file at path, in C or Fortran order and either byte order. An array of two
// dimensions has one band. float16 elements are read as float32, and bool elements as uint8, 1 for
// every byte but 0, as NumPy's astype converts them. The error wraps raster.ErrFormat when the file
// is not a .npy file or is cut short, raster.ErrUnsupported when its elements are neither numbers
// nor bool or it has neither two nor three dimensions, or else the system's error.
func Open(path string) (raster.Source, error) {
	f, err := npy.Open(path)
	if err != nil {
		return nil, err
	}
	return f, nil
}

// OpenAt is Open for a file of size bytes that is read through r, which must allow concurrent
// reads; name is the path in messages and in Info. The source closes r if it is an io.Closer, also
// when OpenAt fails. If r is a [raster.Prefetcher], each read first calls its Fetch.
func OpenAt(r io.ReaderAt, size int64, name string) (raster.Source, error) {
	f, err := npy.OpenAt(r, size, name)
	if err != nil {
		return nil, err
	}
	return f, nil
}

// AppendHeader appends to dst the header of a file whose elements, in C order and little-endian,
// follow it. Its length is a multiple of 64. The error says that t is not a type of numbers, or
// that the shape is negative or larger than any memory.
func AppendHeader(dst []byte, t ndarray.DType, shape ...int) ([]byte, error) {
	return npy.Header{Elem: npy.ElemOfDType(t), Shape: shape}.Append(dst, 64)
}
