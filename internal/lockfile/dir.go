//go:build unix

package lockfile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// Errors of folders and holds. A name that does not exist is fs.ErrNotExist, one that does already
// fs.ErrExist.
var (
	// ErrForeign tells that a folder or file belongs to another user, is open to others, or is not
	// of the kind it should be.
	ErrForeign = errors.New("not a directory of this user alone")
	// ErrHeld tells that someone else holds what was asked for.
	ErrHeld = errors.New("held by another")
)

// ID is what a file is, whatever its names.
type ID struct{ Dev, Ino uint64 }

func idOf(st *unix.Stat_t) ID { return ID{uint64(st.Dev), st.Ino} }

// Dir is an open folder in which leases live. It may be used by several goroutines; after Close it
// must not be used.
type Dir struct {
	path string
	fd   int // raw: an os.File would be closed, and its lock dropped, when the collector finds it unused

	mu     sync.Mutex
	cursor *os.File // where [Dir.SweepSome] goes on; nil before and after a round
}

// RootVariable names another folder for leases than RootPath's usual one.
const RootVariable = "LEAT_RUNTIME_DIR"

// RootPath is the folder for this user's leases: $LEAT_RUNTIME_DIR, else /dev/shm/leat-UID, else
// /tmp/leat-UID where there is no /dev/shm to write to. Variables of a login session, as
// XDG_RUNTIME_DIR, have no part in it: a shell and a batch job of one user must come to the same
// place.
func RootPath() string {
	if dir := os.Getenv(RootVariable); dir != "" {
		return dir
	}
	name := "leat-" + strconv.Itoa(os.Geteuid())
	var st unix.Stat_t
	if unix.Stat("/dev/shm", &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFDIR && unix.Access("/dev/shm",
		unix.W_OK|unix.X_OK) == nil {
		return "/dev/shm/" + name
	}
	return "/tmp/" + name
}

// marker is a file in each root. A folder without it that holds other things is not leat's, and
// nothing in it is swept.
const marker = ".leat"

// OpenRoot opens the folder at path, making it first where it is missing (0700; its parent must be
// there). It must belong to the user, be open to nobody else, hold nothing but leat's, and lie on a
// local file system. The error says how to mend it; variable is the one of the environment that
// names another folder; where there is one, path must be absolute. The Dir keeps a shared lock on
// the folder, which keeps the cleaners of /tmp away from it.
func OpenRoot(path, variable string) (*Dir, error) {
	if variable != "" && !filepath.IsAbs(path) {
		return nil, notOurs("%s is %q: give an absolute path, for all processes must come to the same folder", variable,
			path)
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	d, err := openDir(unix.AT_FDCWD, path, path)
	var bad *foreignError
	switch {
	case errors.As(err, &bad) && bad.mode != 0 && strings.HasPrefix(filepath.Base(path), "leat-"):
		return nil, notOurs("%s: chmod 700 it, or name another folder in %s", bad.text, variable)
	case errors.As(err, &bad):
		return nil, notOurs("%s: name a folder of your own in %s, which need not exist yet", bad.text, variable)
	case errors.Is(err, unix.ENOTDIR):
		return nil, notOurs("%s lies in what is no folder: name another one in %s", path, variable)
	case err != nil:
		return nil, fmt.Errorf("%w: name another folder in %s", err, variable)
	}
	if kind, local := fileSystem(d.fd); !local {
		return nil, errors.Join(notOurs("%s lies on %s, where locks do not hold: name a folder on a local file system in %s", path, kind, variable), d.Close())
	}
	if err := d.mark(variable); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	// where nobody cleans by age, and locks of a thousand jobs would make a long list
	if !strings.HasPrefix(path, "/dev/shm/") {
		_ = flock(d.fd, unix.LOCK_SH|unix.LOCK_NB)
	}
	return d, nil
}

// mark makes an empty folder leat's, and refuses one that holds something else. The marker comes
// before anything of ours.
func (d *Dir) mark(variable string) error {
	if d.Exists(marker) {
		return nil
	}
	names, err := d.Names()
	if err != nil {
		return err
	}
	if len(names) > 0 && !d.Exists(marker) { // another process may have come first
		return notOurs("%s holds other things, such as %q: name an empty folder in %s, or one that does not exist yet",
			d.path, names[0], variable)
	}
	fd, err := openat(d.fd, marker, unix.O_RDONLY|unix.O_CREAT|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return fmt.Errorf("%w: name another folder in %s", d.explain("create", marker, err), variable)
	}
	return unix.Close(fd)
}

// Has reports whether there is something of that name in the folder.
func (d *Dir) Exists(name string) bool {
	var st unix.Stat_t
	return unix.Fstatat(d.fd, name, &st, unix.AT_SYMLINK_NOFOLLOW) == nil
}

// foreignError is an ErrForeign whose text says it all.
type foreignError struct {
	text string
	mode uint32 // of a folder that is ours, and open to others; else 0
}

func notOurs(format string, args ...any) error {
	return &foreignError{text: fmt.Sprintf(format, args...)}
}

func (e *foreignError) Error() string { return e.text }

// Is makes the error an ErrForeign.
func (e *foreignError) Is(target error) bool { return target == ErrForeign }

// Sub opens a folder in d, making it where it is missing.
func (d *Dir) MakeSub(name string) (*Dir, error) {
	return openDir(d.fd, name, filepath.Join(d.path, name))
}

// OpenSub opens a folder in d that exists.
func (d *Dir) OpenSub(name string) (*Dir, error) {
	return openOwn(d.fd, name, filepath.Join(d.path, name))
}

// openDir opens name below the folder at, with the rights of a private folder.
func openDir(at int, name, path string) (*Dir, error) {
	for {
		ownRights(at, name)
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

// ownRights gives the user the rights to a folder of their own that mkdir made under an umask which
// took them away. Where it can't (not ours, a link, a kernel that can't change a name's mode
// without following links) the opening that comes next tells.
func ownRights(at int, name string) {
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
		return nil, notOurs("%s is a link or a file, not a folder", path)
	case errors.Is(err, unix.EACCES):
		return nil, notOurs("%s can't be opened, it may belong to another user", path)
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
		return nil, notOurs("%s belongs to user %d, not to user %d", path, st.Uid, os.Geteuid())
	}
	if st.Mode&0o077 != 0 {
		unix.Close(fd)
		return nil, &foreignError{fmt.Sprintf("%s is open to other users (mode %04o)", path, st.Mode&0o7777),
			uint32(st.Mode)}
	}
	return &Dir{path: path, fd: fd}, nil
}

// Path is where the folder was when it was opened.
func (d *Dir) Path() string { return d.path }

// Fd is the descriptor of the folder, which d keeps.
func (d *Dir) Fd() int { return d.fd }

// Gone reports whether the folder was removed or moved since it was opened: what is made in it now
// nobody else finds.
func (d *Dir) Gone() bool {
	var st, there unix.Stat_t
	return unix.Fstat(d.fd, &st) != nil || st.Nlink == 0 || unix.Lstat(d.path,
		&there) != nil || idOf(&st) != idOf(&there)
}

// RemoveAll removes what has that name in the folder, with all that it holds, following no link.
// Nothing is not an error.
func (d *Dir) RemoveAll(name string) error {
	err := unix.Unlinkat(d.fd, name, 0)
	if err == nil || errors.Is(err, unix.ENOENT) {
		return nil
	}
	sub, err1 := openOwn(d.fd, name, filepath.Join(d.path, name))
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

// Names lists what is in the folder, but for the marker of a root.
func (d *Dir) Names() ([]string, error) {
	f, err := d.list()
	if err != nil {
		return nil, err
	}
	defer f.Close()
	names, err := f.Readdirnames(-1)
	return slices.DeleteFunc(names, func(n string) bool { return n == marker }), err
}

func (d *Dir) list() (*os.File, error) {
	fd, err := openat(d.fd, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: d.path, Err: err}
	}
	return os.NewFile(uintptr(fd), d.path), nil
}

// SweepSome sweeps the next n names of the folder, round after round, and returns how many it
// removed. A caller that does it whenever it makes a file keeps the folder from filling with what
// killed processes left, at a bounded price. With n below 1 it does nothing.
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

// Close closes the folder. Holds on files in it stay; they can be released, but [Lock.RemoveIfLast] needs
// the folder open.
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
