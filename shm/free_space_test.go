package shm

import (
	"math"
	"path/filepath"
	"runtime"
	"testing"
)

const mib = 1 << 20

func TestFreeSpaceOfFileSystems(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("known on Linux only")
	}
	dir := t.TempDir()
	free, err := freeOn(dir)
	if err != nil || free < mib {
		t.Errorf("%d bytes free on %s, %v", free, dir, err)
	}
	if _, err := freeOn(filepath.Join(dir, "none")); err == nil {
		t.Error("a directory that does not exist has free space")
	}
	if free, err := freeOn("/proc"); err != nil || free != math.MaxInt64 { // of no size
		t.Errorf("/proc has %d bytes free, %v", free, err)
	}
}
