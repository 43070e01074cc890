package geotiff

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// copyRange copies up to n bytes inside the kernel, and returns how many it did. The error
// is errors.ErrUnsupported where these two files can't be copied so.
func copyRange(dst *os.File, dstOff int64, src *os.File, srcOff, n int64) (int64, error) {
	for {
		done, err := unix.CopyFileRange(int(src.Fd()), &srcOff, int(dst.Fd()), &dstOff, int(n), 0)
		switch {
		case err == nil:
			return int64(done), nil
		case errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.EXDEV), errors.Is(err, unix.ENOSYS), errors.Is(err, unix.EINVAL),
			errors.Is(err, unix.EOPNOTSUPP), errors.Is(err, unix.EPERM), errors.Is(err, unix.EIO):
			// EIO is what some network file systems say; where the disk is at fault the plain
			// copy meets it again.
			return 0, errors.ErrUnsupported
		default:
			return 0, os.NewSyscallError("copy_file_range", err)
		}
	}
}
