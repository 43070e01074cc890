package deflate

import "golang.org/x/sys/cpu"

// hasVectors reports whether the processor can run the routines in assembly.
var hasVectors = cpu.X86.HasAVX512 && cpu.X86.HasAVX512BW && cpu.X86.HasAVX512VBMI && cpu.X86.HasAVX512VBMI2 &&
	cpu.X86.HasBMI2 && cpu.X86.HasPOPCNT

// countVectors counts the bytes of p in c, 64 at a time, and returns how many it counted. It stops
// where less than a vector of p is left.
//
// Most bytes of differences are 0 or 255. Those are counted by comparison, the others one by one.
//
//go:noescape
func countVectors(c *literalCounts, p []byte) (counted int)

// writeVectors writes the words of the literals of src to out, 64 at a time. It returns how many
// literals it wrote, and to how many bytes. It stops where less than a vector of src or 224 bytes
// of out are left. The lowest held bits of acc, fewer than eight, come first, and its other bits
// are 0. It returns the bits after the last whole byte in the same form.
//
//go:noescape
func writeVectors(out, src []byte, t *literalTable, acc, held uint64) (count, written int, accOut, heldOut uint64)

// skipVectors returns the first place, i or a multiple of 8 after it, where the next four bytes, or
// the four after these, equal those one place before them. It stops where less than a vector is
// left. i must be at least 1.
//
//go:noescape
func skipVectors(src []byte, i int) int
