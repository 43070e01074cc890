//go:build unix

package cache

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"leat/internal/fault"
)

// Info is what a cache file tells without being opened as a cache.
type Info struct {
	Path      string
	UUID      string
	Slots     int64
	Entries   int64 // that were put; of a preserved one, that it has
	Bytes     int64 // of the file that are given out
	DiskBytes int64 // that it takes on the disk
	MaxBytes  int64
	Frozen    bool
	Preserved bool
	Held      bool // a process has it open; a reader by Load does not show where its file system has no locks
	Nameless  bool // made by Create; without Preserved it is what a process has open, or left
	Leftover  bool // a hidden name: GC removes it, unless Held
	Modified  time.Time
	Durable   Durability
}

// Inspect tells what a cache file is. It takes no lock and stands in nobody's way. What is no cache is ErrFormat. As Load does, it follows symbolic links.
func Inspect(path string) (Info, error) {
	_, name, dir, err := splitPath(path)
	if err != nil {
		return Info{}, err
	}
	defer unix.Close(dir)
	info, err := inspect(dir, name, true)
	if errors.Is(err, ErrFormat) {
		return Info{}, fmt.Errorf("%s: %w", path, err)
	}
	if err != nil {
		return Info{}, explainOpen(path, err)
	}
	info.Path = path
	return info, nil
}

func inspect(dir int, name string, follow bool) (info Info, err error) {
	at, flags := unix.AT_SYMLINK_NOFOLLOW, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC
	if follow {
		at, flags = 0, flags&^unix.O_NOFOLLOW
	}
	var named unix.Stat_t // first: to open a device can have effects
	if err := unix.Fstatat(dir, name, &named, at); err != nil {
		return Info{}, err
	}
	if kind := named.Mode & unix.S_IFMT; kind != unix.S_IFREG && kind != unix.S_IFLNK {
		return Info{}, fmt.Errorf("%w: it is no regular file", ErrFormat)
	}
	fd, err := openat(dir, name, flags)
	if err != nil {
		return Info{}, err
	}
	defer unix.Close(fd)
	h, page, _, err := readHeader(fd)
	if err != nil {
		return Info{}, err
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return Info{}, err
	}
	w := le.Uint64(page[tailAt:])
	s, sealed := parseSeal(page)
	info = Info{
		UUID: fmt.Sprintf("%x", h.uuid), Slots: h.n, Entries: int64(countersOf(page)[countStored].Load()),
		Bytes: int64(w &^ frozen), DiskBytes: st.Blocks * 512, MaxBytes: h.maxBytes, Frozen: w&frozen != 0, Preserved: sealed,
		Nameless: h.flags&flagNameless != 0, Leftover: isNamelessName(name) || isDraftName(name), Modified: modified(&st), Durable: h.durability,
	}
	if sealed {
		info.Entries = s.entries
	}
	info.Held, _ = locked(fd, lockHold)
	return info, nil
}

// List tells of all cache files in a directory, hidden ones too, by name. Files that are something else, or can't be read, and
// symbolic links are left out.
func List(dir string) ([]Info, error) {
	fd, err := openat(unix.AT_FDCWD, dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC)
	if err != nil {
		return nil, explainDir(dir, err)
	}
	defer unix.Close(fd)
	all, err := names(fd)
	if err != nil {
		return nil, explainDir(dir, err)
	}
	slices.Sort(all)
	var infos []Info
	for _, name := range all {
		if info, err := inspect(fd, name, false); err == nil {
			info.Path = filepath.Join(dir, name)
			infos = append(infos, info)
		}
	}
	return infos, nil
}

// GC removes from a directory what killed processes left there: files of the user's with hidden names that nobody holds. It returns
// their paths. Named and preserved caches stay.
func GC(dir string) ([]string, error) {
	fd, err := openat(unix.AT_FDCWD, dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC)
	if err != nil {
		return nil, explainDir(dir, err)
	}
	defer unix.Close(fd)
	removed, err := sweep(fd, func(name string) bool { return isNamelessName(name) || isDraftName(name) })
	for k, name := range removed {
		removed[k] = filepath.Join(dir, name)
	}
	if err != nil {
		return removed, explainDir(dir, err)
	}
	return removed, nil
}

// Remove removes a named or preserved cache. It is refused while a process has it open, as far as Info.Held can tell, unless force is true: those go on
// with a file that nobody else can find (on a network file system, those of other machines may lose it).
func Remove(path string, force bool) error {
	_, name, dir, err := splitPath(path)
	if err != nil {
		return err
	}
	defer unix.Close(dir)
	if _, err := inspect(dir, name, false); errors.Is(err, ErrFormat) {
		return fmt.Errorf("%s: %w", path, err)
	} else if err != nil {
		return explainOpen(path, err)
	}
	const flags = unix.O_NOFOLLOW | unix.O_NONBLOCK | unix.O_CLOEXEC
	fd, err := openat(dir, name, unix.O_RDWR|flags)
	readOnly := errors.Is(err, unix.EACCES) || errors.Is(err, unix.EPERM) // a preserved one, mostly
	if readOnly {
		fd, err = openat(dir, name, unix.O_RDONLY|flags)
	}
	if err != nil {
		return explainOpen(path, err)
	}
	defer closeLocked(fd)
	// Who opens it now waits, and finds that the name is gone.
	held := false
	if readOnly {
		held, err = locked(fd, lockHold)
	} else {
		var ok bool
		ok, err = lock(fd, lockHold, exclusive)
		held = !ok
	}
	switch {
	case err != nil && !force:
		return fmt.Errorf("cache: locking %s: %w", path, err)
	case held && !force:
		return fmt.Errorf("cache: %s is in use", path)
	}
	fault.Point("cache.removing")
	if _, _, _, err := readHeader(fd); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if !leads(dir, name, fd) {
		return fmt.Errorf("cache: %s was replaced at this moment: try again", path)
	}
	if err := unix.Unlinkat(dir, name, 0); err != nil {
		return explainOpen(path, err)
	}
	return nil
}
