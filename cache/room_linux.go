package cache

import (
	"math"

	"golang.org/x/sys/unix"
)

// roomLeft is what the file system of an open file has left for this user.
func roomLeft(fd int) int64 {
	var st unix.Statfs_t
	if unix.Fstatfs(fd, &st) != nil {
		return math.MaxInt64
	}
	return int64(min(float64(st.Bavail)*float64(st.Bsize), math.MaxInt64/2))
}
