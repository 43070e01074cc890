package pyfunc

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// newOutputMemory makes an empty file in memory that can grow and can't shrink.
func newOutputMemory(limit int64) (*outputMemory, error) {
	fd, err := unix.MemfdCreate("leat-outputs", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil, os.NewSyscallError("memfd_create", err)
	}
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, unix.F_SEAL_SHRINK|unix.F_SEAL_SEAL); err != nil {
		return nil, errors.Join(os.NewSyscallError("sealing a memfd", err), unix.Close(fd))
	}
	return &outputMemory{file: os.NewFile(uintptr(fd), "leat-outputs"), max: limit}, nil
}
