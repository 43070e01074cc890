//go:build unix && !linux

package procfile

import (
	"errors"
	"fmt"
)

var errOther = fmt.Errorf("files of other processes: %w", errors.ErrUnsupported)

// OpenFD is for Linux.
func OpenFD(pid, fd int) (*File, error) { return nil, errOther }

// Open is for Linux.
func (f *File) Open(flags int) (fd int, err error) { return -1, errOther }

// Close does nothing here.
func (f *File) Close() error { return nil }

// Reopen is for Linux.
func Reopen(fd, flags int) (int, error) { return -1, errOther }

// BootID is zero where the machine has none.
func BootID() (id [16]byte, err error) { return id, nil }
