//go:build unix && !linux

package ledger

// allocate takes room on the disk for n bytes, so that touching their pages can't fail for want of it.
func allocate(fd int, offset, n int64) error { return zeros(fd, offset, n) }
