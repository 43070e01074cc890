//go:build unix && !linux

package store

import (
	"errors"
	"math"
)

// Without these functions nothing is packed, and unfinished files have hidden names.

func hasExactHoles(int) bool        { return false }
func unnamed(int) (int, error)      { return -1, errors.ErrUnsupported }
func link(int, int, string) error   { return errors.ErrUnsupported }
func allocate(int, int64) error     { return errors.ErrUnsupported }
func punch(int, int64, int64) error { return errors.ErrUnsupported }
func fileLimit() int64              { return math.MaxInt64 }
