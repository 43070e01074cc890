package apply

import (
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// dropsWritten: what was written to a private mapping can be dropped again.
const dropsWritten = true

// dropWritten drops what this process wrote to its pages of a private mapping, so that they show what is shared again. The pages at both ends may hold
// other things of the same mapping, which nobody writes to.
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
