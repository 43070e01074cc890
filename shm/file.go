//go:build unix

package shm

import (
	"errors"
	"fmt"
	"time"

	"leat/internal/backoff"

	"golang.org/x/sys/unix"
)

func flock(fd, how int) error {
	for {
		if err := unix.Flock(fd, how); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// patiently repeats f while it returns EWOULDBLOCK, for about 0.4 s: children that are being
// started keep locks for a moment, longer on a busy machine.
func patiently(f func() error) error {
	for pause := (backoff.Backoff{Next: 50 * time.Microsecond}); ; pause.Sleep() {
		err := f()
		if !errors.Is(err, unix.EWOULDBLOCK) || pause.Next > 400*time.Millisecond {
			return err
		}
	}
}

// zeroFile allocates a file by writing zeros to all of it.
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
			return fmt.Errorf("%w: file is cut short", ErrHandle)
		}
		b, at = b[n:], at+int64(n)
	}
	return nil
}

// errNoMemfd is returned if the system has no memfd, or the process no descriptor to spare; another
// place may do.
var errNoMemfd = errors.New("no memfd")

var errSealed = fmt.Errorf("%w: attach with mode r or c", ErrSealed)

// mem returns the memory of a segment and removes it from it: a later use panics instead of reading
// wrong numbers.
func mem(seg *segment) []byte {
	m := seg.mem
	seg.mem = nil
	return m
}

func mapError(size int64, err error) error {
	if errors.Is(err, unix.ENOMEM) {
		return fmt.Errorf("%w: mapping %d bytes (limits: ulimit -v, vm.max_map_count): %w", ErrNoSpace, size, err)
	}
	return fmt.Errorf("mapping %d bytes: %w", size, err)
}
