//go:build unix && !linux

package lockfile

import (
	"errors"
	"fmt"
)

// Try is supported on Linux only, whose locks belong to open files.
func (r *Ranges) Try(Mode, int64, int64) (bool, error) {
	return false, fmt.Errorf("locks on ranges: %w", errors.ErrUnsupported)
}

// Probe is supported on Linux only.
func (r *Ranges) Probe(int64, int64) (Mode, error) {
	return Free, fmt.Errorf("locks on ranges: %w", errors.ErrUnsupported)
}

func (r *Ranges) lock(Mode, int64, int64) error { return errors.ErrUnsupported }

func reopen(int) (int, error) { return -1, errors.ErrUnsupported }
