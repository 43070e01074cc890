// Package expr compiles band math such as "(nir - red) / (nir + red)" to typed vector code.
//
// [Parse] reads the text, [Compile] checks it against the types of the inputs and returns a
// [Program], and an [Evaluator] of that program computes pixels. docs/guide/expressions.md defines
// types, validity and nodata: integers never wrap, NaN is never valid, and values are converted to
// a narrower type only on request.
//
// A Program is immutable. Several goroutines may use it, each with its own Evaluator. Results do
// not depend on how pixels are divided among calls. Sums, products and comparisons are the same on
// all processors; transcendental functions may differ in the last bit of a float64.
//
// The package does not use files, grids or blocks. It is optimized for 8- and 16-bit integers and
// float32; expressions with 64-bit integers may be slow.
package expr
