//go:build unix

package shm

import (
	"bytes"
	"hash/maphash"
)

// dedupeKey tells arrays of different content apart, nearly always.
type dedupeKey struct {
	hash    uint64
	length  int64
	descr   string
	shape   string
	fortran bool
}

// hasher hashes content with a seed of its own, so that nobody can prepare arrays that fall
// together.
type hasher struct{ seed maphash.Seed }

func (h *hasher) init() { h.seed = maphash.MakeSeed() }

// pieces calls f for the bytes of a source one piece after the other, until it returns false.
func (src *input) pieces(f func(at int64, b []byte) bool) {
	if src.flat != nil {
		f(0, src.flat)
		return
	}
	size := int64(src.view.elem.Size())
	step := max(copyChunk/size, 1) * size
	b := make([]byte, min(step, src.length))
	for at := int64(0); at < src.length; at += step {
		p := b[:min(step, src.length-at)]
		src.read(p, at)
		if !f(at, p) {
			return
		}
	}
}

func (h *hasher) key(src *input) dedupeKey {
	var m maphash.Hash
	m.SetSeed(h.seed)
	src.pieces(func(_ int64, b []byte) bool { _, _ = m.Write(b); return true })
	return dedupeKey{m.Sum64(), src.length, src.view.elem.Descr(), string(appendInts(nil, src.view.shape)), src.order}
}

// putOnce shares a source, or finds that it is shared.
func (s *Pool) putOnce(src *input) (*object, view, error) {
	key := s.hash.key(src)
	s.reg.mu.Lock()
	o := s.reg.contents[key]
	if o != nil {
		s.reg.retain(o)
	}
	s.reg.mu.Unlock()
	if o != nil {
		same := true
		content := o.bytes()[o.data : o.data+o.length]
		src.pieces(func(at int64, b []byte) bool {
			same = bytes.Equal(b, content[at:at+int64(len(b))])
			return same
		})
		if same {
			return o, contiguousView(src.view.elem, o.data, clone(src.view.shape), src.order), nil
		}
		// Its maker changed it in place: what is put now is new.
		if err := s.release(o); err != nil {
			return nil, view{}, err
		}
	}
	o, v, err := s.copyOf(src, false)
	if err == nil {
		s.reg.mu.Lock()
		o.dedupe = &key
		s.reg.contents[key] = o
		s.reg.mu.Unlock()
	}
	return o, v, err
}

// alignedCopy returns b in memory whose address is a multiple of 64, as a file's would be.
func alignedCopy(b []byte) []byte {
	m := make([]byte, len(b)+entryAlign)
	off := int(-address(m) & (entryAlign - 1))
	m = m[off : off+len(b) : off+len(b)]
	copy(m, b)
	return m
}
