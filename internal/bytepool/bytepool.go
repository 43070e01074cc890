// Package bytepool reuses byte slices that callers may return.
//
// It holds slices in sync.Pools, one per range of capacities, so the garbage collector frees slices
// that are not reused soon. For a slice of 100 KiB, collection costs more than the copy into it
// (docs/benchmarks/cache.md).
package bytepool

import (
	"bytes"
	"crypto/rand"
	"math/bits"
	"sync"
	"sync/atomic"
)

// Pool holds recycled slices. The zero value is an empty pool. It is safe for concurrent use.
type Pool struct {
	classes [classCount]sync.Pool // of *slice
	empty   sync.Pool             // of *slice
	used    atomic.Bool           // Put was called; until then Get does not search
}

// slice is what a sync.Pool holds of a []byte without an allocation.
type slice struct{ b []byte }

const (
	smallest   = 1 << 10 // below it an allocation is cheap
	perOctave  = 4
	octaves    = 27 // up to 64 GiB
	classCount = perOctave * octaves
)

// mark is what the first bytes of a recycled slice contain, so that it is not recycled again. It is
// drawn for the process, so that no data contains it by chance.
var mark = []byte(rand.Text())

// class returns the number of the range of capacities that n is in, below 0 if n is too small to be
// recycled.
func class(n int) int {
	if n < smallest {
		return -1
	}
	octave := bits.Len(uint(n)) - 1
	step := n >> (octave - 2) & (perOctave - 1)
	return min((octave-10)*perOctave+step, classCount-1)
}

// Get returns n bytes of undefined content: recycled ones, whose capacity may be half as much
// again, or else new ones.
func (p *Pool) Get(n int) []byte {
	if b := p.take(n); b != nil {
		return b
	}
	if n < smallest {
		return make([]byte, n)
	}
	b := unzeroed(n)
	clear(b[:len(mark)]) // it may be memory that was recycled and freed
	return b
}

// Clone returns a copy of b in recycled or new memory. It is not nil.
func (p *Pool) Clone(b []byte) []byte {
	if c := p.take(len(b)); c != nil {
		copy(c, b)
		return c
	}
	c := make([]byte, len(b)) // before a copy, the compiler omits the zeroing
	copy(c, b)
	return c
}

// take returns recycled memory of n bytes, or nil.
func (p *Pool) take(n int) []byte {
	k := class(n)
	if k < 0 || !p.used.Load() {
		return nil
	}
	// Slices of the class of n may be too short; those of the next class are long enough.
	for _, k := range [...]int{k, min(k+1, classCount-1)} {
		s, _ := p.classes[k].Get().(*slice)
		if s == nil {
			continue
		}
		if cap(s.b) < n {
			p.classes[k].Put(s)
			continue
		}
		// With less capacity, the rest of the memory would be neither used nor free.
		b := s.b[:n]
		s.b = nil
		clear(b[:len(mark)])
		p.empty.Put(s)
		return b
	}
	return nil
}

// Put recycles the memory of b. The caller must not use b afterwards. Put ignores memory that a
// Pool of this process has recycled and not returned again, unless two calls run at once.
func (p *Pool) Put(b []byte) {
	k := class(cap(b))
	if k < 0 {
		return
	}
	if bytes.Equal(b[:len(mark)], mark) {
		return
	}
	copy(b[:len(mark)], mark)
	s, _ := p.empty.Get().(*slice)
	if s == nil {
		s = new(slice)
	}
	if !p.used.Load() {
		p.used.Store(true)
	}
	s.b = b[:0]
	p.classes[k].Put(s)
}
