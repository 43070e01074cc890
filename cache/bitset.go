package cache

import "sync/atomic"

// bitset is a lock-free set of numbers below 2^40: a tree of three levels that allocates memory
// only near its members.
type bitset struct {
	top []atomic.Pointer[bitBranch] // by bits 27 and up
}

type (
	bitBranch [1 << 12]atomic.Pointer[bitLeaf] // by bits 15 to 26
	bitLeaf   [1 << 9]atomic.Uint64            // by bits 6 to 14
)

// newBitset returns an empty set for numbers below n.
func newBitset(n int64) bitset {
	return bitset{make([]atomic.Pointer[bitBranch], (n+1<<27-1)>>27)}
}

func (s *bitset) has(i int64) bool {
	branch := s.top[i>>27].Load()
	if branch == nil {
		return false
	}
	leaf := branch[i>>15&(1<<12-1)].Load()
	return leaf != nil && leaf[i>>6&(1<<9-1)].Load()>>(i&63)&1 != 0
}

func (s *bitset) add(i int64) {
	leaf := grow(&grow(&s.top[i>>27])[i>>15&(1<<12-1)])
	leaf[i>>6&(1<<9-1)].Or(1 << (i & 63))
}

func (s *bitset) remove(i int64) {
	if s.has(i) {
		s.top[i>>27].Load()[i>>15&(1<<12-1)].Load()[i>>6&(1<<9-1)].And(^uint64(1 << (i & 63)))
	}
}

// grow returns the target of p and allocates it if needed.
func grow[T any](p *atomic.Pointer[T]) *T {
	if v := p.Load(); v != nil {
		return v
	}
	p.CompareAndSwap(nil, new(T))
	return p.Load()
}
