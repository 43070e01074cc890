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

	"leat/internal/backoff"
	"leat/internal/fdio"
	"leat/internal/localdir"
	"leat/internal/tempfile"
)

// Hidden names. An unlocked file with such a name was left by a killed process, and is swept.
// Callers can't use such names, see checkName.
const (
	// of nameless caches on file systems without unnamed files, followed by 32 hexadecimal digits
	namelessPrefix = ".leat-cache-"
	tempSuffix     = ".leat-new" // of temporary files
)

// newTempFile creates an empty file in an open directory, which holds the hold lock until it is
// closed. hidden must return a new name at each call.
func newTempFile(dir int, hidden func() string) (*tempfile.Locked, error) {
	return tempfile.CreateLocked(dir, &tempfile.LockedOptions{
		Perm:       0o600,
		HiddenName: hidden,
		Lock:       func(fd int) (bool, error) { return lock(fd, lockHold, shared) },
		Close:      closeLocked,
	})
}

// tempName returns the hidden name of a file that will become name; id distinguishes caches.
func tempName(name string, id [16]byte) string {
	return tempPrefix(name) + hex.EncodeToString(id[:8]) + tempSuffix
}

// newTempName is tempName with a random id.
func newTempName(name string) string {
	var id [16]byte
	_, _ = rand.Read(id[:]) // never fails
	return tempName(name, id)
}

func tempPrefix(name string) string {
	const maxPrefix = 255 - 2 - 16 - len(tempSuffix) // bytes of a file name on all usual file systems
	return "." + name[:min(len(name), maxPrefix)] + "."
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

// checkName returns an error for a name that would be swept.
func checkName(path, name string) error {
	if isNamelessName(name) || isTempName(name) {
		return fmt.Errorf("%s: reserved for temporary files, which GC removes", path)
	}
	return nil
}

// isTempName reports whether tempName made name, for any file.
func isTempName(name string) bool {
	rest, ok := strings.CutSuffix(name, tempSuffix)
	if !ok || len(rest) < 18 || rest[0] != '.' || rest[len(rest)-17] != '.' {
		return false
	}
	return isHex(rest[len(rest)-16:])
}

// tempsOf matches the hidden names of files that were to become name.
func tempsOf(name string) func(string) bool {
	return func(s string) bool {
		return isTempName(s) && s[:len(s)-16-len(tempSuffix)] == tempPrefix(name)
	}
}

func unlink(dir int, name string) error {
	if err := unix.Unlinkat(dir, name, 0); err != nil && !errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("removing %s: %w", name, err)
	}
	return nil
}

// names returns the names in an open directory.
func names(dir int) ([]string, error) {
	fd, err := fdio.Open(dir, ".", unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), ".")
	defer f.Close()
	return f.Readdirnames(-1)
}

// sweep removes the unlocked files with matching names.
func sweep(dir int, match func(name string) bool) error {
	all, err := names(dir)
	if err != nil {
		return err
	}
	for _, name := range all {
		if match(name) {
			removeIfUnlocked(dir, name)
		}
	}
	return nil
}

// removeIfUnlocked removes a file on the conditions of ifUnlocked.
func removeIfUnlocked(dir int, name string) bool {
	return ifUnlocked(dir, name, func() error { return unlink(dir, name) })
}

// ifUnlocked calls do unless a file is locked, or not a regular file of the user, and reports
// whether do succeeded. A file with the name of a nameless cache must be one; temporary files are
// recognized by name alone, since an export has no header.
func ifUnlocked(dir int, name string, do func() error) bool {
	fd, err := fdio.Open(dir, name, unix.O_RDWR|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return false
	}
	defer closeLocked(fd)
	if checkOwn(fd) != nil {
		return false
	}
	ok, err := lock(fd, lockHold, exclusive)
	if isNamelessName(name) && !isNameless(fd) {
		return false
	}
	return ok && err == nil && tempfile.Leads(dir, name, fd) && do() == nil
}

// isNameless reports whether an open file is a nameless cache or an unfinished one with an empty
// first page. It may be sealed, if a process was killed before it linked the file.
func isNameless(fd int) bool {
	page := make([]byte, pageSize)
	n, err := fdio.ReadFull(fd, page, 0)
	if err != nil {
		return false
	}
	if bytes.Equal(page[:n], zeroPage[:n]) {
		return true
	}
	h, err := parseHeader(page[:n], math.MaxInt64) // ignore the size
	return err == nil && h.flags&flagNameless != 0
}

// checkOwn returns an error unless an open file is a regular file of the user.
func checkOwn(fd int) error {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return fmt.Errorf("%w: it is not a regular file", ErrFormat)
	}
	if int(st.Uid) != os.Geteuid() {
		return fmt.Errorf("%w: it belongs to user %d, not to user %d", ErrForeign, st.Uid, os.Geteuid())
	}
	return nil
}

// hold takes the hold lock of an open file, which a sweep may hold for a moment. It first takes the
// lock of opening processes, which open releases: the first of them sees that no other process has
// the file open, and can repair the tail.
func hold(fd int) error {
	lockOpening(fd)
	for pause := (backoff.Backoff{Next: 20 * time.Microsecond}); ; pause.Sleep() {
		ok, err := lock(fd, lockHold, shared)
		switch {
		case err != nil:
			return fmt.Errorf("locking: %w", err)
		case ok:
			return nil
		case pause.Next > 500*time.Millisecond:
			return errors.New("another process is removing or upgrading it")
		}
	}
}

// lockOpening takes the lock of processes that open the file. It gives up after a second: a stopped
// process delays others, but does not keep them out.
func lockOpening(fd int) {
	for begin := time.Now(); time.Since(begin) < time.Second; {
		if ok, err := lock(fd, lockOpen, exclusive); ok || err != nil {
			return
		}
		time.Sleep(50 * time.Microsecond)
	}
}

// splitPath makes a path absolute and opens its directory.
func splitPath(path string) (abs, name string, dir int, err error) {
	if path == "" {
		return "", "", -1, errors.New("empty file name")
	}
	if os.IsPathSeparator(path[len(path)-1]) {
		return "", "", -1, fmt.Errorf("%s: names a directory, expected a file", path)
	}
	if abs, err = filepath.Abs(path); err != nil {
		return "", "", -1, fmt.Errorf("%s: %w", path, err)
	}
	name = filepath.Base(abs)
	dir, err = fdio.Open(unix.AT_FDCWD, filepath.Dir(abs), unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return "", "", -1, localdir.Explain(filepath.Dir(abs), err)
	}
	return abs, name, dir, nil
}
