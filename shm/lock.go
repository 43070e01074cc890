//go:build unix

package shm

import (
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

func flock(fd, how int) error {
	for {
		if err := unix.Flock(fd, how); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// patiently repeats what says EWOULDBLOCK, for about 0.4 s in all: the length of many starts of
// processes, also where many wait for a processor.
func patiently(f func() error) error {
	for wait := 50 * time.Microsecond; ; wait *= 2 {
		err := f()
		if !errors.Is(err, unix.EWOULDBLOCK) || wait > 210*time.Millisecond {
			return err
		}
		time.Sleep(wait)
	}
}

// zeroFile takes the room of a file by writing to all of it, where the file system knows no better
// way.
func zeroFile(fd int, size int64) error {
	b := make([]byte, min(size, copyChunk))
	for at := int64(0); at < size; at += int64(len(b)) {
		if err := pwriteAll(fd, b[:min(int64(len(b)), size-at)], at); err != nil {
			return err
		}
	}
	return nil
}

// preadFull reads len(b) bytes.
func preadFull(fd int, b []byte, at int64) error {
	for len(b) > 0 {
		n, err := unix.Pread(fd, b, at)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return fmt.Errorf("reading: %w", err)
		case n == 0:
			return fmt.Errorf("%w: the file is shorter than it should be", ErrHandle)
		}
		b, at = b[n:], at+int64(n)
	}
	return nil
}

// errNoMemfd tells that this system has no memfd, or this process no descriptor to spare: another
// place must do.
var errNoMemfd = errors.New("no memfd")

var errSealed = fmt.Errorf("%w: the array can be read (mode r) or copied (mode c) only", ErrSealed)

// mem takes the memory from a segment, so that a use after its end is a panic and not a wrong
// number.
func mem(seg *segment) []byte {
	m := seg.mem
	seg.mem = nil
	return m
}

func mapError(size int64, err error) error {
	if errors.Is(err, unix.ENOMEM) {
		return fmt.Errorf("%w: mapping %d bytes: the address space is limited (ulimit -v), or there are more mappings than vm.max_map_count: %w", ErrNoRoom, size, err)
	}
	return fmt.Errorf("mapping %d bytes: %w", size, err)
}
