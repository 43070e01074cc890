package localdir

import (
	"testing"

	"golang.org/x/sys/unix"
)

func TestFileSystemsAreKnownByNumber(t *testing.T) {
	for magic, want := range map[uint32]FileSystem{
		unix.NFS_SUPER_MAGIC: {"NFS", Remote}, unix.SMB_SUPER_MAGIC: {"SMB", Remote},
		unix.CIFS_SUPER_MAGIC: {"CIFS", Remote}, unix.SMB2_SUPER_MAGIC: {"SMB2", Remote},
		unix.V9FS_MAGIC: {"9p", Remote}, unix.FUSE_SUPER_MAGIC: {"FUSE", Remote},
		unix.CEPH_SUPER_MAGIC: {"Ceph", Remote}, unix.AFS_SUPER_MAGIC: {"AFS", Remote},
		unix.AFS_FS_MAGIC: {"AFS", Remote}, unix.CODA_SUPER_MAGIC: {"Coda", Remote},
		unix.NCP_SUPER_MAGIC: {"NCP", Remote}, unix.OCFS2_SUPER_MAGIC: {"OCFS2", Remote},
		unix.TMPFS_MAGIC: {"tmpfs", Local}, unix.EXT4_SUPER_MAGIC: {"ext4", Local},
		unix.XFS_SUPER_MAGIC:   {"xfs", Local},
		unix.BTRFS_SUPER_MAGIC: {"btrfs", Local}, unix.OVERLAYFS_SUPER_MAGIC: {"overlay", Local},
		unix.F2FS_SUPER_MAGIC: {"f2fs", Local},
		unix.RAMFS_MAGIC:      {Name: "ramfs"}, unix.PROC_SUPER_MAGIC: {},
	} {
		if known[magic] != want {
			t.Errorf("%#x is %+v, not %+v", magic, known[magic], want)
		}
	}
	if f := Of(-1); f.Kind != Remote || f.Name == "" {
		t.Errorf("what can't be asked is %+v", f)
	}
}
