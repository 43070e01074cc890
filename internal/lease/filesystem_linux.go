package lease

import "golang.org/x/sys/unix"

const mappingCarriesLock = true

// remote are the file systems on which a lock of this machine is not seen by others, or is slow and may be lost, by
// the numbers of statfs(2) and of the systems' own headers.
var remote = map[uint32]string{
	0x6969: "NFS", 0x517b: "SMB", 0xff534d42: "CIFS", 0xfe534d42: "SMB2", 0x01021997: "9p", 0x65735546: "FUSE", 0x00c36400: "Ceph",
	0x5346414f: "AFS", 0x6b414653: "AFS", 0x73757245: "Coda", 0x564c: "NCP", 0x0bd00bd0: "Lustre", 0x47504653: "GPFS", 0x19830326: "BeeGFS",
	0x7461636f: "OCFS2", 0x01161970: "GFS2", 0xaad7aaea: "PanFS", 0x786f4256: "vboxsf", 0x20030528: "OrangeFS",
	0xbacbacbc: "vmhgfs", 0x7c7c6673: "prl_fs", 0xbeefdead: "StorNext", 0x61636673: "ACFS", 0x013111a8: "IBRIX",
}

// fileSystem names the file system of an open file, if it is known to be shared by machines.
func fileSystem(fd int) (name string, local bool) {
	var st unix.Statfs_t
	if unix.Fstatfs(fd, &st) != nil {
		return "an unknown file system", false
	}
	name, found := remote[uint32(st.Type)]
	return name, !found
}
