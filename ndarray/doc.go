// Package ndarray describes typed n-dimensional arrays over plain bytes: element types, shapes,
// strides, and single values that keep their type. It does no input or output, and only New
// allocates memory for elements.
//
// The types to know are [DType], [Array] and [Scalar]. An Array is a view: copying the struct
// copies the description, not the elements. Nothing here is synchronized; several goroutines may
// read an Array while none writes its elements.
//
// The model is NumPy's: signed byte strides, C order by default. Elements in memory are always in
// the machine's byte order. There is no type for NumPy's bool: truth values are Uint8, 0 or 1.
package ndarray
