//go:build !amd64

package adler

const hasAVX2 = false

func sumsAVX2(*byte, int) (bytes, weighted uint64) { panic("not for this processor") }
