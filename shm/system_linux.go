package shm

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"leat/internal/fdio"
	"leat/internal/procfile"
)

// openFile opens a regular file for reading if it lies below one of roots; nil roots allow all.
// truePath is the kernel's path of the open file, without symbolic links, so a concurrent exchange
// of names cannot make it wrong.
func openFile(path string, roots []string) (fd int, truePath string, err error) {
	at, err := fdio.Open(unix.AT_FDCWD, path, unix.O_PATH, 0)
	if err != nil {
		return -1, "", &fs.PathError{Op: "open", Path: path, Err: err}
	}
	defer unix.Close(at)
	truePath, err = pathOf(at)
	if err != nil {
		return -1, "", err
	}
	if roots != nil {
		ok, err := belowAny(truePath, roots)
		if err != nil {
			return -1, "", err
		}
		if !ok {
			return -1, "", fmt.Errorf("%w: %q", errOutsideRoots, truePath)
		}
	}
	var st unix.Stat_t
	if err := unix.Fstat(at, &st); err != nil {
		return -1, "", fmt.Errorf("stat %q: %w", path, err)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return -1, "", errors.New("not a regular file")
	}
	fd, err = procfile.Reopen(at, unix.O_RDONLY)
	if err != nil {
		return -1, "", fmt.Errorf("opening %q: %w", path, err)
	}
	return fd, truePath, nil
}

func belowAny(path string, roots []string) (bool, error) {
	for _, r := range roots {
		r, err := filepath.EvalSymlinks(r)
		if errors.Is(err, unix.ENOENT) {
			continue
		}
		if err != nil {
			return false, fmt.Errorf("directory of Options.Roots: %w", err)
		}
		if r == "/" || strings.HasPrefix(path, r+"/") {
			return true, nil
		}
	}
	return false, nil
}

// pathOf returns the path of an open file.
func pathOf(fd int) (string, error) {
	b := make([]byte, maxPath+1)
	n, err := unix.Readlink("/proc/self/fd/"+strconv.Itoa(fd), b)
	if err != nil {
		return "", fmt.Errorf("path of an open file: %w", err)
	}
	path := string(b[:n])
	if n > maxPath || !filepath.IsAbs(path) || strings.HasSuffix(path, " (deleted)") {
		return "", fmt.Errorf("%w: the file has no path", ErrStale)
	}
	return path, nil
}
