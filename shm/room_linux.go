package shm

import (
	"fmt"
	"io/fs"
	"math"

	"golang.org/x/sys/unix"
)

// available returns how much memory this process may still take, and by which limit. need is what the caller is about to
// take: if there is clearly room for it, the answer may be too low by the pages that a cgroup could drop.
// The room is only what is free now: nothing is set aside.
func available(need int64) (room, error) { return readRoom("", need) }

const errNoDevice = unix.ENODEV

// readSmallFile is os.ReadFile without the poller, which files of /proc are of no use to: a third of the time.
func readSmallFile(name string) ([]byte, error) {
	fd, err := retry(func() (int, error) { return unix.Open(name, unix.O_RDONLY|unix.O_CLOEXEC, 0) })
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	defer unix.Close(fd)
	b := make([]byte, 0, 4096)
	for {
		n, err := retry(func() (int, error) { return unix.Read(fd, b[len(b):cap(b)]) })
		if err != nil {
			return nil, &fs.PathError{Op: "read", Path: name, Err: err}
		}
		if n == 0 {
			return b, nil
		}
		if b = b[:len(b)+n]; len(b) == cap(b) {
			b = append(b, make([]byte, len(b))...)[:len(b)]
		}
	}
}

// retry repeats a system call that a signal broke.
func retry(call func() (int, error)) (int, error) {
	for {
		if n, err := call(); err != unix.EINTR {
			return n, err
		}
	}
}

func statfs(dir string) (unix.Statfs_t, error) {
	var st unix.Statfs_t
	if _, err := retry(func() (int, error) { return 0, unix.Statfs(dir, &st) }); err != nil {
		return st, fmt.Errorf("shm: the file system of %s: %w", dir, err)
	}
	return st, nil
}

// freeOn returns the bytes that this user may still write on the file system of dir; quotas are not known. A file system that
// tells no size, such as a tmpfs without limit, has math.MaxInt64.
func freeOn(dir string) (int64, error) {
	st, err := statfs(dir)
	if err != nil {
		return 0, err
	}
	if st.Blocks == 0 {
		return math.MaxInt64, nil
	}
	unit := uint64(max(st.Frsize, 1))
	if st.Frsize == 0 {
		unit = uint64(max(st.Bsize, 1))
	}
	if st.Bavail > math.MaxInt64/unit {
		return math.MaxInt64, nil
	}
	return int64(st.Bavail * unit), nil
}

// remoteSystems are file systems that several machines share or that another program answers for, by the numbers of
// statfs(2): mappings of their files are slow, may change or end under the reader, and locks may not hold.
var remoteSystems = map[uint32]string{
	0x6969: "NFS", 0x517b: "SMB", 0xff534d42: "CIFS", 0xfe534d42: "SMB2", 0x01021997: "9p", 0x65735546: "FUSE", 0x00c36400: "Ceph",
	0x5346414f: "AFS", 0x6b414653: "AFS", 0x73757245: "Coda", 0x564c: "NCP", 0x0bd00bd0: "Lustre", 0x47504653: "GPFS", 0x19830326: "BeeGFS",
	0x7461636f: "OCFS2", 0x01161970: "GFS2", 0xaad7aaea: "PanFS", 0x786f4256: "vboxsf", 0xbacbacbc: "vmhgfs", 0x7c7c6673: "prl_fs",
	0x20030528: "OrangeFS", 0xbeefdead: "StorNext", 0x61636673: "ACFS", 0x013111a8: "IBRIX",
}

var localSystems = map[uint32]string{
	0x01021994: "tmpfs", 0x858458f6: "ramfs", 0xef53: "ext4", 0x58465342: "XFS", 0x9123683e: "Btrfs", 0x794c7630: "overlay",
	0x2fc12fc1: "ZFS", 0xf2f52010: "F2FS", 0xca451a4e: "bcachefs",
}

// isLocal reports whether the file system of dir belongs to this machine alone, and its name, which is empty for a local one
// that is not known by name.
func isLocal(dir string) (local bool, name string, err error) {
	st, err := statfs(dir)
	if err != nil {
		return false, "", err
	}
	local, name = systemOf(uint32(st.Type))
	return local, name, nil
}

func systemOf(magic uint32) (local bool, name string) {
	if name, ok := remoteSystems[magic]; ok {
		return false, name
	}
	return true, localSystems[magic]
}
