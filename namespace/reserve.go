//go:build unix

package namespace

import "golang.org/x/sys/unix"

// writeZeros reserves by writing, where a file system can't otherwise.
func writeZeros(fd, size int) error {
	zeros := make([]byte, 1<<20)
	for at := 0; at < size; {
		n, err := unix.Pwrite(fd, zeros[:min(len(zeros), size-at)], int64(at))
		if err != nil {
			return err
		}
		at += n
	}
	return nil
}
