package exec

import (
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// dropsWritten reports whether writes to a private mapping can be undone.
const dropsWritten = true

// dropWritten discards what this process wrote to its pages of a private mapping, so that they show
// the shared data again. The first and last page may hold other data of the same mapping, which is
// never written.
func dropWritten(region []byte) error {
	page := uintptr(os.Getpagesize())
	at := uintptr(unsafe.Pointer(unsafe.SliceData(region)))
	before := at % page
	size := (before + uintptr(len(region)) + page - 1) &^ (page - 1)
	_, _, errno := unix.Syscall(unix.SYS_MADVISE, at-before, size, unix.MADV_DONTNEED)
	if errno != 0 {
		return errno
	}
	return nil
}
