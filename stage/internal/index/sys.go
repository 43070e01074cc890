//go:build unix

package index

import (
	"unsafe"

	"leat/internal/fault"
	"leat/internal/fdio"

	"golang.org/x/sys/unix"
)

// allocate allocates n bytes on the disk, so that writing to their mapped pages can't fail for lack
// of space.
func allocate(fd int, offset, n int64) error {
	if err := fault.Error("index.allocate"); err != nil {
		return err
	}
	return fdio.Reserve(fd, offset, n)
}

func unmap(c *[chunkCount]record) error {
	return unix.Munmap(unsafe.Slice((*byte)(unsafe.Pointer(c)), chunkSize))
}
