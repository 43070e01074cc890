package tiffwrite

import (
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// mapped calls f with n bytes of src from an offset on, in memory that the kernel maps to the pages
// of the file. f may only pass them to the kernel: if the file becomes shorter meanwhile, system
// calls return EFAULT, but reading them would end the process. It returns false, without a call, if
// the file can't be mapped.
func mapped(src *os.File, at, n int64, f func(b []byte) error) (bool, error) {
	before := at % int64(os.Getpagesize())
	b, err := unix.Mmap(int(src.Fd()), at-before, int(before+n), unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return false, nil
	}
	defer func() { _ = unix.Munmap(b) }()
	// All pages at once. Without this request, which kernels before 5.14 don't know, they are
	// mapped one after another.
	_ = unix.Madvise(b, unix.MADV_POPULATE_READ)
	if err := f(b[before:]); err != nil {
		return true, err
	}
	// In the last page, what follows the end of the file reads as zeros.
	st, err := src.Stat()
	if err == nil && st.Size() < at+n {
		err = io.ErrUnexpectedEOF
	}
	return true, err
}
