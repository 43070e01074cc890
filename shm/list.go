//go:build unix

package shm

import (
	"cmp"
	"errors"
	"io/fs"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"leat/internal/fdio"
	"leat/internal/lockfile"
)

// Info describes an object of this user on this host.
type Info struct {
	Name  string // of a named array: its path; of a memfd: /proc/PID/fd/FD
	Kind  string // "whole", "arena", or empty for an unknown file
	Size  int64  // bytes of the file
	Bytes int64  // bytes of memory or disk that it takes
	Held  bool   // a process has it; named files without are left by killed processes
	Maker int    // process that made a memfd, 0 for named arrays
	PIDs  []int  // processes that have it mapped, as far as this user may see them

	dev, ino uint64
}

// List returns the objects of all processes of this user on this host: named files and memory
// without a name, including freed memory that is kept to be used again. It looks at all processes.
func List(o *Options) ([]Info, error) {
	opts, err := o.validate()
	if err != nil {
		return nil, err
	}
	var list []Info
	for _, root := range []string{rootRun, rootTemp} {
		named, err := listNamed(root, opts.TempDir)
		if err != nil {
			return nil, err
		}
		list = append(list, named...)
	}
	if list, err = listProcesses(list); err != nil {
		return nil, err
	}
	slices.SortFunc(list, func(a, b Info) int { return cmp.Compare(a.Name, b.Name) })
	// Both roots may be one directory.
	return slices.CompactFunc(list, func(a, b Info) bool { return a.Name == b.Name }), nil
}

func listNamed(root, temp string) (list []Info, err error) {
	err = withDir(root, temp, func(d *lockfile.Dir) error {
		names, err := d.Names()
		for _, name := range names {
			if info, ok := lookAt(d, name); ok {
				list = append(list, info)
			}
		}
		return err
	})
	return list, err
}

// withDir calls f with the directory of arrays of a root, if it exists.
func withDir(root, temp string, f func(d *lockfile.Dir) error) error {
	top, d, err := openDir(root, temp, false)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return errors.Join(f(d), d.Close(), top.Close())
}

// lookAt describes a named file; ok is false if it was removed or is not a regular file.
func lookAt(d *lockfile.Dir, name string) (Info, bool) {
	fd, err := unix.Openat(d.Fd(), name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return Info{}, false
	}
	defer unix.Close(fd)
	info, ok := describe(fd)
	if !ok {
		return Info{}, false
	}
	info.Name = d.FilePath(name)
	// A process that attaches it at this moment tries again.
	info.Held = errors.Is(fdio.Flock(fd, unix.LOCK_EX|unix.LOCK_NB), unix.EWOULDBLOCK)
	_ = fdio.Flock(fd, unix.LOCK_UN) // closing is not enough, see unlock
	return info, true
}

// describe describes an open file.
func describe(fd int) (Info, bool) {
	var st unix.Stat_t
	if unix.Fstat(fd, &st) != nil || st.Mode&unix.S_IFMT != unix.S_IFREG {
		return Info{}, false
	}
	info := Info{Size: st.Size, Bytes: st.Blocks * 512, dev: uint64(st.Dev), ino: st.Ino}
	var b [tagSize]byte
	if st.Size >= pageSize && readFull(fd, b[:], st.Size-pageSize) == nil {
		if t, err := parseTag(b[:]); err == nil {
			info.Kind = map[uint16]string{kindWhole: "whole", kindArena: "arena"}[t.kind]
		}
	}
	return info, true
}

// GC removes the named arrays of this user that no process holds, in memory and in the temporary
// directory, and returns their paths. The kernel frees arrays without a name itself. The error
// joins all failures; GC removes the rest. With dryRun, it returns what it would remove, and
// removes nothing.
func GC(o *Options, dryRun bool) (removed []string, err error) {
	if dryRun {
		return unheldFiles(o, (*lockfile.Dir).Unused)
	}
	return unheldFiles(o, (*lockfile.Dir).Sweep)
}

// unheldFiles returns the paths of the named arrays for which f returns true.
func unheldFiles(o *Options, f func(d *lockfile.Dir, name string) (bool, error)) (found []string, err error) {
	opts, err := o.validate()
	if err != nil {
		return nil, err
	}
	for _, root := range []string{rootRun, rootTemp} {
		err = errors.Join(err, withDir(root, opts.TempDir, func(d *lockfile.Dir) error {
			names, err := d.Names()
			for _, name := range names {
				gone, e := f(d, name)
				if gone {
					found = append(found, filepath.Join(d.Path(), name))
				}
				err = errors.Join(err, e)
			}
			return err
		}))
	}
	slices.Sort(found)
	return found, err
}
