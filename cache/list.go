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
	"leat/internal/fdio"
	"leat/internal/localdir"
	"leat/internal/tempfile"
)

// Info describes a cache file without opening it as a cache.
type Info struct {
	Path      string
	Version   int // of the format: 1, or 2 of new files
	UUID      string
	Slots     int64
	Entries   int64 // entries put; those contained if Preserved
	Bytes     int64 // allocated bytes of the file
	DiskBytes int64 // bytes on the disk
	MaxBytes  int64
	Frozen    bool
	Preserved bool
	Held      bool // a process has it open; on a file system without locks, readers by Load don't count
	Nameless  bool // made by Create; unless Preserved, it is open in a process or left over
	Leftover  bool // has a hidden name; GC removes it unless Held
	Modified  time.Time
	Durable   Durability
}

// Inspect describes a cache file. It takes no lock and follows symbolic links, like Load. The error
// is ErrFormat if the file is not a cache.
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
	at, flags := unix.AT_SYMLINK_NOFOLLOW, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK
	if follow {
		at, flags = 0, flags&^unix.O_NOFOLLOW
	}
	var named unix.Stat_t // before opening: opening a device can have effects
	if err := unix.Fstatat(dir, name, &named, at); err != nil {
		return Info{}, err
	}
	if kind := named.Mode & unix.S_IFMT; kind != unix.S_IFREG && kind != unix.S_IFLNK {
		return Info{}, fmt.Errorf("%w: it is not a regular file", ErrFormat)
	}
	fd, err := fdio.Open(dir, name, flags, 0)
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
	words := sharedWordsOf(page, h.version)
	info = Info{
		Version: int(h.version), UUID: fmt.Sprintf("%x", h.uuid), Slots: h.n, Entries: words.counter(countStored),
		Bytes: int64(w &^ frozen), DiskBytes: st.Blocks * 512, MaxBytes: h.maxBytes, Frozen: w&frozen != 0,
		Preserved: sealed,
		Nameless:  h.flags&flagNameless != 0, Leftover: isNamelessName(name) || isTempName(name),
		Modified: time.Unix(st.Mtim.Unix()), Durable: h.durability,
	}
	if sealed {
		info.Entries = s.entries
	}
	info.Held, _ = fdio.Locked(fd, lockHold, 1)
	if !info.Held { // the next process to open it moves the tail back to the end of the file
		info.Bytes = min(info.Bytes, roundUp(st.Size, align))
	}
	return info, nil
}

// List describes all cache files in a directory, including hidden ones, sorted by name. It skips
// symbolic links and files that are not caches or can't be read.
func List(dir string) ([]Info, error) {
	fd, err := fdio.Open(unix.AT_FDCWD, dir, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return nil, localdir.Explain(dir, err)
	}
	defer unix.Close(fd)
	all, err := names(fd)
	if err != nil {
		return nil, localdir.Explain(dir, err)
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

// GC removes what killed processes left in a directory: unlocked files of the user with hidden
// names. It returns their paths. Named and preserved caches stay. With dryRun, it returns what it
// would remove, and removes nothing.
func GC(dir string, dryRun bool) ([]string, error) {
	if !dryRun {
		return leftovers(dir, removeIfUnlocked)
	}
	return leftovers(dir, func(fd int, name string) bool { return ifUnlocked(fd, name, func() error { return nil }) })
}

// leftovers returns the paths of the files with hidden names for which f, which gets the open
// directory, returns true.
func leftovers(dir string, f func(dir int, name string) bool) ([]string, error) {
	fd, err := fdio.Open(unix.AT_FDCWD, dir, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return nil, localdir.Explain(dir, err)
	}
	defer unix.Close(fd)
	all, err := names(fd)
	if err != nil {
		return nil, localdir.Explain(dir, err)
	}
	var found []string
	for _, name := range all {
		if (isNamelessName(name) || isTempName(name)) && f(fd, name) {
			found = append(found, filepath.Join(dir, name))
		}
	}
	return found, nil
}

// Remove removes a named or preserved cache. Unless force is true, it refuses to do so while a
// process has the cache open, as far as Info.Held shows. With force, those processes keep using a
// file without a name (on a network file system, those of other machines may lose it).
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
	fd, err := fdio.Open(dir, name, unix.O_RDWR|flags, 0)
	readOnly := errors.Is(err, unix.EACCES) || errors.Is(err, unix.EPERM) // usually a preserved one
	if readOnly {
		fd, err = fdio.Open(dir, name, unix.O_RDONLY|flags, 0)
	}
	if err != nil {
		return explainOpen(path, err)
	}
	defer closeLocked(fd)
	// A process that opens it now waits, and then finds the name gone.
	held := false
	if readOnly {
		held, err = fdio.Locked(fd, lockHold, 1)
	} else {
		var ok bool
		ok, err = lock(fd, lockHold, exclusive)
		held = !ok
	}
	switch {
	case err != nil && !force:
		return fmt.Errorf("locking %s: %w", path, err)
	case held && !force:
		return fmt.Errorf("%s: open in a process", path)
	}
	fault.Point("cache.removing")
	if _, _, _, err := readHeader(fd); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if !tempfile.Leads(dir, name, fd) {
		return fmt.Errorf("%s: replaced meanwhile", path)
	}
	if err := unix.Unlinkat(dir, name, 0); err != nil {
		return explainOpen(path, err)
	}
	return nil
}
