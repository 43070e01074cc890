package store

import (
	"errors"

	"golang.org/x/sys/unix"

	"leat/internal/fault"
	"leat/internal/fdio"
)

// hasExactHoles reports whether punching a part of an extent frees exactly its space. Some file
// systems free nothing, or only later, although their block counts claim otherwise.
func hasExactHoles(fd int) bool {
	const btrfs, zfs, bcachefs = 0x9123683e, 0x2fc12fc1, 0xca451a4e
	var st unix.Statfs_t
	if unix.Fstatfs(fd, &st) != nil {
		return false
	}
	t := uint32(st.Type)
	return t != btrfs && t != zfs && t != bcachefs
}

// punch frees the space of a range. The error is errors.ErrUnsupported if the file system can't.
func punch(fd int, at, length int64) error {
	if fault.Error("stage.no punch") != nil {
		return errors.ErrUnsupported
	}
	return fdio.Allocate(fd, unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, at, length)
}
