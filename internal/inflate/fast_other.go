//go:build !amd64

package inflate

const hasAVX2 = false

func fastAVX2(*Decoder, *byte, int, *byte, int) ending { panic("not for this processor") }

func pairMixedAVX2(*Pair, *byte, int, *byte, int, *byte, int, *byte, int) (a, b ending) {
	panic("not for this processor")
}

func pairAVX2(*Pair, *byte, int, *byte, int, *byte, int, *byte, int) (a, b ending) {
	panic("not for this processor")
}
