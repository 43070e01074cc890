//go:build unix && !linux

package store

import (
	"errors"
	"math"
)

// Without these functions nothing is packed.

func hasExactHoles(int) bool        { return false }
func allocate(int, int64) error     { return errors.ErrUnsupported }
func punch(int, int64, int64) error { return errors.ErrUnsupported }
func fileLimit() int64              { return math.MaxInt64 }
