//go:build unix

package lease

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// Errors of folders and holds. A name that does not exist is fs.ErrNotExist, one that does already fs.ErrExist.
var (
	// ErrForeign tells that a folder or file belongs to another user, is open to others, or is not of the kind it should be.
	ErrForeign = errors.New("lease: not ours")
	// ErrHeld tells that someone else holds what was asked for.
	ErrHeld = errors.New("lease: held by another")
)

// ID is what a file is, whatever its names.
type ID struct{ Dev, Ino uint64 }

func idOf(st *unix.Stat_t) ID { return ID{uint64(st.Dev), st.Ino} }

// Dir is an open folder in which leases live. It may be used by several goroutines; after Close it must not be used.
type Dir struct {
	path string
	fd   int // raw: an os.File would be closed, and its lock dropped, when the collector finds it unused

	mu     sync.Mutex
	cursor *os.File // where [Dir.SweepSome] goes on; nil before and after a round
}

// RootPath is the folder for this user's leases: $LEAT_RUNTIME_DIR, else /dev/shm/leat-UID, else /tmp/leat-UID
// where there is no /dev/shm to write to. Variables of a login session, as XDG_RUNTIME_DIR, have no
// part in it: a shell and a batch job of one user must come to the same place.
func RootPath() string {
	if dir := os.Getenv("LEAT_RUNTIME_DIR"); dir != "" {
		return dir
	}
	name := "leat-" + strconv.Itoa(os.Geteuid())
	var st unix.Stat_t
	if unix.Stat("/dev/shm", &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFDIR && unix.Access("/dev/shm", unix.W_OK|unix.X_OK) == nil {
		return "/dev/shm/" + name
	}
	return "/tmp/" + name
}

// OpenRoot opens the folder at path, making it first where it is missing (0700; its parent must be there). It
// must belong to the user, be open to nobody else, and lie on a local file system; the error says how to mend it.
// The Dir keeps a shared lock on the folder, which keeps the cleaners of /tmp away from it.
func OpenRoot(path string) (*Dir, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	d, err := openDir(unix.AT_FDCWD, path, path)
	if err != nil {
		return nil, err
	}
	if kind, local := fileSystem(d.fd); !local {
		return nil, errors.Join(fmt.Errorf("%s lies on %s, where locks do not hold: name a folder on a local file system in LEAT_RUNTIME_DIR", path, kind), d.Close())
	}
	if !strings.HasPrefix(path, "/dev/shm/") { // where nobody cleans by age, and locks of a thousand jobs would make a long list
		_ = flock(d.fd, unix.LOCK_SH|unix.LOCK_NB)
	}
	return d, nil
}

// Sub opens a folder in d, making it where it is missing.
func (d *Dir) Sub(name string) (*Dir, error) {
	return openDir(d.fd, name, filepath.Join(d.path, name))
}

// OpenSub opens a folder in d that exists.
func (d *Dir) OpenSub(name string) (*Dir, error) {
	return openOwn(d.fd, name, filepath.Join(d.path, name))
}

// openDir opens name below the folder at, with the rights of a private folder.
func openDir(at int, name, path string) (*Dir, error) {
	for {
		unlock(at, name)
		d, err := openOwn(at, name, path)
		if !errors.Is(err, fs.ErrNotExist) {
			return d, err
		}
		// The mode is set by mkdir itself: whatever the umask, nobody else ever sees the folder.
		if err := unix.Mkdirat(at, name, 0o700); err != nil && !errors.Is(err, unix.EEXIST) {
			return nil, fmt.Errorf("the folder %s can't be made: %w", path, err)
		}
	}
}

// unlock gives the user the rights to a folder of their own that mkdir made under an umask which took them away. Where it can't
// (not ours, a link, a kernel that can't change a name's mode without following links) the opening that comes next tells.
func unlock(at int, name string) {
	var st unix.Stat_t
	if unix.Fstatat(at, name, &st, unix.AT_SYMLINK_NOFOLLOW) != nil || st.Mode&unix.S_IFMT != unix.S_IFDIR ||
		int(st.Uid) != os.Geteuid() || st.Mode&0o700 == 0o700 || st.Mode&0o077 != 0 {
		return
	}
	_ = unix.Fchmodat(at, name, 0o700, unix.AT_SYMLINK_NOFOLLOW)
}

// openOwn opens a folder that is there and ours.
func openOwn(at int, name, path string) (*Dir, error) {
	fd, err := openat(at, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	switch {
	case errors.Is(err, unix.ELOOP), errors.Is(err, unix.ENOTDIR):
		return nil, fmt.Errorf("%s is a link or a file, not a folder: remove it, or name another folder in LEAT_RUNTIME_DIR: %w", path, ErrForeign)
	case errors.Is(err, unix.EACCES):
		return nil, fmt.Errorf("%s can't be opened, it may belong to another user: remove it, or name another folder in LEAT_RUNTIME_DIR: %w", path, ErrForeign)
	case err != nil:
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		unix.Close(fd)
		return nil, &fs.PathError{Op: "stat", Path: path, Err: err}
	}
	if int(st.Uid) != os.Geteuid() {
		unix.Close(fd)
		return nil, fmt.Errorf("%s belongs to user %d, not to user %d: have it removed, or name another folder in LEAT_RUNTIME_DIR: %w", path, st.Uid, os.Geteuid(), ErrForeign)
	}
	if st.Mode&0o077 != 0 {
		unix.Close(fd)
		return nil, fmt.Errorf("%s is open to other users (mode %04o): chmod 700 it, or name another folder in LEAT_RUNTIME_DIR: %w", path, st.Mode&0o7777, ErrForeign)
	}
	return &Dir{path: path, fd: fd}, nil
}

// Path is where the folder was when it was opened.
func (d *Dir) Path() string { return d.path }

// Fd is the descriptor of the folder, which d keeps.
func (d *Dir) Fd() int { return d.fd }

// Gone reports whether the folder was removed since it was opened: what is made in it now nobody else can see.
func (d *Dir) Gone() bool {
	var st unix.Stat_t
	return unix.Fstat(d.fd, &st) != nil || st.Nlink == 0
}

// Names lists what is in the folder.
func (d *Dir) Names() ([]string, error) {
	f, err := d.list()
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return f.Readdirnames(-1)
}

func (d *Dir) list() (*os.File, error) {
	fd, err := openat(d.fd, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: d.path, Err: err}
	}
	return os.NewFile(uintptr(fd), d.path), nil
}

// SweepSome sweeps the next n names of the folder, round after round, and returns how many it removed. A caller that
// does it whenever it makes a file keeps the folder from filling with what killed processes left, at a bounded price. With n below 1
// it does nothing.
func (d *Dir) SweepSome(n int) (removed int, err error) {
	if n < 1 {
		return 0, nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.cursor == nil {
		if d.cursor, err = d.list(); err != nil {
			return 0, err
		}
	}
	names, err := d.cursor.Readdirnames(n)
	if errors.Is(err, io.EOF) || len(names) < n {
		err = errors.Join(ignoreEOF(err), d.cursor.Close())
		d.cursor = nil
	}
	for _, name := range names {
		gone, err1 := d.Sweep(name)
		if gone {
			removed++
		}
		err = errors.Join(err, err1)
	}
	return removed, err
}

func ignoreEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// Remove removes the name of a file, whoever holds it.
func (d *Dir) Remove(name string) error {
	if err := unix.Unlinkat(d.fd, name, 0); err != nil {
		return &fs.PathError{Op: "remove", Path: filepath.Join(d.path, name), Err: err}
	}
	return nil
}

// Close closes the folder. Holds on files in it stay; they can be released, but [Hold.Leave] needs the folder open.
func (d *Dir) Close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	var err error
	if d.cursor != nil {
		err = d.cursor.Close()
		d.cursor = nil
	}
	err = errors.Join(err, unix.Close(d.fd))
	d.fd = -1 // the number may be another file's soon
	return err
}

func openat(at int, name string, flags int, mode uint32) (int, error) {
	for {
		fd, err := unix.Openat(at, name, flags, mode)
		if !errors.Is(err, unix.EINTR) {
			return fd, err
		}
	}
}

func flock(fd, how int) error {
	for {
		if err := unix.Flock(fd, how); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}
