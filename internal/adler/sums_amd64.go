package adler

import "golang.org/x/sys/cpu"

// hasAVX2 reports whether the processor can run sumsAVX2.
var hasAVX2 = cpu.X86.HasAVX2

// sumsAVX2 returns the sum of n bytes, and the sum of each byte times the number of bytes from it
// to the end. n is a multiple of vector, and at most longest.
//
//go:noescape
func sumsAVX2(p *byte, n int) (bytes, weighted uint64)
