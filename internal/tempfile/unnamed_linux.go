package tempfile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"

	"leat/internal/fault"
	"leat/internal/fdio"
)

// unnamed creates a file without a name in a directory. The error is errors.ErrUnsupported if the
// file system has no such files.
func unnamed(at int, dir string, perm uint32) (fd int, err error) {
	if fault.Error("tempfile.no O_TMPFILE") != nil {
		return -1, errors.ErrUnsupported
	}
	// Without O_EXCL, which would forbid a name later.
	fd, err = fdio.Open(at, dir, unix.O_TMPFILE|unix.O_RDWR, perm)
	if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.EISDIR) || errors.Is(err, unix.EINVAL) {
		return -1, errors.ErrUnsupported
	}
	return fd, err
}

// Link gives an open file a name in an open directory. The error is fs.ErrExist if the name is
// taken, and fs.ErrNotExist if the file had names and has lost all of them.
func Link(fd, dir int, name string) error {
	err := unix.Linkat(unix.AT_FDCWD, "/proc/self/fd/"+strconv.Itoa(fd), dir, name, unix.AT_SYMLINK_FOLLOW)
	if errors.Is(err, unix.ENOENT) { // no /proc; this needs a privilege on kernels before 6.10
		err = unix.Linkat(fd, "", dir, name, unix.AT_EMPTY_PATH)
	}
	return err
}

// createUnnamed creates an unnamed file in the directory of path.
func createUnnamed(path string, perm fs.FileMode) (*os.File, error) {
	// Not filepath.Dir, which would drop "link/..".
	dir, _ := filepath.Split(path)
	if dir == "" {
		dir = "."
	}
	fd, err := unnamed(unix.AT_FDCWD, dir, uint32(perm.Perm()))
	switch {
	case errors.Is(err, errors.ErrUnsupported):
		return nil, err
	case err != nil:
		return nil, &fs.PathError{Op: "open", Path: dir, Err: err}
	}
	return os.NewFile(uintptr(fd), path), nil
}

func link(fd int, path string) error { return Link(fd, unix.AT_FDCWD, path) }
