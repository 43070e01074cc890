//go:build unix

package index

import (
	"errors"
	"strconv"

	"golang.org/x/sys/unix"
)

// spares is the number of empty files that a directory keeps for their inodes: a process that joins
// when the file system or the user's quota has no inodes left removes one. Without them, it could
// neither read nor remove staged objects.
const spares = 4

func spareName(i int) string { return "spare-" + strconv.Itoa(i) }

// takeSpare removes a spare file and reports whether there was one.
func (l *Index) takeSpare() bool {
	for i := range spares {
		if unix.Unlinkat(l.dir.Fd(), spareName(i), 0) == nil {
			return true
		}
	}
	return false
}

// fillSpares creates the missing spare files as far as there are inodes.
func (l *Index) fillSpares() {
	for i := range spares {
		var st unix.Stat_t
		if unix.Fstatat(l.dir.Fd(), spareName(i), &st, unix.AT_SYMLINK_NOFOLLOW) == nil {
			continue
		}
		fd, err := unix.Openat(l.dir.Fd(), spareName(i),
			unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
		if err != nil {
			if !errors.Is(err, unix.EEXIST) {
				return
			}
			continue
		}
		_ = unix.Close(fd)
	}
}
