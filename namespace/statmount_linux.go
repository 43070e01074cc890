package namespace

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// showsAll reports whether the mount through which fd was opened is known to show its file system
// from the root. Kernels from 6.8 report it in 2 us; listing all mounts takes 44 us for 20 mounts,
// and more for more. false may mean that it is unknown.
func showsAll(fd int) bool {
	const wantRoot = 0x8 // STATMOUNT_MNT_ROOT
	var sx unix.Statx_t
	err := unix.Statx(fd, "", unix.AT_EMPTY_PATH|unix.AT_STATX_DONT_SYNC, unix.STATX_MNT_ID_UNIQUE, &sx)
	if err != nil || sx.Mask&unix.STATX_MNT_ID_UNIQUE == 0 {
		return false
	}
	request := struct {
		size, spare uint32
		mount, mask uint64
	}{size: 24, mount: sx.Mnt_id, mask: wantRoot}
	var reply struct { // struct statmount; strings follow at 512, root is where in them
		_     [8]byte
		mask  uint64
		_     [88]byte
		root  uint32
		_     [404]byte
		texts [8]byte
	}
	_, _, errno := unix.Syscall6(unix.SYS_STATMOUNT, uintptr(unsafe.Pointer(&request)), uintptr(unsafe.Pointer(&reply)),
		unsafe.Sizeof(reply), 0, 0, 0)
	if errno != 0 || reply.mask&wantRoot == 0 { // EOVERFLOW: a root that does not fit, and is longer than "/"
		return false
	}
	at := reply.root
	return at < 7 && reply.texts[at] == '/' && reply.texts[at+1] == 0
}
