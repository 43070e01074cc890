//go:build unix

package store

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"leat/internal/fault"
	"leat/internal/fdio"
	"leat/internal/lockfile"
)

// Store holds the bytes of an open stage directory. It may be used by many goroutines.
type Store struct {
	segments, objects *lockfile.Dir
	next              func() (uint64, error)
	packs             bool
	// largest file that this process may write (ulimit -f); a write beyond it would raise a signal
	limit int64
	made  [256]atomic.Bool
	open  descriptors

	mu      sync.Mutex
	active  []*segment // segments for new regions
	writers int        // open Writers
}

// Open opens the store in a stage's directory, which the caller still owns and may close. next
// returns numbers other than 0 that no process has used before in this directory; it must not call
// the Store.
func Open(dir *lockfile.Dir, next func() (uint64, error)) (*Store, error) {
	s := &Store{next: next, limit: fdio.FileLimit()}
	s.open.max = maxDescriptors
	var err error
	if s.segments, err = dir.MakeSub("segments"); err != nil {
		return nil, err
	}
	if s.objects, err = dir.MakeSub("objects"); err != nil {
		return nil, errors.Join(err, s.segments.Close())
	}
	if s.packs, err = s.probe(); err != nil {
		return nil, errors.Join(err, s.objects.Close(), s.segments.Close())
	}
	return s, nil
}

// Close closes the store. With open Writers it returns an error and the store stays open. Running
// ReadAt calls complete.
func (s *Store) Close() error {
	s.mu.Lock()
	if n := s.writers; n > 0 {
		s.mu.Unlock()
		return fmt.Errorf("%d objects are still being written", n)
	}
	active := s.active
	s.active = nil
	s.mu.Unlock()
	var err error
	for _, seg := range active {
		err = errors.Join(err, s.retire(seg))
	}
	s.open.close()
	return errors.Join(err, s.objects.Close(), s.segments.Close())
}

// Packs reports whether small objects are packed. If punching a hole does not free exactly its
// space, each object is a file.
func (s *Store) Packs() bool { return s.packs }

// probe reports whether the file system frees exactly what is punched.
func (s *Store) probe() (bool, error) {
	if s.limit < 2*PackBelow || !hasExactHoles(s.segments.Fd()) {
		return false, nil
	}
	f, err := s.objects.CreateTemp(0o600)
	if Full(err) {
		// Without a free inode nothing can be tried. An earlier process packed objects only if it
		// could punch.
		names, err := s.segments.Names()
		return len(names) > 0, err
	}
	if err != nil {
		return false, explain("creating a file in", s.objects.Path(), err)
	}
	ok, err := s.probePunch(f.FD, min(SegmentSize, s.limit))
	return ok, errors.Join(err, f.Discard())
}

// probePunch writes blocks and punches holes over them. One block contains zeros and must take
// space too, since a segment without blocks counts as empty. The file has the length of a segment,
// for which a file system may choose larger pages.
func (s *Store) probePunch(fd int, length int64) (bool, error) {
	var b [3 * Block]byte
	copy(b[:Block], "some bytes")
	err := truncate(fd, length)
	if err == nil {
		err = fdio.WriteFull(fd, b[:], 0)
	}
	if Full(err) {
		return punch(fd, 0, 3*Block) == nil, nil // all that can be tested
	} else if err != nil {
		return false, explain("writing in", s.objects.Path(), err)
	}
	before, err := allocated(fd)
	if err != nil || before != 3*Block {
		return false, err
	}
	if err := punch(fd, Block, Block); errors.Is(err, errors.ErrUnsupported) {
		return false, nil
	} else if err != nil {
		return false, explain("punching a hole in a file in", s.objects.Path(), err)
	}
	between, err := allocated(fd)
	if err != nil || between != 2*Block {
		return false, err
	}
	if err := punch(fd, 0, 3*Block); err != nil {
		return false, explain("punching a hole in a file in", s.objects.Path(), err)
	}
	after, err := allocated(fd)
	return after == 0, err
}

// ReadAt reads bytes of an object from offset at on, like io.ReaderAt. It does not know the
// object's size: bytes beyond its end are undefined. The object must not be freed meanwhile. The
// error is fs.ErrNotExist if there is no such object.
func (s *Store) ReadAt(p Place, b []byte, at int64) (int, error) {
	if err := p.Check(); err != nil {
		return 0, err
	}
	if at < 0 || at > math.MaxInt64-SegmentSize {
		return 0, fmt.Errorf("invalid offset %d", at)
	}
	if len(b) == 0 { // an empty object has no bytes on the disk
		return 0, nil
	}
	var n int
	var err error
	if p.Packed() {
		var d *descriptor
		if d, err = s.open.get(s.segments, p.ID); err == nil {
			n, err = read(d.fd, b, p.Offset+at)
			s.open.put(d)
		}
	} else {
		// Not cached: an open descriptor would keep the space of a removed file.
		var fd int
		if fd, err = openat(s.objects.Fd(), p.name(), unix.O_RDONLY); err == nil {
			n, err = read(fd, b, at)
			closeFD(fd)
		}
	}
	if err != nil && err != io.EOF {
		err = explain("reading", s.Path(p), err)
	}
	return n, err
}

// OpenFile opens the file of an object that is not packed, for reading. The caller closes it; it
// stays readable if the object is freed.
func (s *Store) OpenFile(p Place) (*os.File, error) {
	if err := p.Check(); err != nil {
		return nil, err
	}
	if p.Packed() {
		return nil, fmt.Errorf("an object in segment %d has no file of its own", p.ID)
	}
	fd, err := openat(s.objects.Fd(), p.name(), unix.O_RDONLY)
	if err != nil {
		return nil, explain("opening", s.Path(p), err)
	}
	return os.NewFile(uintptr(fd), s.Path(p)), nil
}

// ErrNotRegular is returned for an object whose file was replaced by something else.
var ErrNotRegular = errors.New("not a regular file")

// Size returns the length of an object's file or segment. Anything but a regular file is
// ErrNotRegular.
func (s *Store) Size(p Place) (int64, error) {
	if err := p.Check(); err != nil {
		return 0, err
	}
	err := fault.Error("stage.looking")
	var st unix.Stat_t
	if err == nil {
		err = unix.Fstatat(s.dirOf(p).Fd(), p.name(), &st, unix.AT_SYMLINK_NOFOLLOW)
	}
	if err != nil {
		return 0, explain("looking at", s.Path(p), err)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return 0, fmt.Errorf("%w: %s", ErrNotRegular, s.Path(p))
	}
	return st.Size, nil
}

func (s *Store) dirOf(p Place) *lockfile.Dir {
	if p.Packed() {
		return s.segments
	}
	return s.objects
}

// CheckPath returns the path of an object's file, below the directory's new name if it was renamed
// since Open. The error is fs.ErrNotExist if no path leads to the file, for example after the
// directory was removed.
func (s *Store) CheckPath(p Place) (string, error) {
	if err := p.Check(); err != nil {
		return "", err
	}
	dir := s.dirOf(p)
	var want, there unix.Stat_t
	if err := unix.Fstatat(dir.Fd(), p.name(), &want, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return "", explain("looking at", s.Path(p), err)
	}
	same := func(path string) bool {
		return unix.Lstat(path, &there) == nil && there.Dev == want.Dev && there.Ino == want.Ino
	}
	if path := s.Path(p); same(path) {
		return path, nil
	}
	if now, err := os.Readlink("/proc/self/fd/" + strconv.Itoa(dir.Fd())); err == nil {
		if path := filepath.Join(now, p.name()); same(path) {
			return path, nil
		}
	}
	return "", fmt.Errorf("%s was removed or replaced: %w", dir.Path(),
		fs.ErrNotExist)
}

// Path returns the path of an object's file or segment at the time of Open.
func (s *Store) Path(p Place) string {
	return s.dirOf(p).FilePath(p.name())
}

// Free frees the space of an object with the given size, which is the requested one if less was
// written. It may be called again, even after a kill. Freeing the last object of a complete segment
// removes the segment's file.
func (s *Store) Free(p Place, size int64) error {
	if err := p.Check(); err != nil {
		return err
	}
	if !p.Packed() {
		fault.Point("stage.unlinking")
		err := s.objects.Remove(p.name())
		fault.Point("stage.unlinked")
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	}
	if size < 0 || size > SegmentSize-p.Offset {
		return fmt.Errorf("invalid place: %d bytes at %d in a segment", size, p.Offset)
	}
	d, err := s.open.get(s.segments, p.ID)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return explain("opening", s.Path(p), err)
	}
	fault.Point("stage.punching")
	if err = punch(d.fd, p.Offset, Charge(size)); err != nil {
		err = explain("freeing space in", s.Path(p), err)
	}
	fault.Point("stage.punched")
	s.open.put(d)
	if err != nil {
		return err
	}
	return s.removeEmpty(p.ID)
}

// removeEmpty removes a segment without blocks that no process appends to: it stays empty.
// Otherwise the Free of its last block or the process that retires it removes it, since each checks
// after its own step.
func (s *Store) removeEmpty(id uint64) error {
	for {
		if empty, err := s.isEmpty(id); !empty {
			return err
		}
		removed, err := s.segments.SweepWith(segmentName(id), func(int) error {
			if empty, err := s.isEmpty(id); err != nil {
				return err
			} else if !empty {
				return errInUse
			}
			fault.Point("stage.unlinking")
			return nil
		})
		if errors.Is(err, errInUse) {
			continue // written to and retired meanwhile, perhaps freed since
		}
		if removed {
			fault.Point("stage.unlinked")
			s.open.forget(id)
		}
		if err != nil {
			return err
		}
		return nil
	}
}

// isEmpty reports whether a segment exists and has no blocks.
func (s *Store) isEmpty(id uint64) (bool, error) {
	var st unix.Stat_t
	err := unix.Fstatat(s.segments.Fd(), segmentName(id), &st, unix.AT_SYMLINK_NOFOLLOW)
	if errors.Is(err, unix.ENOENT) {
		return false, nil
	} else if err != nil {
		return false, explain("looking at", s.segments.FilePath(segmentName(id)), err)
	}
	return st.Blocks == 0, nil
}

var errInUse = errors.New("in use")

// Full reports whether an error means that the disk or the user's quota is full.
func Full(err error) bool { return errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) }

// Lacking returns what the file system of a descriptor is out of, such as "no space", after an
// error for which [Full] is true.
func Lacking(fd int, err error) string {
	var st unix.Statfs_t
	if errors.Is(err, unix.EDQUOT) {
		return "nothing of the quota"
	}
	return lacking(unix.Fstatfs(fd, &st) == nil, &st)
}

// LackingAt is [Lacking] for a path, which need not exist yet.
func LackingAt(path string, err error) string {
	var st unix.Statfs_t
	if errors.Is(err, unix.EDQUOT) {
		return "nothing of the quota"
	}
	for unix.Statfs(path, &st) != nil {
		parent := filepath.Dir(path)
		if parent == path {
			return "no space"
		}
		path = parent
	}
	return lacking(true, &st)
}

func lacking(known bool, st *unix.Statfs_t) string {
	if known && st.Files > 0 && st.Ffree == 0 {
		return "no inode"
	}
	return "no space"
}

// explain adds the operation, the path and the cause to an error.
func explain(doing, path string, err error) error {
	switch {
	case Full(err):
		return fmt.Errorf("%s %s: no space or inode is left: %w", doing, path, err)
	case errors.Is(err, unix.EROFS):
		return fmt.Errorf("%s %s: the file system is read-only: %w", doing, path, err)
	case errors.Is(err, unix.EFBIG):
		return fmt.Errorf("%s %s: the file would exceed the limit of this process or of the file system: %w", doing, path, err)
	}
	return fmt.Errorf("%s %s: %w", doing, path, err)
}
