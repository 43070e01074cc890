package exec

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// hugePage is the size of the pages that adviseHuge asks for.
const hugePage = 2 << 20

// adviseHuge asks the kernel for huge pages where b covers whole ones. Each takes one page fault
// instead of 512.
func adviseHuge(b []byte) {
	at := uintptr(unsafe.Pointer(unsafe.SliceData(b))) // only its place among huge pages matters
	before := int(-at % hugePage)
	if n := (len(b) - before) &^ (hugePage - 1); n > 0 {
		_ = unix.Madvise(b[before:before+n], unix.MADV_HUGEPAGE) // a hint
	}
}
