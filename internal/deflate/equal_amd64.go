package deflate

import "golang.org/x/sys/cpu"

// comparesVectors reports whether the processor can run equalVectors.
var comparesVectors = cpu.X86.HasAVX2

// equalVectors returns where the bytes of src from i on cease to equal those from i-d on. If they
// don't, it returns a place after which less than 64 bytes are left. d must be above 0 and at most
// i.
//
//go:noescape
func equalVectors(src []byte, i, d int) int
