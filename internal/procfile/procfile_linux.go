package procfile

import (
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"leat/internal/fdio"
)

// OpenFD finds the file that process pid has open as fd. The error wraps ErrGone or ErrForeign.
func OpenFD(pid, fd int) (*File, error) {
	if pid < 1 || fd < 0 {
		return nil, fmt.Errorf("descriptor %d of process %d: %w", fd, pid, ErrGone)
	}
	// Without opening what is there: it may be a device, or a pipe.
	at, err := fdio.Open(unix.AT_FDCWD, "/proc/"+strconv.Itoa(pid)+"/fd/"+strconv.Itoa(fd), unix.O_PATH, 0)
	switch {
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ESRCH), errors.Is(err, unix.ENXIO):
		return nil, fmt.Errorf("descriptor %d of process %d: %w", fd, pid, ErrGone)
	case errors.Is(err, unix.EACCES), errors.Is(err, unix.EPERM):
		return nil, fmt.Errorf("process %d denies access to its files: %w", pid, ErrForeign)
	case err != nil:
		return nil, fmt.Errorf("descriptor %d of process %d: %w", fd, pid, err)
	}
	f := &File{at: at}
	if err := f.describe(pid, fd); err != nil {
		return nil, errors.Join(err, unix.Close(at))
	}
	return f, nil
}

// describe sets Stat and Name, and returns an error unless it is a regular file of the user.
func (f *File) describe(pid, fd int) error {
	if err := unix.Fstat(f.at, &f.Stat); err != nil {
		return fmt.Errorf("descriptor %d of process %d: %w", fd, pid, err)
	}
	if f.Stat.Mode&unix.S_IFMT != unix.S_IFREG {
		return fmt.Errorf("descriptor %d of process %d is not a regular file now: %w", fd, pid, ErrGone)
	}
	if int(f.Stat.Uid) != os.Geteuid() {
		return fmt.Errorf("descriptor %d of process %d belongs to user %d, not to user %d: %w", fd, pid, f.Stat.Uid,
			os.Geteuid(), ErrForeign)
	}
	name, err := os.Readlink("/proc/self/fd/" + strconv.Itoa(f.at))
	if err != nil {
		return fmt.Errorf("descriptor %d of process %d: %w", fd, pid, err)
	}
	f.Name = name
	return nil
}

// Open opens the file with O_ flags, as a description of the caller's own: locks on it are the
// caller's. The caller closes it.
func (f *File) Open(flags int) (fd int, err error) { return Reopen(f.at, flags) }

// Close ends the use of the file; descriptors from Open stay.
func (f *File) Close() error {
	err := unix.Close(f.at)
	f.at = -1 // another file may get the number
	return err
}

// Reopen opens the file behind a descriptor of this process once more, as a description of its own.
// Where /proc is not mounted the error is fs.ErrNotExist.
func Reopen(fd, flags int) (int, error) {
	return fdio.Open(unix.AT_FDCWD, "/proc/self/fd/"+strconv.Itoa(fd), flags|unix.O_NOCTTY|unix.O_NONBLOCK, 0)
}

// BootID returns the random number of this boot of the machine.
func BootID() (id [16]byte, err error) {
	const path = "/proc/sys/kernel/random/boot_id"
	text, err := os.ReadFile(path)
	if err != nil {
		return id, fmt.Errorf("reading the boot id: %w", err)
	}
	b, err := hex.DecodeString(strings.ReplaceAll(strings.TrimSpace(string(text)), "-", ""))
	if err != nil || len(b) != len(id) {
		return id, fmt.Errorf("%s holds %q; expected a boot id", path, text)
	}
	return [16]byte(b), nil
}
