//go:build unix

package store

import (
	"cmp"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"

	"leat/internal/fault"
	"leat/internal/lockfile"
)

// Sweep removes what killed processes left: unlocked segments and files whose number used does not
// report, and temporary files. It may call used twice for a number; the second time it holds the
// file exclusively, so that its writer has added it to the index or is dead. Other names are kept.
// Sweep returns the number of removed files; it continues after an error and returns it at the end.
func (s *Store) Sweep(used func(id uint64) bool) (removed int, err error) {
	sweep := func(dir *lockfile.Dir, name string, id uint64) {
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
		} else if strings.HasPrefix(name, lockfile.TempPrefix) {
			sweep(s.segments, name, 0)
		}
	}
	dirs, err1 := s.objects.Names()
	err = errors.Join(err, err1)
	for _, directory := range dirs {
		if strings.HasPrefix(directory, lockfile.TempPrefix) {
			sweep(s.objects, directory, 0)
			continue
		}
		if !isDir(directory) {
			continue
		}
		sub, err1 := s.objects.OpenSub(directory)
		if err1 != nil {
			err = errors.Join(err, err1)
			continue
		}
		names, err1 := sub.Names()
		err = errors.Join(err, err1)
		for _, name := range names {
			if id, ok := parseFile(directory, name); ok {
				sweep(sub, name, id)
			}
		}
		err = errors.Join(err, sub.Close())
	}
	if err != nil {
		err = fmt.Errorf("sweeping: %w", err)
	}
	return removed, err
}

// sweep removes a file that is not locked, if it is temporary (id 0) or unused.
func (s *Store) sweep(dir *lockfile.Dir, name string, id uint64, used func(id uint64) bool) (bool, error) {
	if id != 0 && used(id) { // most are, and need not be opened
		return false, nil
	}
	gone, err := dir.SweepWith(name, func(int) error {
		if id != 0 && used(id) {
			return errInUse
		}
		fault.Point("stage.unlinking")
		return nil
	})
	if errors.Is(err, errInUse) {
		return false, nil
	}
	if gone && dir == s.segments {
		s.open.forget(id)
	}
	return gone, err
}

// isDir reports whether a name in objects/ is one of its directories.
func isDir(name string) bool {
	return len(name) == 2 && strings.Trim(name, "0123456789abcdef") == ""
}

// Tidy is Sweep for a caller that uses the directory alone and knows the place and size (or charge)
// of all of its objects. It also frees the space between them in segments, such as that of a killed
// process's writes.
func (s *Store) Tidy(objects iter.Seq2[Place, int64]) (removed int, err error) {
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
		// Under the lock of a sweep: segments in use are skipped, and empty ones are removed.
		gone, err1 := s.segments.SweepWith(name, func(int) error {
			d, err := s.open.get(s.segments, id)
			if err != nil {
				return explain("opening", s.segments.FilePath(name), err)
			}
			defer s.open.put(d)
			end, err := length(d.fd)
			if err != nil {
				return explain("looking at", s.segments.FilePath(name), err)
			}
			next := int64(0)
			for _, r := range append(of(id), region{offset: end}) {
				if r.offset > next {
					if err := punch(d.fd, next, r.offset-next); err != nil {
						return explain("freeing space in", s.segments.FilePath(name), err)
					}
				}
				next = max(next, r.until)
			}
			if left, err := allocated(d.fd); err != nil {
				return err
			} else if left != 0 {
				return errInUse
			}
			return nil
		})
		if gone {
			removed++
			s.open.forget(id)
		}
		if !errors.Is(err1, errInUse) {
			err = errors.Join(err, err1)
		}
	}
	return removed, err
}
