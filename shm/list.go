//go:build unix

package shm

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"leat/internal/lockfile"
)

// Info describes an object of this user's on this machine.
type Info struct {
	Name  string // of a named array: its path; of a memfd: /proc/PID/fd/FD
	Kind  string // whole, arena, or empty for what is not known
	Size  int64  // bytes, as the file says
	Bytes int64  // bytes of memory or disk that it takes
	// Held tells whether a process has it. Named files that nobody holds are left over from killed
	// processes.
	Held bool
	// Maker is the process that made a memfd, 0 for named arrays.
	Maker int
	// PIDs are the processes that have it mapped, as far as this user may see them.
	PIDs []int

	dev, ino uint64
}

// List returns what arrays there are on this machine, of all processes of this user: named files
// and memory without a name. Freed memory that is kept to be used again is listed too. It looks at
// all processes, and takes as long.
func List(o *Options) ([]Info, error) {
	opts, err := o.validate()
	if err != nil {
		return nil, err
	}
	var list []Info
	for _, root := range []string{rootRun, rootTemp} {
		named, err := listNamed(root, opts.TempFolder)
		if err != nil {
			return nil, err
		}
		list = append(list, named...)
	}
	if list, err = listProcesses(list); err != nil {
		return nil, err
	}
	slices.SortFunc(list, func(a, b Info) int { return cmp.Compare(a.Name, b.Name) })
	// Both roots may be one folder.
	return slices.CompactFunc(list, func(a, b Info) bool { return a.Name == b.Name }), nil
}

func listNamed(root, temp string) (list []Info, err error) {
	err = inFolder(root, temp, func(d *lockfile.Dir) error {
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

// inFolder calls f with a root's folder of arrays, if there is one.
func inFolder(root, temp string, f func(d *lockfile.Dir) error) error {
	top, d, err := openFolder(root, temp, false)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return errors.Join(f(d), d.Close(), top.Close())
}

// lookAt describes a named file; ok is false for what went in the meantime, and for what is no
// array.
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
	// Whoever attaches it at this moment tries again.
	info.Held = errors.Is(flock(fd, unix.LOCK_EX|unix.LOCK_NB), unix.EWOULDBLOCK)
	_ = flock(fd, unix.LOCK_UN) // closing is not enough, see unlock; where there is no lock, nothing happens
	return info, true
}

// describe tells of an open file what it says about itself.
func describe(fd int) (Info, bool) {
	var st unix.Stat_t
	if unix.Fstat(fd, &st) != nil || st.Mode&unix.S_IFMT != unix.S_IFREG {
		return Info{}, false
	}
	info := Info{Size: st.Size, Bytes: st.Blocks * 512, dev: uint64(st.Dev), ino: st.Ino}
	var b [tagSize]byte
	if st.Size >= pageSize && preadFull(fd, b[:], st.Size-pageSize) == nil {
		if t, err := parseTag(b[:]); err == nil {
			info.Kind = map[uint16]string{kindWhole: "whole", kindArena: "arena"}[t.kind]
		}
	}
	return info, true
}

// Removed is what GC removed.
type Removed struct {
	Name string // the path it had
	Size int64  // bytes
}

// GC removes the named arrays of this user that no process holds, in memory and in the temp folder,
// and returns them. Arrays without a name need none: the kernel freed them with their processes.
// What can't be removed is told in the error; the rest is removed.
func GC(o *Options) ([]Removed, error) {
	opts, err := o.validate()
	if err != nil {
		return nil, err
	}
	var removed []Removed
	for _, root := range []string{rootRun, rootTemp} {
		err = errors.Join(err, inFolder(root, opts.TempFolder, func(d *lockfile.Dir) error {
			names, err := d.Names()
			for _, name := range names {
				var size int64
				gone, e := d.SweepWith(name, func(fd int) error {
					var st unix.Stat_t
					if e := unix.Fstat(fd, &st); e != nil {
						return fmt.Errorf("looking at %s: %w", d.FilePath(name), e)
					}
					size = st.Size
					return nil
				})
				if gone {
					removed = append(removed, Removed{filepath.Join(d.Path(), name), size})
				}
				err = errors.Join(err, e)
			}
			return err
		}))
	}
	slices.SortFunc(removed, func(a, b Removed) int { return strings.Compare(a.Name, b.Name) })
	return removed, err
}
