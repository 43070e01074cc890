package cache

import (
	"math"

	"golang.org/x/sys/unix"
)

// freeSpace returns how much space the file system of an open file has for this user.
func freeSpace(fd int) int64 {
	var st unix.Statfs_t
	if unix.Fstatfs(fd, &st) != nil {
		return math.MaxInt64
	}
	return int64(min(float64(st.Bavail)*float64(st.Bsize), math.MaxInt64/2))
}
