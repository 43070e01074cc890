package shm

import (
	"sync/atomic"
	"unsafe" // for mappings at a preferred address

	"golang.org/x/sys/unix"

	"leat/internal/fault"
)

// hugeBytes is the size of a huge page on amd64, and on arm64 with pages of 4 KiB. Where huge pages
// have another size, none are made.
const hugeBytes = 2 << 20

// mapMemory maps the first bytes of a file. It prefers an address at which each huge page of the
// file takes one entry of the page table.
func mapMemory(fd int, size int64, prot, flags int) ([]byte, error) {
	p, err := unix.MmapPtr(fd, 0, alignedAddress(size), uintptr(size), prot, flags)
	if err != nil {
		return nil, err
	}
	return unsafe.Slice((*byte)(p), size), nil
}

// unmapMemory unmaps what mapMemory returned.
func unmapMemory(mem []byte) error {
	if len(mem) == 0 {
		return nil
	}
	return unix.MunmapPtr(unsafe.Pointer(unsafe.SliceData(mem)), uintptr(len(mem)))
}

// alignedAddress returns an address for a mapping that may have huge pages, nil for no preference.
// It was free, but another thread may use it by now: the kernel then takes another address.
func alignedAddress(size int64) unsafe.Pointer {
	if size < hugeBytes || size > maxMapping-hugeBytes {
		return nil
	}
	space := uintptr(size) + hugeBytes
	p, err := unix.MmapPtr(-1, 0, nil, space, unix.PROT_NONE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_NORESERVE)
	if err != nil {
		return nil
	}
	if unix.MunmapPtr(p, space) != nil {
		return nil
	}
	return unsafe.Add(p, -uintptr(p)&(hugeBytes-1))
}

// hugeFailed is set when the kernel had no huge pages, or is older than Linux 6.1.
var hugeFailed atomic.Bool

// takeHuge takes memory for the first n bytes of a new memfd, as far as whole huge pages fit, and
// returns for how many of them it did. A huge page takes a fifth of the time of as many small ones.
// reserve checks the free memory while memory is taken.
func takeHuge(mem []byte, n int64, reserve func(rest int64) error) (taken int64, err error) {
	if uintptr(unsafe.Pointer(unsafe.SliceData(mem)))%hugeBytes != 0 {
		return 0, nil
	}
	for whole := n &^ (hugeBytes - 1); taken < whole && !hugeFailed.Load(); {
		if taken > 0 && reserve != nil {
			if err := reserve(n - taken); err != nil {
				return taken, err
			}
		}
		part := mem[taken:min(whole, taken+checkEvery)]
		for at := 0; at < len(part); at += hugeBytes { // the kernel replaces pages, not holes
			if err := populate(part, int64(at), 1); err != nil {
				return taken, err
			}
		}
		if fault.Error("shm.huge") != nil || unix.Madvise(part, unix.MADV_COLLAPSE) != nil {
			hugeFailed.Store(true)
			break
		}
		taken += int64(len(part))
	}
	return taken, nil
}
