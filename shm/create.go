//go:build unix

package shm

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"

	"leat/internal/fdio"
	"leat/internal/lockfile"
	"leat/internal/npy"
	"leat/internal/units"
)

// allocation describes an array that is to be made.
type allocation struct {
	elem    npy.Elem
	shape   []int
	fortran bool
	length  int64
	src     *input // nil for zeros
	open    bool   // others may write
	header  []byte
}

func (p *allocation) state() uint32 {
	if p.open {
		return stateOpen
	}
	return stateSealed
}

// data returns the byte at which the elements begin.
func (p *allocation) data() int64 { return int64(len(p.header)) }

// npyHeader returns the header of the array's .npy, padded to a multiple of align.
func (p *allocation) npyHeader(align int) ([]byte, error) {
	return npy.Header{Elem: p.elem, Shape: p.shape, Fortran: p.fortran}.Append(nil, align)
}

// used returns the size without the tag.
func (p *allocation) used() int64 { return roundUp(p.data()+p.length, pageSize) }

// view returns the view of the whole array.
func (p *allocation) view(data int64) view { return contiguousView(p.elem, data, p.shape, p.fortran) }

// maxLength exceeds the memory of any machine, while header, size class and tag still fit into
// maxMapping.
const maxLength = maxMapping / 2

// checkSize returns an error for arrays that no place has space for. A view with a stride of 0 may
// have any length.
func checkSize(length int64) error {
	if length > maxLength {
		return fmt.Errorf("%w: array needs %s, maximum is %s", ErrNoSpace, units.FormatSize(length),
			units.FormatSize(maxLength))
	}
	return nil
}

// create makes an array in a file of its own, in the first place that has space. The object has one
// reference.
func (s *Pool) create(p *allocation) (*object, error) {
	if err := checkSize(p.length); err != nil {
		return nil, err
	}
	var err error
	if p.header, err = p.npyHeader(pageSize); err != nil {
		return nil, err
	}
	var failed error
	for _, place := range s.places() {
		var o *object
		switch {
		case place == Memfd:
			o, err = s.createMemfd(p)
		case place == Temp && s.opts.Place == Auto:
			o, err = s.createTemp(p, failed)
		default:
			o, err = s.createNamed(p, rootOf(place))
		}
		if err == nil {
			return o, nil
		}
		failed = errors.Join(failed, err)
		if !errors.Is(err, ErrNoSpace) && !errors.Is(err, errNoMemfd) && !errors.Is(err, errNoPlace) {
			break
		}
	}
	return nil, failed
}

func (s *Pool) places() []Place {
	if s.opts.Place != Auto {
		return []Place{s.opts.Place}
	}
	return []Place{Memfd, Named, Temp}
}

// createMemfd makes an array in a recycled or new memfd.
func (s *Pool) createMemfd(p *allocation) (*object, error) {
	size := capacity(p.used()) + pageSize
	need := p.used() + pageSize
	seg, lock, err := s.recycled.take(size, p.open)
	if err != nil {
		return nil, err
	}
	if seg == nil {
		if err := s.reserveMemory(need); err != nil {
			return nil, err
		}
		if seg, err = createMemfd(size, descriptorLimit()); err != nil {
			return nil, err
		}
	} else if need > seg.filled {
		if err := s.reserveMemory(need - seg.filled); err != nil {
			return nil, errors.Join(err, unlock(lock), seg.close())
		}
	}
	seg.arena, seg.full = false, false
	o, err := s.fillMemfd(seg, lock >= 0, p)
	if lock >= 0 {
		err = errors.Join(err, unlock(lock))
	}
	if err != nil {
		return nil, errors.Join(err, seg.close())
	}
	seg.filled = max(seg.filled, need)
	if err := s.register(o); err != nil {
		return nil, errors.Join(err, seg.close())
	}
	return o, nil
}

// fillMemfd writes an array into a memfd that no other process can read: a new one, or a used one
// that is locked exclusively.
func (s *Pool) fillMemfd(seg *segment, used bool, p *allocation) (*object, error) {
	size := int64(len(seg.mem))
	id := newIdent()
	t := tag{kind: kindWhole, id: id, size: size, data: p.data(), length: p.length}
	at := size - pageSize
	seg.state = stateOf(seg.mem[at:])
	reserve := s.reserveMemory
	var err error
	if used {
		// The old id goes first, so that no old handle leads here from now on.
		seg.state.Store(stateMaking)
		t.encode(seg.mem[at:])
		copy(seg.mem, p.header)
		if p.used() <= seg.filled {
			reserve = nil // takes no memory
		}
		if p.src != nil {
			err = fillMapped(seg.mem, p.data(), p.src, seg.touched, reserve)
		} else {
			err = zeroMapped(seg.mem, p.data(), p.length, seg.touched, false, reserve)
		}
		seg.touched = max(seg.touched, p.used())
	} else {
		if err = pwriteAll(seg.fd, p.header, 0); err == nil {
			err = pwriteAll(seg.fd, t.bytes(), at)
		}
		switch {
		case err != nil:
		case p.src != nil:
			err = fillFresh(seg.fd, seg.mem, p.data(), p.src, reserve)
		default:
			var huge int64
			if huge, err = takeHuge(seg.mem, p.used(), reserve); err == nil {
				from := max(p.data(), huge)
				err = zeroMapped(seg.mem, from, p.used()-from, 0, true, reserve)
			}
			seg.touched = p.used()
		}
	}
	if err != nil {
		return nil, err
	}
	if !p.open {
		if err := seg.seal(); err != nil {
			return nil, err
		}
	}
	seg.state.Store(p.state())
	return &object{
		addr: handle{kind: kindMemfd, boot: s.boot, id: id, size: size, pid: s.pid, fd: seg.fd},
		seg:  seg, data: p.data(), length: p.length, state: seg.state, own: true, write: true,
	}, nil
}

// createNamed makes an array in a named file below a root.
func (s *Pool) createNamed(p *allocation, root string) (*object, error) {
	d, err := s.dir(root)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errNoPlace, err)
	}
	size := p.used() + pageSize
	if err := checkDiskSpace(d, size); err != nil {
		return nil, err
	}
	if inMemory(d) {
		if err := s.reserveMemory(size); err != nil {
			return nil, err
		}
	}
	// Sweeps a few of the files that killed processes left; a failure does not matter here.
	_, _ = d.SweepSome(sweepNames)
	id := newIdent()
	t := tag{kind: kindWhole, id: id, size: size, data: p.data(), length: p.length, state: p.state()}
	perm := uint32(0o600)
	if !p.open {
		perm = 0o400
	}
	name := fileName(id)
	hold, err := d.Publish(name, perm, func(fd int) error {
		if p.src == nil {
			if err := fdio.Reserve(fd, 0, size); err != nil {
				return fmt.Errorf("allocating in %s: %w", d.Path(), wrapNoSpace(err))
			}
		}
		if err := pwriteAll(fd, p.header, 0); err != nil {
			return err
		}
		if p.src != nil {
			if err := fillFile(fd, p.data(), p.src); err != nil {
				return err
			}
		}
		// To the last byte: a missing page is a signal where the file system is full.
		rest := make([]byte, size-p.data()-p.length)
		copy(rest[len(rest)-pageSize:], t.bytes())
		return pwriteAll(fd, rest, p.data()+p.length)
	})
	if err != nil {
		return nil, fmt.Errorf("array in %s: %w", d.Path(), wrapNoSpace(err))
	}
	mapping, err := hold.MapAs(int(size), protWrite, mapShared)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("array in %s: %w", d.Path(), wrapNoSpace(err)), d.Remove(name))
	}
	seg := &segment{mem: mapping.Data, fd: -1, sealed: !p.open, write: true, own: true}
	seg.state = stateOf(seg.mem[size-pageSize:])
	seg.close = closeNamed(seg, d, name, mapping)
	o := &object{
		addr: handle{kind: kindFile, boot: s.boot, id: id, size: size, root: root},
		seg:  seg, data: p.data(), length: p.length, state: seg.state, own: true, write: true,
	}
	if err := s.register(o); err != nil {
		return nil, errors.Join(err, seg.close())
	}
	return o, nil
}

// closeNamed returns the function that closes a segment of a named file. Its owner removes the
// name, unless it handed the array over.
func closeNamed(seg *segment, d *lockfile.Dir, name string, m *lockfile.Mapping) func() error {
	return func() error {
		seg.mem = nil
		var err error
		if seg.own && !seg.handed {
			err = d.Remove(name)
		}
		if errors.Is(err, os.ErrNotExist) {
			err = nil // removed by hand
		}
		return errors.Join(err, m.Close())
	}
}

// createTemp is createNamed in the temporary directory, for arrays that memory has no space for. It
// must be on a disk.
func (s *Pool) createTemp(p *allocation, failed error) (*object, error) {
	d, err := s.dir(rootTemp)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errNoPlace, err)
	}
	if errors.Is(failed, ErrNoSpace) && inMemory(d) {
		return nil, fmt.Errorf("%w: temporary directory %s is in memory too", errNoPlace, d.Path())
	}
	return s.createNamed(p, rootTemp)
}

// register adds an object of a new segment, with one reference.
func (s *Pool) register(o *object) error {
	if err := s.reg.lock(); err != nil {
		return err
	}
	defer s.reg.mu.Unlock()
	s.reg.addSegment(o.seg)
	s.reg.addObject(o)
	return nil
}

// littleEndian reports whether elements in memory have the byte order of handles and .npy headers.
func littleEndian() bool { return binary.NativeEndian.Uint16([]byte{1, 0}) == 1 }
