//go:build unix && !linux

package index

// allocate allocates n bytes on the disk, so that writing to their mapped pages can't fail for lack
// of space.
func allocate(fd int, offset, n int64) error { return zeros(fd, offset, n) }
