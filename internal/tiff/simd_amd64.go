package tiff

import "golang.org/x/sys/cpu"

// hasAVX2 reports whether the processor can run the routines of simd_amd64.s.
var hasAVX2 = cpu.X86.HasAVX2

func sum8AVX(d, row *uint8, n int)
func sum16AVX(d, row *uint16, n int)
func joinPlanesAVX(out *uint32, b0, b1, b2, b3 *uint8, n int)

// sumFast sets the first words of d, which is as long as row, to the running sums of row, and
// returns how many it has set.
func sumFast[T uint8 | uint16 | uint32 | uint64](d, row []T) int {
	if !hasAVX2 || len(row) < 16 {
		return 0
	}
	n := len(row) &^ 15
	_ = d[n-1]
	switch row := any(row).(type) {
	case []uint8:
		sum8AVX(&any(d).([]uint8)[0], &row[0], n)
	case []uint16:
		sum16AVX(&any(d).([]uint16)[0], &row[0], n)
	default:
		return 0
	}
	return n
}

// joinPlanesFast joins the first bytes of four planes into words, and returns how many words.
func joinPlanesFast(out []uint32, b0, b1, b2, b3 []uint8) int {
	n := len(out) &^ 15
	if !hasAVX2 || n == 0 {
		return 0
	}
	_, _, _, _ = b0[n-1], b1[n-1], b2[n-1], b3[n-1]
	joinPlanesAVX(&out[0], &b0[0], &b1[0], &b2[0], &b3[0], n)
	return n
}
