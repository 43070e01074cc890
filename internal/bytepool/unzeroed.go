package bytepool

import (
	"strings"
	"unsafe"
)

// unzeroed returns at least one byte of new memory with undefined content. make would zero it: for
// 100 KiB that takes as long as a copy. A strings.Builder is the only memory without pointers that
// Go's library does not zero, and only unsafe gives it as a slice.
func unzeroed(n int) []byte {
	var b strings.Builder
	b.Grow(n)
	b.WriteByte(0) // the pointer of an empty string is undefined
	// Nobody else has the string, whose memory has at least n bytes: writing to it is safe.
	return unsafe.Slice(unsafe.StringData(b.String()), n)
}
