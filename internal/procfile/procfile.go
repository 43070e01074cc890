//go:build unix

// Package procfile opens files that another process of this machine has open, by the process id and
// the number of the descriptor, and identifies the boot of the machine. Both numbers may come from
// anyone and may refer to something else by now: [OpenFD] opens only what it has checked, and its
// caller must still compare the content with a mark that no other file has.
package procfile

import (
	"errors"

	"golang.org/x/sys/unix"
)

// Errors of OpenFD.
var (
	// ErrGone is returned when the process has ended or closed the file, or the descriptor is not a
	// regular file.
	ErrGone = errors.New("the process that had the file open is gone, or closed it")
	// ErrForeign is returned when the process or the file belongs to another user.
	ErrForeign = errors.New("another user's file or process")
)

// File is a file that was found and not opened yet: no device was accessed. The caller closes it.
type File struct {
	Name string      // what /proc calls it: a path, or a text such as "/memfd:x (deleted)"
	Stat unix.Stat_t // of a regular file of the process's own user
	at   int         // descriptor, opened with O_PATH
}
