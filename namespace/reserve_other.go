//go:build unix && !linux

package namespace

func reserve(fd, size int) error { return writeZeros(fd, size) }
