//go:build unix && !linux

package fdio

import (
	"errors"
	"math"
)

// Allocate is supported on Linux only.
func Allocate(int, uint32, int64, int64) error { return errors.ErrUnsupported }

// Lock is supported on Linux only, whose locks belong to open files.
func Lock(int, int16, int64, int64) (bool, error) { return false, errors.ErrUnsupported }

// Locked is supported on Linux only.
func Locked(int, int64, int64) (bool, error) { return false, errors.ErrUnsupported }

// FreeSpace returns math.MaxInt64: callers go ahead until the system refuses.
func FreeSpace(int) (int64, error) { return math.MaxInt64, nil }
