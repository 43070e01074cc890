//go:build unix && !linux

package store

import (
	"errors"
)

// Without these functions nothing is packed.

func hasExactHoles(int) bool        { return false }
func punch(int, int64, int64) error { return errors.ErrUnsupported }
