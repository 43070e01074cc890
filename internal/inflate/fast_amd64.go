package inflate

import "golang.org/x/sys/cpu"

// hasAVX2 reports whether the processor can run the loops in assembly.
var hasAVX2 = cpu.X86.HasAVX2 && cpu.X86.HasBMI1 && cpu.X86.HasBMI2

// longestMatch is the lowest entry of the length of the longest match.
//
//lint:ignore U1000 fastAVX2 uses it
const longestMatch = (258 - shortest) << lengthAt

// inverses has, for each k, a number just above 65536/k: n*inverses[k]>>16 is n/k for n up to 64.
//
//lint:ignore U1000 fastAVX2 reads it
var inverses = makeInverses()

//lint:ignore U1000 inverses needs it
func makeInverses() (inverses [64]uint16) {
	for k := 2; k < len(inverses); k++ {
		inverses[k] = uint16(1<<16/k + 1)
	}
	return inverses
}

// fastAVX2 is the loop of fast, from the first bytes of target and source. It stops
// behind outEnd or inEnd, where fewer than outSpace or inSpace bytes are left.
//
//go:noescape
func fastAVX2(d *Decoder, dst *byte, outEnd int, src *byte, inEnd int) ending

// pairAVX2 decodes symbols of two streams, from the first bytes of their targets and sources. It
// stops when either stands behind its outEnd or inEnd, or for the reason it gives for either.
//
//go:noescape
func pairAVX2(p *Pair, dstA *byte, outEndA int, srcA *byte, inEndA int, dstB *byte, outEndB int, srcB *byte,
	inEndB int) (a, b ending)

// pairMixedAVX2 is pairAVX2 for two mixed blocks. At least noDistance bytes of both targets must be
// there.
//
//go:noescape
func pairMixedAVX2(p *Pair, dstA *byte, outEndA int, srcA *byte, inEndA int, dstB *byte, outEndB int, srcB *byte,
	inEndB int) (a, b ending)
