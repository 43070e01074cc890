//go:build unix

package index

import (
	"io"
	"unsafe"

	"golang.org/x/sys/unix"
)

// zeros writes n zero bytes from offset on.
func zeros(fd int, offset, n int64) error {
	b := make([]byte, min(n, 1<<20))
	for n > 0 {
		k, err := unix.Pwrite(fd, b[:min(n, int64(len(b)))], offset)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return err
		}
		if k == 0 {
			return io.ErrShortWrite
		}
		offset, n = offset+int64(k), n-int64(k)
	}
	return nil
}

func unmap(c *[chunkCount]record) error {
	return unix.Munmap(unsafe.Slice((*byte)(unsafe.Pointer(c)), chunkSize))
}
