package adler

import "golang.org/x/sys/cpu"

// hasAVX2 reports whether the processor can run sumsAVX2.
var hasAVX2 = cpu.X86.HasAVX2

// sumsAVX2 adds up n bytes, and each of them times the number of bytes from it to the end. n is a
// multiple of vector, and longest at most.
//
//go:noescape
func sumsAVX2(p *byte, n int) (bytes, weighted uint64)
