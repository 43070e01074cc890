// Package expr turns band math such as "(nir - red) / (nir + red)" into typed vector code.
//
// [Parse] reads the text, [Compile] checks it against the types of the inputs and gives a [Program],
// and an [Evaluator] of that program computes pixels. The rules of types, validity and nodata are the table in
// docs/guide/expressions.md: integers never wrap, every pixel is valid or not, a NaN is never
// valid, and nothing is cast unless asked for.
//
// A Program is immutable and may be used by many goroutines, each with an Evaluator of its own. Results
// do not depend on how pixels are divided among calls. Sums, products and comparisons agree bit by bit
// between processors; transcendental functions may differ in the last bit of a float64.
//
// The package knows nothing of files, grids or blocks, and does not promise speed for expressions
// that mix 64-bit integers with everything else: what is fast is 8 and 16-bit integers and float32.
package expr
