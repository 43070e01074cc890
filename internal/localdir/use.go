//go:build unix

package localdir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"

	"leat/internal/fdio"
)

// Use describes what a directory is for, in errors.
type Use struct {
	Many    string // what is kept: "caches"
	Shared  string // what processes would not see of each other where it is not local: "entries"
	Remote  error  // the beginning of errors about directories that are not local
	Foreign error  // the beginning of errors about directories that belong to others
}

// Open opens the directory, see the package comment, and creates it if it is missing. named is the
// directory of an option, or "". With anywhere the file system need not be local. The caller closes
// fd. The path is absolute.
func (u *Use) Open(named string, anywhere bool) (dir string, fd int, err error) {
	for _, by := range []struct{ dir, from string }{{named, "Dir"}, {os.Getenv(Variable), Variable}} {
		if by.dir == "" {
			continue
		}
		if dir, err = filepath.Abs(by.dir); err != nil {
			return "", -1, fmt.Errorf("%s: %w", by.from, err)
		}
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return "", -1, Explain(dir, err)
		}
		fd, err = u.openLocal(dir, anywhere)
		return dir, fd, err
	}
	var errs []error
	for _, dir := range guesses() {
		fd, err := u.openOwn(dir, anywhere)
		if err == nil {
			return dir, fd, nil
		}
		errs = append(errs, err)
	}
	return "", -1, fmt.Errorf("no directory for %s, and %s names none: %w", u.Many, Variable, errors.Join(errs...))
}

// Has reports whether a directory that Open(named) may open has a file of that name. It creates
// nothing.
func Has(named, file string) bool {
	dirs := []string{named}
	if named == "" {
		if dirs = []string{os.Getenv(Variable)}; dirs[0] == "" {
			dirs = guesses()
		}
	}
	for _, dir := range dirs {
		if _, err := os.Stat(filepath.Join(dir, file)); err == nil {
			return true
		}
	}
	return false
}

// guesses returns the directories to try if none was named, in order.
func guesses() []string {
	var dirs []string
	if d := os.Getenv("XDG_CACHE_HOME"); filepath.IsAbs(d) {
		dirs = append(dirs, filepath.Join(d, "leat"))
	} else if d := os.Getenv("HOME"); filepath.IsAbs(d) {
		dirs = append(dirs, filepath.Join(d, ".cache", "leat"))
	}
	if d := os.Getenv("SLURM_TMPDIR"); filepath.IsAbs(d) {
		return append(dirs, d)
	}
	return append(dirs, filepath.Join(os.TempDir(), "leat-"+strconv.Itoa(os.Geteuid())))
}

// openOwn opens a default directory, which must belong to the user.
func (u *Use) openOwn(dir string, anywhere bool) (int, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return -1, Explain(dir, err)
	}
	fd, err := u.openLocal(dir, anywhere)
	if err != nil {
		return -1, err
	}
	var st, named unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return -1, errors.Join(Explain(dir, err), unix.Close(fd))
	}
	if err := unix.Lstat(dir, &named); err != nil || int(st.Uid) != os.Geteuid() || st.Mode&0o022 != 0 ||
		named.Mode&unix.S_IFMT == unix.S_IFLNK && int(named.Uid) != os.Geteuid() {
		return -1, errors.Join(fmt.Errorf("%w: %s belongs to another user, or others may write to it", u.Foreign, dir),
			unix.Close(fd))
	}
	return fd, nil
}

// openLocal opens a directory on a local file system.
func (u *Use) openLocal(dir string, anywhere bool) (int, error) {
	fd, err := fdio.Open(unix.AT_FDCWD, dir, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return -1, Explain(dir, err)
	}
	if !anywhere && Of(fd).Kind != Local {
		return -1, errors.Join(fmt.Errorf("%w: %s is on a network file system or one that leat does not know, "+
			"where processes may not see each other's %s", u.Remote, dir, u.Shared), unix.Close(fd))
	}
	return fd, nil
}

// Explain adds the directory to an error, in place of the path of an operation.
func Explain(dir string, err error) error {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		err = pe.Err
	}
	return fmt.Errorf("directory %s: %w", dir, err)
}
