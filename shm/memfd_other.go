//go:build unix && !linux

package shm

import (
	"errors"
	"fmt"
)

// Elsewhere arrays are named files.

func createMemfd(int64, int) (*segment, error) { return nil, errNoMemfd }

func (seg *segment) seal() error { return errNoMemfd }

func (seg *segment) exclude() (fd int, ok bool, err error) { return -1, false, errNoMemfd }

func openMemfd(int, int, bool) (got int, size int64, err error) {
	return -1, 0, fmt.Errorf("%w: %w", ErrForeign, errNoMemfd)
}

func openFile(string, []string) (fd int, path string, err error) {
	return -1, "", fmt.Errorf("a user's own file: %w", errors.ErrUnsupported)
}

func processGone(int) bool { return false }

// lockWriter does not count writers: an array can be sealed while others write.
func lockWriter(int) (bool, error) { return true, nil }

func lockSealer(int) (bool, error) { return true, nil }

func unlockSealer(int) error { return nil }

func populateWrite([]byte) error { return nil }

func allocate(fd int, size int64) error { return zeroFile(fd, size) }

func descriptorLimit() int { return 512 }

func inMemory(string) bool { return false }

func statTime(int) (dev, ino uint64, size, mtime int64, err error) {
	return 0, 0, 0, 0, errors.ErrUnsupported
}

func sealedMemfd(int) bool { return false }

func leadsTo(int, int, uint64, uint64) bool { return false }
