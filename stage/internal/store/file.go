//go:build unix

package store

import (
	"errors"
	"io"

	"golang.org/x/sys/unix"
)

func openat(dir int, name string, flags int, mode uint32) (int, error) {
	for {
		fd, err := unix.Openat(dir, name, flags|unix.O_NOFOLLOW|unix.O_CLOEXEC|unix.O_NONBLOCK, mode)
		if !errors.Is(err, unix.EINTR) {
			return fd, err
		}
	}
}

func truncate(fd int, size int64) error {
	for {
		if err := unix.Ftruncate(fd, size); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// write writes all of b.
func write(fd int, b []byte, at int64) error {
	for len(b) > 0 {
		n, err := unix.Pwrite(fd, b, at)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return err
		case n <= 0:
			return io.ErrShortWrite
		}
		b, at = b[n:], at+int64(n)
	}
	return nil
}

// read fills b, or reads to the end of the file and returns io.EOF.
func read(fd int, b []byte, at int64) (done int, err error) {
	for done < len(b) {
		n, err := unix.Pread(fd, b[done:], at+int64(done))
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return done, err
		case n <= 0:
			return done, io.EOF
		}
		done += n
	}
	return done, nil
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
