//go:build unix

package shelf

import (
	"cmp"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"

	"leat/internal/fault"
	"leat/internal/lease"
)

// Sweep removes what nobody writes and what used, which is asked by number, does not know: segments and files whose writers were killed before they told the ledger, and
// temporary files. used may be called for one number twice; the second time while the file is held alone, so that whoever wrote it has told
// the ledger or is dead. Names that are not the shelf's stay. It returns the number of files removed; after an error it goes on, and returns it at the end.
func (s *Shelf) Sweep(used func(id uint64) bool) (removed int, err error) {
	sweep := func(dir *lease.Dir, name string, id uint64) {
		gone, err1 := s.sweep(dir, name, id, used)
		if gone {
			removed++
		}
		err = errors.Join(err, err1)
	}
	names, err := s.segments.Names()
	for _, name := range names {
		if id, ok := parseSegment(name); ok {
			sweep(s.segments, name, id)
		} else if strings.HasPrefix(name, tempPrefix) {
			sweep(s.segments, name, 0)
		}
	}
	folders, err1 := s.objects.Names()
	err = errors.Join(err, err1)
	for _, folder := range folders {
		if strings.HasPrefix(folder, tempPrefix) {
			sweep(s.objects, folder, 0)
			continue
		}
		if !isFolder(folder) {
			continue
		}
		sub, err1 := s.objects.OpenSub(folder)
		if err1 != nil {
			err = errors.Join(err, err1)
			continue
		}
		names, err1 := sub.Names()
		err = errors.Join(err, err1)
		for _, name := range names {
			if id, ok := parseFile(folder, name); ok {
				sweep(sub, name, id)
			}
		}
		err = errors.Join(err, sub.Close())
	}
	if err != nil {
		err = fmt.Errorf("stage: sweeping: %w", err)
	}
	return removed, err
}

// sweep removes a file that nobody holds, if it is a temporary one (id 0) or not used.
func (s *Shelf) sweep(dir *lease.Dir, name string, id uint64, used func(id uint64) bool) (bool, error) {
	if id != 0 && used(id) { // most are: they aren't even opened
		return false, nil
	}
	gone, err := dir.SweepWith(name, func(int) error {
		if id != 0 && used(id) {
			return errStays
		}
		fault.Point("stage.unlinking")
		return nil
	})
	if errors.Is(err, errStays) {
		return false, nil
	}
	if gone && dir == s.segments {
		s.open.forget(id)
	}
	return gone, err
}

// isFolder tells whether a name in objects/ is one of the folders.
func isFolder(name string) bool {
	return len(name) == 2 && strings.Trim(name, "0123456789abcdef") == ""
}

// Tidy is Sweep for someone who uses the directory alone and knows all of its objects, by place and size (or charge): it also gives back the room in segments that is between
// them, such as what a killed process wrote.
func (s *Shelf) Tidy(objects iter.Seq2[Place, int64]) (removed int, err error) {
	type region struct {
		id            uint64
		offset, until int64
	}
	var all []region
	for p, size := range objects {
		r := region{id: p.ID}
		if p.Packed() {
			r.offset, r.until = p.Offset, p.Offset+Charge(size)
		}
		all = append(all, r)
	}
	slices.SortFunc(all, func(a, b region) int {
		return cmp.Or(cmp.Compare(a.id, b.id), cmp.Compare(a.offset, b.offset))
	})
	of := func(id uint64) []region {
		i, _ := slices.BinarySearchFunc(all, id, func(r region, id uint64) int { return cmp.Compare(r.id, id) })
		n := 0
		for i+n < len(all) && all[i+n].id == id {
			n++
		}
		return all[i : i+n : i+n]
	}
	removed, err = s.Sweep(func(id uint64) bool { return len(of(id)) > 0 })
	if !s.packs {
		return removed, err
	}
	names, err1 := s.segments.Names()
	err = errors.Join(err, err1)
	for _, name := range names {
		id, ok := parseSegment(name)
		if !ok {
			continue
		}
		// With the right of a sweep, so that a segment to which someone appends is left alone, and an empty one goes.
		gone, err1 := s.segments.SweepWith(name, func(int) error {
			d, err := s.open.get(s.segments, id)
			if err != nil {
				return explain("opening", s.segments.File(name), err)
			}
			defer s.open.put(d)
			end, err := length(d.fd)
			if err != nil {
				return explain("looking at", s.segments.File(name), err)
			}
			at := int64(0)
			for _, r := range append(of(id), region{offset: end}) {
				if r.offset > at {
					if err := punch(d.fd, at, r.offset-at); err != nil {
						return explain("giving back the room in", s.segments.File(name), err)
					}
				}
				at = max(at, r.until)
			}
			if left, err := blocks(d.fd); err != nil {
				return err
			} else if left != 0 {
				return errStays
			}
			return nil
		})
		if gone {
			removed++
			s.open.forget(id)
		}
		if !errors.Is(err1, errStays) {
			err = errors.Join(err, err1)
		}
	}
	return removed, err
}
