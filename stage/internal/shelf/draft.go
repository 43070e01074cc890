//go:build unix

package shelf

import (
	"errors"
	"fmt"
	"io/fs"

	"golang.org/x/sys/unix"

	"leat/internal/fault"
)

// Draft is an object that is being written. WriteAt may be called by several goroutines; Commit and Close by one, when they are
// done.
//
//	d, err := s.Create(size, ".tif")
//	defer d.Close()
//	… d.WriteAt(…)
//	d.Commit(size)
//	… the ledger is told of d.Place()
type Draft struct {
	s         *Shelf
	place     Place
	size      int64    // announced; -1: not known
	seg       *segment // of a packed object
	file      *file    // of another one
	committed bool
	closed    bool
}

// Create starts an object of that size in bytes, -1 where it is not known. One below PackBelow is packed, if the shelf packs. A file's name ends with ext, see [Ext]. Where a
// file's room can be taken in advance, it is: no room is an error here, for which [Full] holds, and nothing is kept.
func (s *Shelf) Create(size int64, ext string) (*Draft, error) {
	if !s.packs || size < 0 || size >= PackBelow {
		return s.CreateFile(size, ext)
	}
	seg, offset, err := s.region(Charge(size))
	if err != nil {
		return nil, err
	}
	fault.Point("stage.allocated")
	return &Draft{s: s, place: Place{ID: seg.id, Offset: offset}, size: size, seg: seg}, nil
}

// CreateFile is Create for an object that is to be a file of its own, whatever its size.
func (s *Shelf) CreateFile(size int64, ext string) (*Draft, error) {
	e, err := parseExt(ext)
	if err != nil {
		return nil, err
	}
	if size > s.limit {
		return nil, explain("making a file in", s.objects.Path(), unix.EFBIG)
	}
	id, err := s.next()
	if err != nil {
		return nil, err
	}
	d := &Draft{s: s, place: Place{ID: id, Offset: File, Ext: e}, size: size}
	if d.file, err = newFile(s.objects); err != nil {
		return nil, explain("making a file in", s.objects.Path(), err)
	}
	fault.Point("stage.created")
	if size > 0 {
		if err = fault.Error("stage.allocate"); err == nil {
			err = allocate(d.file.fd, size)
		}
		if err != nil && !errors.Is(err, errors.ErrUnsupported) {
			return nil, errors.Join(explain("taking the room of a file in", s.objects.Path(), err), d.file.drop())
		}
	}
	fault.Point("stage.allocated")
	s.mu.Lock()
	s.drafts++
	s.mu.Unlock()
	return d, nil
}

// Place is where the object is to lie.
func (d *Draft) Place() Place { return d.place }

// Size is the one given to Create, -1 where it is not known.
func (d *Draft) Size() int64 { return d.size }

// WriteAt writes bytes of the object. A packed one can't become larger than it was announced. No room is an error for which [Full] holds, never
// a signal; the draft can go on when there is room.
func (d *Draft) WriteAt(b []byte, at int64) (int, error) {
	fd, to, err := d.at(int64(len(b)), at)
	if err != nil {
		return 0, err
	}
	if err = fault.Error("stage.write"); err == nil {
		if d.seg != nil {
			d.seg.write.Lock()
		}
		err = write(fd, b, to)
		if d.seg != nil {
			d.seg.write.Unlock()
		}
	}
	if err != nil {
		return 0, explain("writing", d.s.Path(d.place), err)
	}
	fault.Point("stage.written")
	return len(b), nil
}

// at returns where n bytes of the object from at on are to be written.
func (d *Draft) at(n, at int64) (fd int, to int64, err error) {
	switch {
	case d.closed || d.committed:
		return -1, 0, fmt.Errorf("stage: writing %s: %w", d.s.Path(d.place), fs.ErrClosed)
	case n < 0 || at < 0 || at > 1<<62-n:
		return -1, 0, fmt.Errorf("stage: writing %s: %d bytes at %d", d.s.Path(d.place), n, at)
	case d.seg != nil && at+n > d.size:
		return -1, 0, fmt.Errorf("stage: writing %s: %d bytes at %d of an object of %d", d.s.Path(d.place), n, at, d.size)
	case d.seg != nil:
		return d.seg.hold.Fd(), d.place.Offset + at, nil
	case at+n > d.s.limit:
		return -1, 0, explain("writing", d.s.Path(d.place), unix.EFBIG)
	}
	return d.file.fd, at, nil
}

// Commit makes the object of that size, which may be less than announced, complete: it can be read by its Place now, in all processes. It stays held until Close, so that
// no sweep takes it before the ledger knows it. After an error only Close is left to do. A number that has a file already, which
// Open's next must not give, is fs.ErrExist.
func (d *Draft) Commit(size int64) error {
	switch {
	case d.closed || d.committed:
		return fmt.Errorf("stage: completing %s: %w", d.s.Path(d.place), fs.ErrClosed)
	case size < 0 || d.seg != nil && size > d.size:
		return fmt.Errorf("stage: completing %s: %d bytes of an object of %d", d.s.Path(d.place), size, d.size)
	case d.seg != nil:
		d.committed = true
		return nil
	}
	fault.Point("stage.draft written")
	has, err := length(d.file.fd)
	switch {
	case err != nil:
		return explain("completing", d.s.Path(d.place), err)
	case has < size:
		return fmt.Errorf("stage: completing %s: only %d of %d bytes were written", d.s.Path(d.place), has, size)
	case has > size || d.size > size:
		if err := truncate(d.file.fd, size); err != nil {
			return explain("completing", d.s.Path(d.place), err)
		}
	}
	if err := d.link(); err != nil {
		return explain("naming", d.s.Path(d.place), err)
	}
	d.committed = true
	fault.Point("stage.linked")
	return nil
}

// link gives the file its name, making the folder that it belongs into.
func (d *Draft) link() error {
	made := &d.s.made[byte(d.place.ID)]
	name := d.place.name()
	for {
		known := made.Load()
		if !known {
			sub, err := d.s.objects.Sub(name[:2])
			if err != nil {
				return err
			}
			if err := sub.Close(); err != nil {
				return err
			}
			made.Store(true)
		}
		err := d.file.name(name)
		if !known || !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		made.Store(false) // somebody removed the folder
	}
}

// Close ends the hold of the object; one that was not committed is given up, and its room given back. The first call counts, so that it can be deferred.
func (d *Draft) Close() error {
	if d.closed {
		return nil
	}
	d.closed = true
	if d.seg != nil {
		var err error
		if !d.committed {
			if err = punch(d.seg.hold.Fd(), d.place.Offset, Charge(d.size)); err != nil {
				err = explain("giving back the room in", d.s.Path(d.place), err)
			}
		}
		return errors.Join(err, d.s.leave(d.seg))
	}
	err := d.file.drop()
	d.s.mu.Lock()
	d.s.drafts--
	d.s.mu.Unlock()
	return err
}
