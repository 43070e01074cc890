//go:build unix

package cache

import (
	"golang.org/x/sys/unix"

	"leat/internal/fault"
	"leat/internal/fdio"
	"leat/internal/localdir"
)

// Kinds of locks. They belong to the open file description and end with it.
const (
	unlocked  = unix.F_UNLCK
	shared    = unix.F_RDLCK
	exclusive = unix.F_WRLCK
)

// lock sets a lock on one byte without waiting. It reports false if another lock conflicts.
func lock(fd int, at int64, kind int16) (bool, error) { return fdio.Lock(fd, kind, at, 1) }

// writeFull writes all of b.
func writeFull(fd int, b []byte, at int64) error {
	if err := fault.Error("cache.write"); err != nil {
		return err
	}
	return fdio.WriteFull(fd, b, at)
}

// loadsAllocate reports whether a load from a hole allocates it. An overlay may have tmpfs below
// it.
func loadsAllocate(fd int) bool {
	name := localdir.Of(fd).Name
	return name == "tmpfs" || name == "overlay"
}
