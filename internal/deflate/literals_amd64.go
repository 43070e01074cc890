package deflate

import "golang.org/x/sys/cpu"

// hasVBMI reports whether the processor can run literalsVBMI.
var hasVBMI = cpu.X86.HasAVX512 && cpu.X86.HasAVX512BW && cpu.X86.HasAVX512VBMI && cpu.X86.HasBMI2

// literalsVBMI writes the words of the literals of src to out, 64 at a time. It returns how many
// literals it wrote, and to how many bytes. It stops where less than a vector of src or 224 bytes
// of out are left. The lowest held bits of acc, fewer than eight, come first, and its other bits
// are 0. It returns the bits after the last whole byte in the same form.
//
//go:noescape
func literalsVBMI(out, src []byte, t *literalTable, acc, held uint64) (count, written int, accOut, heldOut uint64)
