//go:build !amd64

package inflate

const hasAVX2 = false

func fastAVX2(*Decoder, *byte, int, *byte, int) ending { panic("not for this processor") }
