//go:build unix

package lockfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"leat/internal/fdio"
	"leat/internal/localdir"
)

var (
	// ErrForeign is returned for a directory or file that belongs to another user, is open to other
	// users, or is not of the expected kind.
	ErrForeign = errors.New("not a private file of this user")
	// ErrLocked is returned when another process has locked a file.
	ErrLocked = errors.New("locked by another process")
)

// Dir is an open private directory. It is safe for concurrent use until Close.
type Dir struct {
	path string
	fd   int // raw: the garbage collector would close an os.File, and end its lock

	mu     sync.Mutex
	cursor *os.File // where SweepSome continues; nil between rounds
}

// RootVariable is the environment variable that replaces RootPath's default.
const RootVariable = "LEAT_RUNTIME_DIR"

// RootPath returns the directory for this user's lockfiles: $LEAT_RUNTIME_DIR, else
// /dev/shm/leat-UID, else /tmp/leat-UID if /dev/shm is not writable. It ignores the variables of a
// login session, such as XDG_RUNTIME_DIR, since a shell and a batch job of one user must get the
// same directory.
func RootPath() string {
	if dir := os.Getenv(RootVariable); dir != "" {
		return dir
	}
	name := "leat-" + strconv.Itoa(os.Geteuid())
	var st unix.Stat_t
	if unix.Stat("/dev/shm", &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFDIR &&
		unix.Access("/dev/shm", unix.W_OK|unix.X_OK) == nil {
		return "/dev/shm/" + name
	}
	return "/tmp/" + name
}

// marker is a file in each root directory. A directory that holds other files but no marker is not
// leat's, and is not swept.
const marker = ".leat"

// OpenRoot opens the directory at path, and creates it (0700) if it is missing; its parent must
// exist. It must belong to the user, be closed to others, hold only leat's files, and be on a local
// file system. variable is the environment variable that names the directory, for errors; if it is
// not empty, path must be absolute. The Dir keeps a shared lock on the directory, which protects it
// from cleaners of /tmp.
func OpenRoot(path, variable string) (*Dir, error) {
	d, err := openRoot(path, variable)
	if err != nil && variable != "" {
		return nil, fmt.Errorf("opening the directory of %s: %w", variable, err)
	}
	return d, err
}

func openRoot(path, variable string) (*Dir, error) {
	if variable != "" && !filepath.IsAbs(path) {
		return nil, notPrivate("%q: expected an absolute path", path)
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	d, err := openDir(unix.AT_FDCWD, path, path)
	if errors.Is(err, unix.ENOTDIR) {
		return nil, notPrivate("%s: its parent is not a directory", path)
	}
	if err != nil {
		return nil, err
	}
	if f := localdir.Of(d.fd); f.Kind == localdir.Remote {
		return nil, errors.Join(notPrivate("%s: on %s; expected a local file system", path, f.Name), d.Close())
	}
	if err := d.mark(); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	// Not in /dev/shm, which nobody cleans by age: the locks of a thousand jobs would make a long
	// list.
	if !strings.HasPrefix(path, "/dev/shm/") {
		_ = fdio.Flock(d.fd, unix.LOCK_SH|unix.LOCK_NB)
	}
	return d, nil
}

// mark creates the marker in an empty directory; a directory that holds other files is an error.
func (d *Dir) mark() error {
	if d.Exists(marker) {
		return nil
	}
	names, err := d.Names()
	if err != nil {
		return err
	}
	if len(names) > 0 && !d.Exists(marker) { // another process may have marked it meanwhile
		return notPrivate("%s: holds other files, such as %q", d.path, names[0])
	}
	fd, err := fdio.Open(d.fd, marker, unix.O_RDONLY|unix.O_CREAT|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return d.explain("create", marker, err)
	}
	return unix.Close(fd)
}

// Exists reports whether the directory has an entry of that name.
func (d *Dir) Exists(name string) bool {
	var st unix.Stat_t
	return unix.Fstatat(d.fd, name, &st, unix.AT_SYMLINK_NOFOLLOW) == nil
}

// foreignError is an ErrForeign with a text of its own.
type foreignError struct{ text string }

func notPrivate(format string, args ...any) error { return &foreignError{fmt.Sprintf(format, args...)} }

func (e *foreignError) Error() string        { return e.text }
func (e *foreignError) Is(target error) bool { return target == ErrForeign }

// MakeSub opens a directory in d, and creates it if it is missing.
func (d *Dir) MakeSub(name string) (*Dir, error) {
	return openDir(d.fd, name, filepath.Join(d.path, name))
}

// OpenSub opens an existing directory in d.
func (d *Dir) OpenSub(name string) (*Dir, error) {
	return openPrivate(d.fd, name, filepath.Join(d.path, name))
}

// openDir opens a private directory, and creates it if it is missing.
func openDir(at int, name, path string) (*Dir, error) {
	for {
		restoreRights(at, name)
		d, err := openPrivate(at, name, path)
		if !errors.Is(err, fs.ErrNotExist) {
			return d, err
		}
		// mkdir itself sets the mode: whatever the umask, the directory is never open to others.
		if err := unix.Mkdirat(at, name, 0o700); err != nil && !errors.Is(err, unix.EEXIST) {
			return nil, &fs.PathError{Op: "mkdir", Path: path, Err: err}
		}
	}
}

// restoreRights restores the user's rights to an own directory that mkdir created under an umask
// that removed them. If it fails, the following open returns the error.
func restoreRights(at int, name string) {
	var st unix.Stat_t
	if unix.Fstatat(at, name, &st, unix.AT_SYMLINK_NOFOLLOW) != nil || st.Mode&unix.S_IFMT != unix.S_IFDIR ||
		int(st.Uid) != os.Geteuid() || st.Mode&0o700 == 0o700 || st.Mode&0o077 != 0 {
		return
	}
	_ = unix.Fchmodat(at, name, 0o700, unix.AT_SYMLINK_NOFOLLOW)
}

// openPrivate opens an existing private directory of the user.
func openPrivate(at int, name, path string) (*Dir, error) {
	fd, err := fdio.Open(at, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	switch {
	case errors.Is(err, unix.ELOOP), errors.Is(err, unix.ENOTDIR):
		return nil, notPrivate("%s: a symbolic link or a file; expected a directory", path)
	case errors.Is(err, unix.EACCES):
		return nil, notPrivate("%s: permission denied", path)
	case err != nil:
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	var st unix.Stat_t
	err = unix.Fstat(fd, &st)
	switch {
	case err != nil:
		err = &fs.PathError{Op: "stat", Path: path, Err: err}
	case int(st.Uid) != os.Geteuid():
		err = notPrivate("%s: belongs to user %d; expected user %d", path, st.Uid, os.Geteuid())
	case st.Mode&0o077 != 0:
		err = notPrivate("%s: open to other users (mode %04o); expected mode 0700", path, st.Mode&0o7777)
	}
	if err != nil {
		return nil, errors.Join(err, unix.Close(fd))
	}
	return &Dir{path: path, fd: fd}, nil
}

// Path returns the path of the directory when it was opened.
func (d *Dir) Path() string { return d.path }

// FilePath returns the path of a name in the directory.
func (d *Dir) FilePath(name string) string { return filepath.Join(d.path, name) }

// Fd returns the descriptor of the directory, which d keeps.
func (d *Dir) Fd() int { return d.fd }

// Gone reports whether the directory was removed or moved since it was opened: other processes do
// not find what is created in it now.
func (d *Dir) Gone() bool {
	var st, there unix.Stat_t
	return unix.Fstat(d.fd, &st) != nil || st.Nlink == 0 || unix.Lstat(d.path, &there) != nil ||
		st.Dev != there.Dev || st.Ino != there.Ino
}

// RemoveAll removes a file, or a directory with all that it holds, and follows no symbolic link. A
// missing name is not an error.
func (d *Dir) RemoveAll(name string) error {
	err := unix.Unlinkat(d.fd, name, 0)
	if err == nil || errors.Is(err, unix.ENOENT) {
		return nil
	}
	sub, err1 := openPrivate(d.fd, name, filepath.Join(d.path, name))
	if err1 != nil {
		return errors.Join(d.explain("remove", name, err), err1)
	}
	names, err := sub.Names()
	for _, n := range names {
		err = errors.Join(err, sub.RemoveAll(n))
	}
	if err = errors.Join(err, sub.Close()); err != nil {
		return err
	}
	if err := unix.Unlinkat(d.fd, name, unix.AT_REMOVEDIR); err != nil && !errors.Is(err, unix.ENOENT) {
		return d.explain("remove", name, err)
	}
	return nil
}

// Names returns the names in the directory, without the marker of a root.
func (d *Dir) Names() ([]string, error) {
	f, err := d.open()
	if err != nil {
		return nil, err
	}
	defer f.Close()
	names, err := f.Readdirnames(-1)
	return slices.DeleteFunc(names, func(n string) bool { return n == marker }), err
}

// open opens the directory again, to list it.
func (d *Dir) open() (*os.File, error) {
	fd, err := fdio.Open(d.fd, ".", unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: d.path, Err: err}
	}
	return os.NewFile(uintptr(fd), d.path), nil
}

// Remove removes the name of a file, locked or not.
func (d *Dir) Remove(name string) error {
	if err := unix.Unlinkat(d.fd, name, 0); err != nil {
		return &fs.PathError{Op: "remove", Path: filepath.Join(d.path, name), Err: err}
	}
	return nil
}

// Close closes the directory. Locks on its files stay, but [Lock.RemoveIfLast] must not be called
// afterwards.
func (d *Dir) Close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	var err error
	if d.cursor != nil {
		err = d.cursor.Close()
		d.cursor = nil
	}
	err = errors.Join(err, unix.Close(d.fd))
	d.fd = -1 // another file may get the number
	return err
}
