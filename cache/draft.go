//go:build unix

package cache

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"leat/internal/fault"
)

// Hidden names. A file that nobody holds and that has one is what a killed process left: it is swept. Nobody else can have a cache make a file
// with such a name, see ordinaryName.
const (
	namelessPrefix = ".leat-cache-" // of nameless caches, where the file system has no unnamed files; 32 hexadecimal digits follow
	draftSuffix    = ".leat-new"    // of files that are to have another name in a moment
)

// draft is a file in the making: without a name, so that the kernel frees it with this process, or under a hidden one where the file system
// has no such files. It holds the hold lock.
type draft struct {
	dir    int
	fd     int
	hidden string
}

// newDraft makes an empty file in an open directory. hidden gives another name at each call: a sweeper that found one of its files before it was
// locked removes that name a while later, and must not hit the next file.
func newDraft(dir int, hidden func() string) (*draft, error) {
	for {
		d := &draft{dir: dir}
		var err error
		if d.fd, err = unnamed(dir); errors.Is(err, errors.ErrUnsupported) {
			d.hidden = hidden()
			d.fd, err = openat(dir, d.hidden, unix.O_RDWR|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC)
		}
		if err != nil {
			return nil, err
		}
		fault.Point("cache.created")
		ok, err := lock(d.fd, lockHold, shared)
		if err == nil {
			err = unix.Fchmod(d.fd, 0o600) // whatever the umask
		}
		if err != nil {
			return nil, errors.Join(fmt.Errorf("cache: locking a new file: %w", err), d.drop())
		}
		if ok && (d.hidden == "" || leads(dir, d.hidden, d.fd)) {
			return d, nil
		}
		// A sweeper took it before it was locked.
		if err := d.drop(); err != nil {
			return nil, err
		}
	}
}

// drop gives the file up.
func (d *draft) drop() error {
	if d.hidden != "" && leads(d.dir, d.hidden, d.fd) {
		_ = unlink(d.dir, d.hidden)
	}
	return closeLocked(d.fd)
}

// name gives the file a name, which must be free (else fs.ErrExist), instead of the hidden one.
func (d *draft) name(name string) error {
	if d.hidden == "" {
		return link(d.fd, d.dir, name)
	}
	if err := unix.Linkat(d.dir, d.hidden, d.dir, name, 0); err != nil {
		return err
	}
	fault.Point("cache.linked")
	hidden := d.hidden
	d.hidden = ""
	return unlink(d.dir, hidden)
}

// draftName returns the hidden name for a file that is to become name; id keeps those of different caches apart.
func draftName(name string, id [16]byte) string {
	return draftPrefix(name) + hex.EncodeToString(id[:8]) + draftSuffix
}

// newDraftName is draftName with an id of its own.
func newDraftName(name string) string {
	var id [16]byte
	_, _ = rand.Read(id[:]) // never fails
	return draftName(name, id)
}

func draftPrefix(name string) string {
	const most = 255 - 2 - 16 - len(draftSuffix) // bytes of a file name on all usual file systems
	return "." + name[:min(len(name), most)] + "."
}

func newNamelessName() string {
	var id [16]byte
	_, _ = rand.Read(id[:]) // never fails
	return namelessPrefix + hex.EncodeToString(id[:])
}

func isNamelessName(name string) bool {
	digits, ok := strings.CutPrefix(name, namelessPrefix)
	return ok && len(digits) == 32 && isHex(digits)
}

func isHex(s string) bool { return strings.Trim(s, "0123456789abcdef") == "" }

// ordinaryName refuses to make a file with a name that would have it swept.
func ordinaryName(path, name string) error {
	if isNamelessName(name) || isDraftName(name) {
		return fmt.Errorf("cache: %s: leat gives such names to files in the making, which GC removes: give another name", path)
	}
	return nil
}

// isDraftName tells whether name is a hidden one that draftName made, for any file.
func isDraftName(name string) bool {
	rest, ok := strings.CutSuffix(name, draftSuffix)
	if !ok || len(rest) < 18 || rest[0] != '.' || rest[len(rest)-17] != '.' {
		return false
	}
	return isHex(rest[len(rest)-16:])
}

// draftsOf matches the hidden names of files that were to become name.
func draftsOf(name string) func(string) bool {
	return func(s string) bool {
		return isDraftName(s) && s[:len(s)-16-len(draftSuffix)] == draftPrefix(name)
	}
}

// leads tells whether a name leads to an open file.
func leads(dir int, name string, fd int) bool {
	var a, b unix.Stat_t
	return unix.Fstatat(dir, name, &a, unix.AT_SYMLINK_NOFOLLOW) == nil && unix.Fstat(fd, &b) == nil && a.Dev == b.Dev && a.Ino == b.Ino
}

func unlink(dir int, name string) error {
	if err := unix.Unlinkat(dir, name, 0); err != nil && !errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("cache: removing %s: %w", name, err)
	}
	return nil
}

// names lists an open directory.
func names(dir int) ([]string, error) {
	fd, err := openat(dir, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), ".")
	defer f.Close()
	return f.Readdirnames(-1)
}

// sweep removes the files with matching names that nobody holds, and returns their names.
func sweep(dir int, match func(name string) bool) (removed []string, err error) {
	all, err := names(dir)
	if err != nil {
		return nil, err
	}
	for _, name := range all {
		if match(name) && sweepOne(dir, name) {
			removed = append(removed, name)
		}
	}
	return removed, nil
}

// sweepOne removes a file if nobody holds it. What is no regular file of the user's stays, and so does what has the name of a nameless cache and is
// none. Of drafts the name must do: an export's has no mark.
func sweepOne(dir int, name string) bool {
	fd, err := openat(dir, name, unix.O_RDWR|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC)
	if err != nil {
		return false
	}
	defer closeLocked(fd)
	if checkOwn(fd) != nil {
		return false
	}
	ok, err := lock(fd, lockHold, exclusive)
	if isNamelessName(name) && !leftNameless(fd) {
		return false
	}
	return ok && err == nil && leads(dir, name, fd) && unlink(dir, name) == nil
}

// leftNameless tells whether an open file is a nameless cache, or was to become one: its first page is empty then. It may be sealed, by a process that was
// killed before it gave the file its name.
func leftNameless(fd int) bool {
	page := make([]byte, pageSize)
	n, err := preadFull(fd, page, 0)
	if err != nil {
		return false
	}
	if bytes.Equal(page[:n], zeroPage[:n]) {
		return true
	}
	h, err := parseHeader(page[:n], math.MaxInt64) // whatever is left of the rest
	return err == nil && h.flags&flagNameless != 0
}

// checkOwn reports an open file that is no regular file of the user's.
func checkOwn(fd int) error {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return fmt.Errorf("%w: it is no regular file", ErrFormat)
	}
	if int(st.Uid) != os.Geteuid() {
		return fmt.Errorf("%w: it belongs to user %d, not to user %d", ErrForeign, st.Uid, os.Geteuid())
	}
	return nil
}

// hold takes the hold lock of an open file. A sweeper may have it for a moment.
func hold(fd int) error {
	for wait := 20 * time.Microsecond; ; wait *= 2 {
		ok, err := lock(fd, lockHold, shared)
		switch {
		case err != nil:
			return fmt.Errorf("locking: %w", err)
		case ok:
			return nil
		case wait > 500*time.Millisecond:
			return errors.New("another process removes it: try again")
		}
		time.Sleep(wait)
	}
}

// splitPath makes a path absolute and opens its directory.
func splitPath(path string) (abs, name string, dir int, err error) {
	if path == "" {
		return "", "", -1, errors.New("cache: no file name given")
	}
	if os.IsPathSeparator(path[len(path)-1]) {
		return "", "", -1, fmt.Errorf("cache: %s names a directory: give the name of a file in it", path)
	}
	if abs, err = filepath.Abs(path); err != nil {
		return "", "", -1, fmt.Errorf("cache: %s: %w", path, err)
	}
	name = filepath.Base(abs)
	dir, err = openat(unix.AT_FDCWD, filepath.Dir(abs), unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC)
	if err != nil {
		return "", "", -1, explainDir(filepath.Dir(abs), err)
	}
	return abs, name, dir, nil
}
