//go:build !linux

package sysmem

import (
	"errors"
	"os"
)

// Available returns errors.ErrUnsupported.
func Available(int64) (Free, error) { return Free{}, errors.ErrUnsupported }

// RAM returns 0: the memory is not known on this system.
func RAM() int64 { return 0 }

// RAMAndSwap returns 0: the memory is not known on this system.
func RAMAndSwap() int64 { return 0 }

// Resident returns 0: it is not known on this system.
func Resident() int64 { return 0 }

var errNoDevice = errors.ErrUnsupported

func readSmallFile(name string) ([]byte, error) { return os.ReadFile(name) }
