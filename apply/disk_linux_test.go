package apply

import (
	"os"
	"syscall"
	"testing"
)

// smallDisk mounts a tmpfs of a size; it skips the test if it may not mount.
func smallDisk(t *testing.T, size string) string {
	t.Helper()
	dir := t.TempDir()
	if err := syscall.Mount("none", dir, "tmpfs", 0, "size="+size); err != nil {
		t.Skipf("a small disk can't be mounted here (needs root): %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Error(os.NewSyscallError("unmount", err))
		}
	})
	return dir
}

// remountSize changes the size of a disk of smallDisk.
func remountSize(dir, size string) error {
	return os.NewSyscallError("remount", syscall.Mount("none", dir, "tmpfs", syscall.MS_REMOUNT, "size="+size))
}
