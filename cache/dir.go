//go:build unix

package cache

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

// Dir returns the directory in which Create makes files by default, see Options.Dir, making it where it is missing. A
// directory that the user named in LEAT_CACHE_DIR must be local; one that follows from the user's home is replaced by the
// machine's temporary one where it is not.
func Dir() (string, error) {
	dir, fd, err := openDir(&Options{})
	if err != nil {
		return "", err
	}
	return dir, unix.Close(fd)
}

// openDir opens the directory for nameless caches.
func openDir(o *Options) (dir string, fd int, err error) {
	for _, named := range []struct{ dir, from string }{{o.Dir, "Dir"}, {os.Getenv("LEAT_CACHE_DIR"), "LEAT_CACHE_DIR"}} {
		if named.dir == "" {
			continue
		}
		if dir, err = filepath.Abs(named.dir); err != nil {
			return "", -1, fmt.Errorf("cache: %s: %w", named.from, err)
		}
		if named.from != "Dir" { // a typing error in an option is told, a variable is for good
			if err := os.MkdirAll(dir, 0o700); err != nil {
				return "", -1, explainDir(dir, err)
			}
		}
		fd, err = openLocal(dir, o.AllowRemote)
		return dir, fd, err
	}
	var errs []error
	for _, dir := range defaultDirs() {
		fd, err := openDefault(dir, o.AllowRemote)
		if err == nil {
			return dir, fd, nil
		}
		errs = append(errs, err)
	}
	return "", -1, fmt.Errorf("cache: no directory for caches; name one on a local disk in LEAT_CACHE_DIR: %w", errors.Join(errs...))
}

// defaultDirs are the directories to try, in order.
func defaultDirs() []string {
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

// openDefault opens a directory that nobody named, and so must be the user's own.
func openDefault(dir string, remote bool) (int, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return -1, explainDir(dir, err)
	}
	fd, err := openLocal(dir, remote)
	if err != nil {
		return -1, err
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return -1, errors.Join(explainDir(dir, err), unix.Close(fd))
	}
	var named unix.Stat_t
	if err := unix.Lstat(dir, &named); err != nil || int(st.Uid) != os.Geteuid() || st.Mode&0o022 != 0 ||
		named.Mode&unix.S_IFMT == unix.S_IFLNK && int(named.Uid) != os.Geteuid() {
		return -1, errors.Join(fmt.Errorf("%w: %s belongs to another user, or others may write to it", ErrForeign, dir), unix.Close(fd))
	}
	return fd, nil
}

// openLocal opens a directory that is to hold a cache.
func openLocal(dir string, remote bool) (int, error) {
	fd, err := openat(unix.AT_FDCWD, dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC)
	if err != nil {
		return -1, explainDir(dir, err)
	}
	if !remote && !isLocal(fd) {
		return -1, errors.Join(fmt.Errorf("%w: %s is on a network file system or one that leat does not know, "+
			"where processes may not see each other's entries: name a directory on a local disk, or set AllowRemote", ErrRemote, dir), unix.Close(fd))
	}
	return fd, nil
}

// explainDir says what is wrong with a directory and what to do about it.
func explainDir(dir string, err error) error {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		err = pe.Err
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("cache: the directory %s does not exist: create it first (%w)", dir, err)
	case errors.Is(err, unix.ENOTDIR):
		return fmt.Errorf("cache: %s is no directory: name one (%w)", dir, err)
	case errors.Is(err, unix.EROFS):
		return fmt.Errorf("cache: the file system of %s is read-only: name another directory (%w)", dir, err)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("cache: the directory %s can't be written to: change its permissions or name another one (%w)", dir, err)
	case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EDQUOT):
		return fmt.Errorf("cache: no space is left in %s: free some or name another directory (%w)", dir, err)
	}
	return fmt.Errorf("cache: the directory %s: %w", dir, err)
}

func openat(dir int, name string, flags int) (int, error) {
	for {
		fd, err := unix.Openat(dir, name, flags, 0o600)
		if !errors.Is(err, unix.EINTR) {
			return fd, err
		}
	}
}

func procFD(fd int) string { return "/proc/self/fd/" + strconv.Itoa(fd) }
