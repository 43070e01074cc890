//go:build !linux

package shm

import (
	"errors"
	"os"
)

// Elsewhere it is not known how much room there is: the error is errors.ErrUnsupported, and callers
// go ahead until the system refuses.
func available(int64) (room, error) { return room{}, errors.ErrUnsupported }

func freeOn(string) (int64, error) { return 0, errors.ErrUnsupported }

var errNoDevice = errors.ErrUnsupported

func readSmallFile(name string) ([]byte, error) { return os.ReadFile(name) }
