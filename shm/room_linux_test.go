package shm

import (
	"testing"

	"golang.org/x/sys/unix"
)

func TestFileSystemsOfOtherMachinesAreNotLocal(t *testing.T) {
	for name, magic := range map[string]uint32{
		"NFS": unix.NFS_SUPER_MAGIC, "SMB": unix.SMB_SUPER_MAGIC, "CIFS": unix.CIFS_SUPER_MAGIC, "SMB2": unix.SMB2_SUPER_MAGIC, "9p": unix.V9FS_MAGIC,
		"FUSE": unix.FUSE_SUPER_MAGIC, "Ceph": unix.CEPH_SUPER_MAGIC, "AFS": unix.AFS_FS_MAGIC, "Coda": unix.CODA_SUPER_MAGIC, "NCP": unix.NCP_SUPER_MAGIC,
		"OCFS2": unix.OCFS2_SUPER_MAGIC,
	} {
		if local, got := systemOf(magic); local || got != name {
			t.Errorf("%s is %q, local %v", name, got, local)
		}
	}
	for name, magic := range map[string]uint32{
		"tmpfs": unix.TMPFS_MAGIC, "ramfs": unix.RAMFS_MAGIC, "ext4": unix.EXT4_SUPER_MAGIC, "XFS": unix.XFS_SUPER_MAGIC, "Btrfs": unix.BTRFS_SUPER_MAGIC,
		"overlay": unix.OVERLAYFS_SUPER_MAGIC, "F2FS": unix.F2FS_SUPER_MAGIC, "": unix.HUGETLBFS_MAGIC,
	} {
		if local, got := systemOf(magic); !local || got != name {
			t.Errorf("%s is %q, local %v", name, got, local)
		}
	}
}
