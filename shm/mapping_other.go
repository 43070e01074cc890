//go:build unix && !linux

package shm

import "golang.org/x/sys/unix"

func mapMemory(fd int, size int64, prot, flags int) ([]byte, error) {
	return unix.Mmap(fd, 0, int(size), prot, flags)
}

func unmapMemory(mem []byte) error { return unix.Munmap(mem) }

func takeHuge([]byte, int64, func(int64) error) (int64, error) { return 0, nil }
