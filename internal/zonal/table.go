package zonal

import (
	"cmp"
	"encoding/binary"
	"slices"
)

// entry is n pixels of one value and one weight. Tables are ordered by key, then weight.
type entry struct {
	key    uint64 // order of the value, see keyOf
	weight Weight
	n      uint64
}

func compareEntries(a, b entry) int {
	return cmp.Or(cmp.Compare(a.key, b.key), cmp.Compare(a.weight, b.weight))
}

// table holds the values of a zone as encoded runs, each ordered. It keeps few runs by merging
// those of similar size, so that adding n entries takes n log n time.
type table struct{ runs [][]byte }

// appendEntry appends the encoding of an entry that follows one with the key last.
func appendEntry(dst []byte, e entry, last uint64) []byte {
	dst = binary.AppendUvarint(dst, e.key-last)
	if e.weight == One {
		return binary.AppendUvarint(dst, e.n<<1)
	}
	dst = binary.AppendUvarint(dst, e.n<<1|1)
	return binary.AppendUvarint(dst, uint64(e.weight))
}

// entryReader reads an encoded run.
type entryReader struct {
	rest []byte
	e    entry
}

// next reads the next entry. It returns false at the end, or if the bytes are not an entry.
func (r *entryReader) next() bool {
	d, n := binary.Uvarint(r.rest)
	if n <= 0 {
		return false
	}
	c, k := binary.Uvarint(r.rest[n:])
	if k <= 0 {
		return false
	}
	r.rest = r.rest[n+k:]
	r.e.key += d
	r.e.n, r.e.weight = c>>1, One
	if c&1 != 0 {
		w, k := binary.Uvarint(r.rest)
		if k <= 0 {
			return false
		}
		r.rest = r.rest[k:]
		r.e.weight = Weight(w)
	}
	return true
}

// checkRun reports whether b is a run: entries in strict order, with keys up to maxKey and limit
// pixels in total.
func checkRun(b []byte, maxKey, limit uint64) bool {
	r := entryReader{rest: b}
	for first := true; len(r.rest) > 0; first = false {
		last := r.e
		if !r.next() || r.e.n == 0 || r.e.n > limit || r.e.weight == 0 || r.e.weight > One || r.e.key > maxKey ||
			r.e.key < last.key || !first && compareEntries(last, r.e) >= 0 {
			return false
		}
		limit -= r.e.n
	}
	return limit == 0
}

// add adds a run, which must not change afterwards.
func (t *table) add(run []byte) {
	if len(run) == 0 {
		return
	}
	t.runs = append(t.runs, run)
	for n := len(t.runs); n > 1 && len(t.runs[n-2]) <= 2*len(t.runs[n-1]); n-- {
		t.runs[n-2] = mergeRuns(t.runs[n-2], t.runs[n-1])
		t.runs = t.runs[:n-1]
	}
}

// compact merges all runs into one and returns it.
func (t *table) compact() []byte {
	for n := len(t.runs); n > 1; n-- {
		t.runs[n-2] = mergeRuns(t.runs[n-2], t.runs[n-1])
		t.runs = t.runs[:n-1]
	}
	if len(t.runs) == 0 {
		return nil
	}
	return t.runs[0]
}

func mergeRuns(a, b []byte) []byte {
	dst := make([]byte, 0, len(a)+len(b))
	last := uint64(0)
	x, y := entryReader{rest: a}, entryReader{rest: b}
	p, q := x.next(), y.next()
	for p || q {
		c := 0
		switch {
		case !q:
			c = -1
		case !p:
			c = 1
		default:
			c = compareEntries(x.e, y.e)
		}
		e := x.e
		switch {
		case c < 0:
			p = x.next()
		case c > 0:
			e = y.e
			q = y.next()
		default:
			e.n += y.e.n
			p, q = x.next(), y.next()
		}
		dst = appendEntry(dst, e, last)
		last = e.key
	}
	return slices.Clip(dst)
}
