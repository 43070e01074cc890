//go:build unix

package shelf

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"leat/internal/fault"
	"leat/internal/lease"
)

// Shelf is an open stage directory's bytes. All methods may be called by several goroutines.
type Shelf struct {
	segments, objects *lease.Dir
	next              func() (uint64, error)
	packs             bool
	limit             int64 // bytes that a file of this process may have (ulimit -f): a write beyond it would be a signal
	made              [256]atomic.Bool
	open              descriptors

	mu     sync.Mutex
	active []*segment // new regions are taken from them
	drafts int        // that are not closed
}

// Open opens the shelf in a stage's own folder, which stays the caller's and can be closed. next gives numbers (not 0) that no
// process ever got before in this directory; it must not call the Shelf.
func Open(dir *lease.Dir, next func() (uint64, error)) (*Shelf, error) {
	s := &Shelf{next: next, limit: fileLimit()}
	s.open.max = maxDescriptors
	var err error
	if s.segments, err = dir.Sub("segments"); err != nil {
		return nil, fmt.Errorf("stage: %w", err)
	}
	if s.objects, err = dir.Sub("objects"); err != nil {
		return nil, errors.Join(fmt.Errorf("stage: %w", err), s.segments.Close())
	}
	if s.packs, err = s.probe(); err != nil {
		return nil, errors.Join(err, s.objects.Close(), s.segments.Close())
	}
	return s, nil
}

// Close ends the use of the shelf. Drafts that are still open make it an error, and the shelf stays open. A ReadAt that is under
// way ends well.
func (s *Shelf) Close() error {
	s.mu.Lock()
	if n := s.drafts; n > 0 {
		s.mu.Unlock()
		return fmt.Errorf("stage: %d objects are still being written", n)
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

// Packs tells whether small objects are packed. It is false where punching a hole does not give back exactly what it covers: then each object is
// a file.
func (s *Shelf) Packs() bool { return s.packs }

// probe tries out whether the file system gives back exactly what is punched.
func (s *Shelf) probe() (bool, error) {
	if s.limit < 2*PackBelow || !holesAreExact(s.segments.Fd()) {
		return false, nil
	}
	f, err := newFile(s.objects)
	if err != nil {
		return false, explain("making a file in", s.objects.Path(), err)
	}
	ok, err := f.punches(min(SegmentSize, s.limit))
	return ok, errors.Join(err, f.drop())
}

// punches writes and punches blocks. A block of zeros is among them: it must count too, for a segment without blocks is taken to be empty.
// The file is as long as a segment, for which a file system may choose larger pages.
func (f *file) punches(length int64) (bool, error) {
	var b [3 * Block]byte
	copy(b[:Block], "some bytes")
	err := truncate(f.fd, length)
	if err == nil {
		err = write(f.fd, b[:], 0)
	}
	if Full(err) {
		return punch(f.fd, 0, 3*Block) == nil, nil // what can be told
	} else if err != nil {
		return false, explain("writing in", f.dir.Path(), err)
	}
	before, err := blocks(f.fd)
	if err != nil || before != 3*Block {
		return false, err
	}
	if err := punch(f.fd, Block, Block); errors.Is(err, errors.ErrUnsupported) {
		return false, nil
	} else if err != nil {
		return false, explain("punching a hole in a file in", f.dir.Path(), err)
	}
	between, err := blocks(f.fd)
	if err != nil || between != 2*Block {
		return false, err
	}
	if err := punch(f.fd, 0, 3*Block); err != nil {
		return false, explain("punching a hole in a file in", f.dir.Path(), err)
	}
	after, err := blocks(f.fd)
	return after == 0, err
}

// ReadAt reads bytes of an object, as io.ReaderAt does, from the byte at of the object on. What lies behind the object's end is not this
// object's: the caller knows its size. The object must not be freed meanwhile. One that is not there is fs.ErrNotExist.
func (s *Shelf) ReadAt(p Place, b []byte, at int64) (int, error) {
	if err := p.valid(); err != nil {
		return 0, err
	}
	if at < 0 || at > math.MaxInt64-SegmentSize {
		return 0, fmt.Errorf("stage: an object has no byte %d", at)
	}
	if len(b) == 0 { // an empty object has nothing on the disk
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
		// Not kept open: a file that was removed would keep its room.
		var fd int
		if fd, err = openat(s.objects.Fd(), p.name(), unix.O_RDONLY, 0); err == nil {
			n, err = read(fd, b, at)
			closeFD(fd)
		}
	}
	if err != nil && err != io.EOF {
		err = explain("reading", s.Path(p), err)
	}
	return n, err
}

// OpenFile opens an object that is a file of its own, for reading. The caller closes it; it stays readable if the object is freed.
func (s *Shelf) OpenFile(p Place) (*os.File, error) {
	if err := p.valid(); err != nil {
		return nil, err
	}
	if p.Packed() {
		return nil, fmt.Errorf("stage: an object in segment %d has no file of its own", p.ID)
	}
	fd, err := openat(s.objects.Fd(), p.name(), unix.O_RDONLY, 0)
	if err != nil {
		return nil, explain("opening", s.Path(p), err)
	}
	return os.NewFile(uintptr(fd), s.Path(p)), nil
}

// Path is where the file or segment of an object lies.
func (s *Shelf) Path(p Place) string {
	if p.Packed() {
		return s.segments.File(p.name())
	}
	return s.objects.File(p.name())
}

// Free gives back the room of an object of that size (of what was asked for, where less was written). It may be called again, also after a kill. The last of a segment that nobody appends to takes the
// segment's file along.
func (s *Shelf) Free(p Place, size int64) error {
	if err := p.valid(); err != nil {
		return err
	}
	if !p.Packed() {
		fault.Point("stage.unlinking")
		err := s.objects.Remove(p.name())
		fault.Point("stage.unlinked")
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("stage: %w", err)
		}
		return nil
	}
	if size < 0 || size > SegmentSize-p.Offset {
		return fmt.Errorf("stage: no object of %d bytes can lie at %d in a segment", size, p.Offset)
	}
	d, err := s.open.get(s.segments, p.ID)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return explain("opening", s.Path(p), err)
	}
	fault.Point("stage.punching")
	if err = punch(d.fd, p.Offset, Charge(size)); err != nil {
		err = explain("giving back the room in", s.Path(p), err)
	}
	fault.Point("stage.punched")
	s.open.put(d)
	if err != nil {
		return err
	}
	return s.removeEmpty(p.ID)
}

// removeEmpty removes a segment that has no block, if nobody appends to it: then it stays empty. One that still has a block is removed by the Free of
// the last, and one that is held by who retires it: all look for blocks after they have done their part.
func (s *Shelf) removeEmpty(id uint64) error {
	for {
		if empty, err := s.isEmpty(id); !empty {
			return err
		}
		removed, err := s.segments.SweepWith(segmentName(id), func(int) error {
			if empty, err := s.isEmpty(id); err != nil {
				return err
			} else if !empty {
				return errStays
			}
			fault.Point("stage.unlinking")
			return nil
		})
		if errors.Is(err, errStays) {
			continue // written to and retired in between; it may have been freed since
		}
		if removed {
			fault.Point("stage.unlinked")
			s.open.forget(id)
		}
		if err != nil {
			return fmt.Errorf("stage: %w", err)
		}
		return nil
	}
}

// isEmpty tells whether a segment is there and has no block.
func (s *Shelf) isEmpty(id uint64) (bool, error) {
	var st unix.Stat_t
	err := unix.Fstatat(s.segments.Fd(), segmentName(id), &st, unix.AT_SYMLINK_NOFOLLOW)
	if errors.Is(err, unix.ENOENT) {
		return false, nil
	} else if err != nil {
		return false, explain("looking at", s.segments.File(segmentName(id)), err)
	}
	return st.Blocks == 0, nil
}

var errStays = errors.New("in use")

// Full tells whether an error means that the disk, or the user's share of it, is full.
func Full(err error) bool { return errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) }

// explain names what was done, to which file, and what to do about it.
func explain(doing, path string, err error) error {
	switch {
	case Full(err):
		return fmt.Errorf("stage: %s %s: no space is left: %w", doing, path, err)
	case errors.Is(err, unix.EROFS):
		return fmt.Errorf("stage: %s %s: the file system is read-only, name another directory: %w", doing, path, err)
	case errors.Is(err, unix.EFBIG):
		return fmt.Errorf("stage: %s %s: the file would be longer than the limit of this process (ulimit -f) or of the file system: %w", doing, path, err)
	}
	return fmt.Errorf("stage: %s %s: %w", doing, path, err)
}
