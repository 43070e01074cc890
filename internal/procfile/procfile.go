//go:build unix

// Package procfile reaches files that another process of this machine has open, by the numbers of
// the process and of its descriptor, and tells which boot of the machine this is. Both numbers may
// come from anyone and may have changed their meaning since they were written down: [OpenFD]
// touches nothing but what it has checked, and its caller still has to look into the file for a
// mark that no other file has.
package procfile

import (
	"errors"

	"golang.org/x/sys/unix"
)

// Errors of OpenFD.
var (
	// ErrGone tells that the process has ended or closed the file, or has something there that is
	// no regular file.
	ErrGone = errors.New("the process that had the file open is gone, or closed it")
	// ErrForeign tells that the process or the file belongs to someone else.
	ErrForeign = errors.New("another user's file or process")
)

// File is a file that was found and not yet opened: neither read nor written, and no device was
// woken. Close it.
type File struct {
	Name string      // what /proc calls it: a path, or a text such as "/memfd:x (deleted)"
	Stat unix.Stat_t // of a regular file of the process's own user
	at   int         // opened with O_PATH
}
