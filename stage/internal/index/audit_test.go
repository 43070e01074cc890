//go:build linux

package index

import (
	"errors"
	"fmt"
	"testing"
)

// audit checks that the index is whole while nobody changes them and no copy is under way: each
// record is exactly one of free and in the list of free ones, in the chain of its bucket, or more
// text of one that is; the counts are the sums; no key has two objects that can be found. It
// returns the objects whose bytes are counted.
func audit(l *Index) (all []Object, err error) {
	next, capacity := l.h.next.Load(), l.h.capacity.Load()
	if next == 0 || next > max(capacity, 1) || capacity%chunkCount != 0 {
		return nil, fmt.Errorf("record %d is next of %d", next, capacity)
	}
	where := make([]string, next)
	var errs []error
	claim := func(i uint32, what string) *record {
		switch {
		case i == 0 || i >= next:
			errs = append(errs, fmt.Errorf("%s: record %d of %d", what, i, next))
			return nil
		case where[i] != "":
			errs = append(errs, fmt.Errorf("record %d: %s, and %s", i, where[i], what))
			return nil
		}
		where[i] = what
		return l.record(i)
	}
	want := func(i uint32, r *record, states ...byte) {
		for _, s := range states {
			if byte(r.seq.Load()) == s {
				return
			}
		}
		errs = append(errs, fmt.Errorf("record %d: %s, in state %d", i, where[i], byte(r.seq.Load())))
	}
	for i := uint32(l.h.free.Load()); i != 0; {
		r := claim(i, "free")
		if r == nil {
			break
		}
		want(i, r, stateFree)
		i = r.next.Load()
	}
	var bytes int64
	valid := map[Key]uint32{}
	for b := range uint32(buckets) {
		for i := l.bucket(b).Load(); i != 0; {
			r := claim(i, fmt.Sprintf("in chain %d", b))
			if r == nil {
				break
			}
			want(i, r, stateValid, stateStale, stateEvicting)
			if r.key.bucket() != b {
				errs = append(errs, fmt.Errorf("record %d: in chain %d, not %d", i, b, r.key.bucket()))
			}
			if byte(r.seq.Load()) == stateValid {
				if j := valid[r.key]; j != 0 {
					errs = append(errs, fmt.Errorf("records %d and %d are of the same key", i, j))
				}
				valid[r.key] = i
			}
			left := int(r.length) - textHere
			for j := r.more.Load(); j != 0; left -= textMore {
				m := claim(j, fmt.Sprintf("more of %d", i))
				if m == nil {
					break
				}
				want(j, m, stateMore)
				j = m.more.Load()
			}
			if left > 0 {
				errs = append(errs, fmt.Errorf("record %d: %d bytes of its text are missing", i, left))
			}
			all = append(all, l.readMapped(r))
			bytes += r.charge
			i = r.next.Load()
		}
	}
	lost := 0
	for i := uint32(1); i < next; i++ {
		if where[i] == "" {
			if lost++; lost < 5 {
				errs = append(errs, fmt.Errorf("record %d, in state %d, is lost", i, byte(l.record(i).seq.Load())))
			}
		}
	}
	if b, f := l.h.bytes.Load(), l.h.files.Load(); b != bytes || f != int64(len(all)) {
		errs = append(errs, fmt.Errorf("%d bytes and %d objects are counted, there are %d and %d", b, f, bytes,
			len(all)))
	}
	return all, errors.Join(errs...)
}

func TestAudit(t *testing.T) {
	for name, damage := range map[string]func(l *Index){
		"a count of bytes":            func(l *Index) { l.h.bytes.Add(unit) },
		"a count of files":            func(l *Index) { l.h.files.Add(-1) },
		"a lost record":               func(l *Index) { l.h.next.Add(1) },
		"a lost list of free ones":    func(l *Index) { l.h.free.Store(0) },
		"a free record in a chain":    func(l *Index) { l.record(1).seq.Store(stateFree) },
		"one in a chain and free":     func(l *Index) { l.h.free.Store(1) },
		"a chain that is cut":         func(l *Index) { l.bucket(keyOf(1).bucket()).Store(0) },
		"a chain that is a circle":    func(l *Index) { l.record(1).next.Store(1) },
		"a record in another chain":   func(l *Index) { l.record(1).key = keyOf(100) },
		"text that is missing":        func(l *Index) { l.record(1).length = 200 },
		"a next that is not there":    func(l *Index) { l.h.next.Store(0) },
		"two objects of the same key": func(l *Index) { l.record(2).key = l.record(1).key },
	} {
		t.Run(name, func(t *testing.T) {
			b := open(t)
			b.add(t, 1, 2, 3)
			b.find(t, 3).Drop()
			wantIndex(t, b)
			damage(b.Index)
			if _, err := audit(b.Index); err == nil {
				t.Error("it finds nothing")
			}
		})
	}
}
