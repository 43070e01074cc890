//go:build unix

package store

import (
	"io"

	"leat/internal/fdio"

	"golang.org/x/sys/unix"
)

func openat(dir int, name string, flags int) (int, error) {
	return fdio.Open(dir, name, flags|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
}

func truncate(fd int, size int64) error {
	_, err := fdio.Retry(func() (int, error) { return 0, unix.Ftruncate(fd, size) })
	return err
}

// read fills b, or reads to the end of the file and returns io.EOF.
func read(fd int, b []byte, at int64) (done int, err error) {
	if done, err = fdio.ReadFull(fd, b, at); err == nil && done < len(b) {
		err = io.EOF
	}
	return done, err
}

// allocated returns the space that a file takes on the disk, in bytes.
func allocated(fd int) (int64, error) {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return 0, err
	}
	return int64(st.Blocks) * 512, nil
}

// length returns the length of a file in bytes.
func length(fd int) (int64, error) {
	var st unix.Stat_t
	err := unix.Fstat(fd, &st)
	return st.Size, err
}
