package lease

import (
	"testing"

	"golang.org/x/sys/unix"
)

func TestFileSystemsOfManyMachinesAreKnownByNumberAndLocalOnesAreNot(t *testing.T) {
	for magic, want := range map[uint32]string{
		unix.NFS_SUPER_MAGIC: "NFS", unix.SMB_SUPER_MAGIC: "SMB", unix.CIFS_SUPER_MAGIC: "CIFS", unix.SMB2_SUPER_MAGIC: "SMB2",
		unix.V9FS_MAGIC: "9p", unix.FUSE_SUPER_MAGIC: "FUSE", unix.CEPH_SUPER_MAGIC: "Ceph", unix.AFS_SUPER_MAGIC: "AFS",
		unix.AFS_FS_MAGIC: "AFS", unix.CODA_SUPER_MAGIC: "Coda", unix.NCP_SUPER_MAGIC: "NCP", unix.OCFS2_SUPER_MAGIC: "OCFS2",
	} {
		if remote[magic] != want {
			t.Errorf("%#x is %q, not %q", magic, remote[magic], want)
		}
	}
	for name, magic := range map[string]uint32{
		"tmpfs": unix.TMPFS_MAGIC, "ramfs": unix.RAMFS_MAGIC, "ext4": unix.EXT4_SUPER_MAGIC, "xfs": unix.XFS_SUPER_MAGIC,
		"btrfs": unix.BTRFS_SUPER_MAGIC, "overlay": unix.OVERLAYFS_SUPER_MAGIC, "f2fs": unix.F2FS_SUPER_MAGIC,
	} {
		if kind, found := remote[magic]; found {
			t.Errorf("%s is taken for %s", name, kind)
		}
	}
	if kind, local := fileSystem(-1); local || kind == "" {
		t.Errorf("what can't be asked is %q, local %v", kind, local)
	}
	if kind, local := fileSystem(openTest(t).Fd()); !local {
		t.Errorf("the folder for tests is on %s", kind)
	}
}
