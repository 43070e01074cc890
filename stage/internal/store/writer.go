//go:build unix

package store

import (
	"errors"
	"fmt"
	"io/fs"

	"golang.org/x/sys/unix"

	"leat/internal/fault"
	"leat/internal/fdio"
	"leat/internal/tempfile"
)

// Writer writes an object. WriteAt may be called concurrently; Commit and Close by one goroutine,
// after all writes.
//
//	w, err := s.Create(size, ".tif")
//	defer w.Close()
//	… w.WriteAt(…)
//	w.Commit(size)
//	… publish w.Place() in the index
type Writer struct {
	s         *Store
	place     Place
	size      int64            // announced; -1: unknown
	seg       *segment         // of a packed object
	file      *tempfile.Locked // of an object with its own file
	committed bool
	closed    bool
}

// Create starts an object of the given size in bytes, or -1 if unknown. It packs an object below
// PackBelow if the store packs; otherwise the file gets the extension ext, see [Ext], and its space
// is allocated where possible. If there is no space, [Full] is true for the error, and nothing is
// kept.
func (s *Store) Create(size int64, ext string) (*Writer, error) {
	if !s.packs || size < 0 || size >= PackBelow {
		return s.CreateFile(size, ext)
	}
	seg, offset, err := s.region(Charge(size))
	if err != nil {
		return nil, err
	}
	fault.Point("stage.allocated")
	return &Writer{s: s, place: Place{ID: seg.id, Offset: offset}, size: size, seg: seg}, nil
}

// CreateFile is Create for an object that gets a file of its own whatever its size.
func (s *Store) CreateFile(size int64, ext string) (*Writer, error) {
	e, err := parseExt(ext)
	if err != nil {
		return nil, err
	}
	if size > s.limit {
		return nil, explain("creating a file in", s.objects.Path(), unix.EFBIG)
	}
	id, err := s.next()
	if err != nil {
		return nil, err
	}
	d := &Writer{s: s, place: Place{ID: id, Offset: File, Ext: e}, size: size}
	if d.file, err = s.objects.CreateTemp(0o600); err != nil {
		return nil, explain("creating a file in", s.objects.Path(), err)
	}
	fault.Point("stage.created")
	if size > 0 {
		if err = fault.Error("stage.allocate"); err == nil {
			err = fdio.Allocate(d.file.FD, 0, 0, size)
		}
		if err != nil && !errors.Is(err, errors.ErrUnsupported) {
			return nil, errors.Join(explain("allocating a file in", s.objects.Path(), err), d.file.Discard())
		}
	}
	fault.Point("stage.allocated")
	s.mu.Lock()
	s.writers++
	s.mu.Unlock()
	return d, nil
}

// Place returns where the object will be.
func (d *Writer) Place() Place { return d.place }

// Size returns the size given to Create, -1 if unknown.
func (d *Writer) Size() int64 { return d.size }

// WriteAt writes bytes of the object. A packed object can't exceed its announced size. If there is
// no space, [Full] is true for the error, and the write can be repeated later; it never raises a
// signal.
func (d *Writer) WriteAt(b []byte, at int64) (int, error) {
	fd, to, err := d.at(int64(len(b)), at)
	if err != nil {
		return 0, err
	}
	if err = fault.Error("stage.write"); err == nil {
		if d.seg != nil {
			d.seg.write.Lock()
		}
		err = fdio.WriteFull(fd, b, to)
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

// at returns where to write n bytes from offset at of the object.
func (d *Writer) at(n, at int64) (fd int, to int64, err error) {
	switch {
	case d.closed || d.committed:
		return -1, 0, fmt.Errorf("writing %s: %w", d.s.Path(d.place), fs.ErrClosed)
	case n < 0 || at < 0 || at > 1<<62-n:
		return -1, 0, fmt.Errorf("writing %s: %d bytes at %d", d.s.Path(d.place), n, at)
	case d.seg != nil && at+n > d.size:
		return -1, 0, fmt.Errorf("writing %s: %d bytes at %d, the object has %d", d.s.Path(d.place), n, at,
			d.size)
	case d.seg != nil:
		return d.seg.hold.Fd(), d.place.Offset + at, nil
	case at+n > d.s.limit:
		return -1, 0, explain("writing", d.s.Path(d.place), unix.EFBIG)
	}
	return d.file.FD, at, nil
}

// Commit completes the object with the given size, which may be less than announced: all processes
// can then read it by its Place. It stays locked until Close, so that no sweep removes it before it
// is in the index. After an error only Close may be called. The error is fs.ErrExist if the number
// has a file already.
func (d *Writer) Commit(size int64) error {
	switch {
	case d.closed || d.committed:
		return fmt.Errorf("completing %s: %w", d.s.Path(d.place), fs.ErrClosed)
	case size < 0 || d.seg != nil && size > d.size:
		return fmt.Errorf("completing %s: %d bytes, the object has %d", d.s.Path(d.place), size, d.size)
	case d.seg != nil:
		d.committed = true
		return nil
	}
	fault.Point("stage.file written")
	has, err := length(d.file.FD)
	switch {
	case err != nil:
		return explain("completing", d.s.Path(d.place), err)
	case has < size:
		return fmt.Errorf("completing %s: only %d of %d bytes were written", d.s.Path(d.place), has, size)
	case has > size || d.size > size:
		if err := truncate(d.file.FD, size); err != nil {
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

// link gives the file its name and creates its directory if needed.
func (d *Writer) link() error {
	made := &d.s.made[byte(d.place.ID)]
	name := d.place.name()
	for {
		known := made.Load()
		if !known {
			sub, err := d.s.objects.MakeSub(name[:2])
			if err != nil {
				return err
			}
			if err := sub.Close(); err != nil {
				return err
			}
			made.Store(true)
		}
		err := d.file.Publish(name)
		if !known || !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		made.Store(false) // the directory was removed
	}
}

// Close unlocks the object, and frees its space if it was not committed. Calls after the first do
// nothing.
func (d *Writer) Close() error {
	if d.closed {
		return nil
	}
	d.closed = true
	if d.seg != nil {
		var err error
		if !d.committed {
			if err = punch(d.seg.hold.Fd(), d.place.Offset, Charge(d.size)); err != nil {
				err = explain("freeing space in", d.s.Path(d.place), err)
			}
		}
		return errors.Join(err, d.s.closeRegion(d.seg))
	}
	err := d.file.Discard()
	d.s.mu.Lock()
	d.s.writers--
	d.s.mu.Unlock()
	return err
}
