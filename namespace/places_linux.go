package namespace

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"leat/internal/fdio"

	"golang.org/x/sys/unix"
)

// openPlace opens a directory and finds the directories around it. With create it makes the
// directory, with its missing parents, permissions 0777 less the umask. It opens no file and
// changes nothing else. The caller closes the place.
//
// openPlace does not see directories that this process may not enter, or mounts of other mount
// namespaces. It then does not find that a bind mount of /a/b lies in /a.
func openPlace(path string, create bool) (*place, error) {
	abs, err := absolute(path)
	if err != nil {
		return nil, err
	}
	fd, err := openDir(unix.AT_FDCWD, abs)
	if create && errors.Is(err, unix.ENOENT) {
		if err := os.MkdirAll(abs, 0o777); err != nil {
			return nil, explainPlace(path, err)
		}
		fd, err = openDir(unix.AT_FDCWD, abs)
	}
	if err != nil {
		return nil, explainPlace(path, err)
	}
	p := &place{Path: abs, fd: fd}
	if err := p.climb(); err != nil {
		return nil, errors.Join(explainPlace(path, err), p.Close())
	}
	p.Path = shorter(abs, p.ID)
	return p, nil
}

// openFilePlace finds the place of a file that is to be written, whether or not it exists: a
// symbolic link at the end of the path is followed, as when the file is replaced. Its directory
// must exist.
func openFilePlace(path string) (*place, error) {
	abs, err := absolute(path)
	if err != nil {
		return nil, err
	}
	final, err := followLinks(abs)
	if err != nil {
		return nil, err
	}
	dir, name := filepath.Split(final)
	if name == "" || name == "." || name == ".." {
		return nil, fmt.Errorf("%s: names a directory, expected a file", path)
	}
	if len(name) > unix.NAME_MAX {
		return nil, fmt.Errorf("%s: %w", path, unix.ENAMETOOLONG)
	}
	fd, err := openDir(unix.AT_FDCWD, dir)
	if err != nil {
		return nil, explainPlace(dir, err)
	}
	p := &place{Path: dir, fd: fd}
	var st unix.Stat_t
	if err := unix.Fstatat(fd, name, &st, unix.AT_SYMLINK_NOFOLLOW); err == nil && st.Mode&unix.S_IFMT == unix.S_IFDIR {
		return nil, errors.Join(fmt.Errorf("%s: is a directory, expected a file", path),
			p.Close())
	}
	if err := p.climb(); err != nil {
		return nil, errors.Join(explainPlace(dir, err),
			p.Close())
	}
	p.Path = filepath.Join(shorter(dir, p.ID), name)
	p.Ancestors = append([]dirID{p.ID}, p.Ancestors...)
	p.ID = fileID(p.ID, name)
	return p, nil
}

// Close closes the directory. From then on the ID may mean another one.
func (p *place) Close() error {
	if p.fd < 0 {
		return nil
	}
	fd := p.fd
	p.fd = -1
	return os.NewSyscallError("close", unix.Close(fd))
}

// shorter returns an absolute path without redundant elements that leads to the directory id.
func shorter(path string, id dirID) string {
	clean := filepath.Clean(path)
	if !strings.Contains(path, "..") {
		return clean
	}
	// After a symbolic link ".." is not what the text says.
	for _, p := range []func() (string, error){
		func() (string, error) { return clean, nil },
		func() (string, error) { return filepath.EvalSymlinks(path) },
	} {
		var st unix.Stat_t
		if s, err := p(); err == nil && unix.Stat(s, &st) == nil && (dirID{uint64(st.Dev), st.Ino}) == id {
			return s
		}
	}
	return path
}

// climber collects the ancestors of a place.
type climber struct {
	place  *place
	seen   map[dirID]bool
	roots  []mountRoot // of the mounts that were left
	mounts []mountLine // read when first needed
}

type mountRoot struct {
	id  dirID
	mnt uint64
}

// climb finds the place's ID and Ancestors. First it climbs to "/", across mounts. A mount on the
// way may not show its file system from the root (a bind mount). For each of these, it then
// continues inside the file system, as far as another mount shows it.
func (p *place) climb() error {
	id, mnt, err := identify(p.fd)
	if err != nil {
		return err
	}
	p.ID = id
	c := climber{place: p, seen: map[dirID]bool{id: true}}
	if err := c.up(p.fd, id, mnt, true); err != nil {
		return err
	}
	for i := 0; i < len(c.roots); i++ { // grows
		if err := c.behind(c.roots[i]); err != nil {
			return err
		}
	}
	return nil
}

func (c *climber) add(id dirID) {
	if !c.seen[id] {
		c.seen[id] = true
		c.place.Ancestors = append(c.place.Ancestors, id)
	}
}

// left records that a mount was followed to its root, fd, if more of its file system may lie above.
func (c *climber) left(fd int, id dirID, mnt uint64) {
	if mnt != 0 && !showsAll(fd) && !slices.ContainsFunc(c.roots, func(r mountRoot) bool { return r.mnt == mnt }) {
		c.roots = append(c.roots, mountRoot{id, mnt})
	}
}

// up adds the directories above fd, which stays open: to "/" if across, else to the root of its
// mount.
func (c *climber) up(fd int, id dirID, mnt uint64, across bool) error {
	at := fd
	defer func() {
		if at != fd {
			unix.Close(at)
		}
	}()
	for range 1 << 16 {
		next, err := openDir(at, "..")
		if err != nil {
			return fmt.Errorf("opening its parent: %w", err)
		}
		upID, upMnt, err := identify(next)
		top := upID == id && upMnt == mnt // "/" is its own parent
		if err == nil && (top || upMnt != mnt) {
			c.left(at, id, mnt)
		}
		if at != fd {
			unix.Close(at)
		}
		at = next
		if err != nil || top || upMnt != mnt && !across {
			return err
		}
		id, mnt = upID, upMnt
		c.add(id)
	}
	return errors.New("more than 65536 ancestors")
}

// behind adds the directories above the root of a mount in its own file system, up to the root of
// another mount that shows them. It may find none, since containers often see only part of a file
// system.
func (c *climber) behind(root mountRoot) error {
	if c.mounts == nil {
		text, err := os.ReadFile("/proc/self/mountinfo")
		if err != nil {
			return nil // no /proc
		}
		c.mounts = parseMountinfo(string(text))
	}
	i := slices.IndexFunc(c.mounts, func(m mountLine) bool { return m.id == root.mnt })
	if i < 0 || c.mounts[i].root == "/" {
		return nil
	}
	mine := c.mounts[i]
	var others []mountLine
	for _, m := range c.mounts {
		if _, ok := below(m.root, mine.root); ok && m.dev == mine.dev {
			others = append(others, m)
		}
	}
	slices.SortStableFunc(others, func(a, b mountLine) int { return cmp.Compare(len(a.root), len(b.root)) })
	for _, m := range others { // the one that shows most comes first
		rest, _ := below(m.root, mine.root)
		fd, id := m.open(rest, root.id)
		if fd < 0 {
			continue
		}
		c.add(id)
		err := c.up(fd, id, m.id, false)
		unix.Close(fd)
		return err
	}
	return nil
}

// open opens the directory rest of a mount if its ID is id. Where another mount covers it, open
// opens the nearest visible directory above. The descriptor is -1 if there is none: the mount point
// is covered by another mount or can't be entered, or a directory was renamed in the meantime.
func (m mountLine) open(rest string, id dirID) (int, dirID) {
	point, err := openDir(unix.AT_FDCWD, m.point)
	if err != nil {
		return -1, dirID{}
	}
	top, mnt, err := identify(point)
	if err != nil || mnt != m.id {
		unix.Close(point)
		return -1, dirID{}
	}
	covered := false
	for ; rest != "."; rest = filepath.Dir(rest) {
		fd, err := openDir(point, rest)
		if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) {
			continue // the covering mount may lack the rest of the path
		}
		if err != nil {
			break
		}
		got, mnt, err := identify(fd)
		if err == nil && mnt == m.id && (covered || got == id) {
			unix.Close(point)
			return fd, got
		}
		unix.Close(fd)
		if err != nil || mnt == m.id {
			break
		}
		covered = true
	}
	if covered && rest == "." {
		return point, top
	}
	unix.Close(point)
	return -1, dirID{}
}

// openDir opens a directory to look at, not to read.
func openDir(at int, path string) (int, error) {
	return fdio.Open(at, path, unix.O_PATH|unix.O_DIRECTORY, 0)
}

// identify returns the directory's ID and the number of the mount through which it was reached, 0
// if the kernel does not report it.
func identify(fd int) (dirID, uint64, error) {
	var sx unix.Statx_t
	// DONT_SYNC: a network file system need not be asked, since neither changes.
	err := unix.Statx(fd, "", unix.AT_EMPTY_PATH|unix.AT_STATX_DONT_SYNC, unix.STATX_INO|unix.STATX_MNT_ID, &sx)
	if err == nil && sx.Mask&unix.STATX_INO != 0 {
		id := dirID{unix.Mkdev(sx.Dev_major, sx.Dev_minor), sx.Ino}
		if sx.Mask&unix.STATX_MNT_ID != 0 {
			return id, sx.Mnt_id, nil
		}
		return id, mountOf(fd), nil
	}
	var st unix.Stat_t // a kernel, or a sandbox, without statx
	if err := unix.Fstat(fd, &st); err != nil {
		return dirID{}, 0, os.NewSyscallError("fstat", err)
	}
	return dirID{uint64(st.Dev), st.Ino}, mountOf(fd), nil
}

// mountOf is for kernels before 5.8, and slower.
func mountOf(fd int) uint64 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/self/fdinfo/%d", fd))
	if err != nil {
		return 0
	}
	for line := range strings.SplitSeq(string(text), "\n") {
		if n, ok := strings.CutPrefix(line, "mnt_id:"); ok {
			id, err := strconv.ParseUint(strings.TrimSpace(n), 10, 64)
			if err != nil {
				return 0
			}
			return id
		}
	}
	return 0
}
