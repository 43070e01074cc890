// Package ndarray describes typed n-dimensional arrays over plain bytes: element types,
// shapes, strides, single values that keep their type, and the header of NumPy's .npy files.
// It does no input or output of its own and allocates only in New and FromSlice.
//
// The types to know are [DType], [Array] and [Scalar]. An Array is a view: copying the struct
// copies the description, never the elements. Nothing here is synchronised; an Array may be
// read by many goroutines while nobody writes its elements.
//
// The model is NumPy's: byte strides (signed), C order by default, little-endian files. Elements in
// memory are always in the machine's byte order.
package ndarray
