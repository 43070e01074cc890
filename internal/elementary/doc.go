// Package elementary has the functions of package math that give the same bits on every processor.
//
// Those of math do not: on arm64 and others the compiler fuses x*y + z into one instruction, which
// rounds once, and on amd64 math.Exp takes another way on processors that can fuse. Here each
// product is rounded by an explicit conversion, which the language forbids to fuse. The algorithms,
// and so the accuracy, are those of Go's math; LICENSE is their licence. On amd64 with FMA the
// results are those of math to the last bit, except where math is wrong there: the logarithms of
// subnormal numbers, and the exponentials just below the largest number.
package elementary

// mulAdd returns x*y + z with the product rounded.
func mulAdd(x, y, z float64) float64 { return float64(x*y) + z }
