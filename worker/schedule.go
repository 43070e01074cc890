package worker

import (
	"cmp"
	"container/heap"
	"slices"
	"time"
)

// schedule decides which worker gets which block. It does no I/O and has no clock; its caller holds a lock. What it does for one block or lease takes
// O(log n) at most.
//
// A block waits (OnDemand: until it is offered), is ready, is held under one lease or two, is claimed by the first of them whose result is there, and is done once
// that was taken. Leases that lost stay until their worker gives them back, since it may still be reading the block's arrays.
//
// A worker is lost with all its blocks, one of which may be the cause. So the last time that a block is given out it is its worker's only one, whose loss then is no
// other block's doing. As long as one waits for that, workers get no others, and the first that has none left gets it.
type schedule struct {
	blocks   []blockState
	losers   map[int][]int // workers that were lost with a block
	holders  map[int]*holder
	leases   map[uint64]*lease
	next     int    // first block that was never given out, when blocks need not be offered
	lastTry  queue  // blocks of lost workers that are given out for the last time: to a worker that has no other
	again    queue  // other blocks of lost workers: given out before those that were never given out
	offered  queue  // blocks that were offered
	alone    alone  // leases whose block nobody else holds
	lastID   uint64 // of leases
	onDemand bool
	copies   bool
	reissues int

	waiting int
	ready   int
	held    int // held or claimed
	claims  int // claimed
	undone  int
	given   counts
}

type counts struct{ reissued, copied, superseded int64 }

type phase uint8

const (
	waiting phase = iota // to be offered; or for ever, since it was lost too often
	ready
	held
	claimed
	done
)

type blockState struct {
	phase   phase
	holders [2]*lease
	winner  uint64 // the lease whose result was taken
	by      int    // its worker
}

type holder struct {
	slots  int
	leases []*lease
	// single holders get one block, and never another.
	single, served bool
	alone          bool // its one lease is its block's last
}

type lease struct {
	id      uint64
	block   int
	worker  int
	granted time.Time
	place   int  // among its worker's
	alone   int  // among those that may be copied; -1: not there
	last    bool // of its block: it is its worker's only one, and nobody else's
	kept    bool
	listed  bool // by lostTo
}

func newSchedule(blocks int, isDone func(int) bool, onDemand, copies bool, reissues int) *schedule {
	s := &schedule{
		blocks: make([]blockState, blocks), losers: map[int][]int{}, holders: map[int]*holder{}, leases: map[uint64]*lease{},
		onDemand: onDemand, copies: copies, reissues: reissues,
	}
	for b := range s.blocks {
		switch {
		case isDone != nil && isDone(b):
			s.blocks[b].phase = done
			continue
		case onDemand:
			s.waiting++
		default:
			s.blocks[b].phase = ready
			s.ready++
		}
		s.undone++
	}
	return s
}

// offer makes a block ready; false: it is ready already, or further.
func (s *schedule) offer(block int) bool {
	b := &s.blocks[block]
	if b.phase != waiting {
		return false
	}
	b.phase = ready
	s.waiting--
	s.ready++
	s.offered.push(block)
	return true
}

func (s *schedule) join(worker, slots int, single bool) {
	s.holders[worker] = &holder{slots: slots, single: single}
}

// pop takes the block that is to be given out next, of those that can be given to a worker with others.
func (s *schedule) pop() (int, bool) {
	if b, ok := s.again.pop(); ok {
		return b, true
	}
	if s.onDemand {
		return s.offered.pop()
	}
	for ; s.next < len(s.blocks); s.next++ {
		// A block that was lost stands behind next already, so what is ready here was never given out.
		if s.blocks[s.next].phase == ready {
			s.next++
			return s.next - 1, true
		}
	}
	return 0, false
}

// take gives a worker up to want blocks: slots + 1 in all, and copies of what others hold only for slots that would be idle.
func (s *schedule) take(worker, want int, now time.Time) []*lease {
	h := s.holders[worker]
	if s.full(worker, want) {
		return nil
	}
	if s.lastTry.len() > 0 {
		if len(h.leases) > 0 {
			return nil
		}
		b, _ := s.lastTry.pop()
		h.alone = true
		s.ready--
		s.held++
		return []*lease{s.grant(worker, h, b, now)}
	}
	limit := h.slots + 1
	if h.single {
		limit = 1
	}
	var taken []*lease
	for len(taken) < want && len(h.leases) < limit {
		b, ok := s.pop()
		if !ok {
			break
		}
		s.ready--
		s.held++
		taken = append(taken, s.grant(worker, h, b, now))
	}
	if s.copies && s.ready == 0 && s.waiting == 0 {
		for len(taken) < want && len(h.leases) < min(h.slots, limit) {
			b, ok := s.longestHeld(worker)
			if !ok {
				break
			}
			s.given.copied++
			taken = append(taken, s.grant(worker, h, b, now))
		}
	}
	return taken
}

func (s *schedule) grant(worker int, h *holder, block int, now time.Time) *lease {
	s.lastID++
	l := &lease{id: s.lastID, block: block, worker: worker, granted: now, place: len(h.leases), alone: -1, last: h.alone}
	h.leases = append(h.leases, l)
	s.leases[l.id] = l
	b := &s.blocks[block]
	b.phase = held
	if b.holders[0] != nil {
		b.holders[1] = l
		s.notAlone(b.holders[0])
		return l
	}
	b.holders[0] = l
	if !s.suspect(block) {
		heap.Push(&s.alone, l)
	}
	return l
}

// full tells that a worker can be given none of want blocks, whatever becomes ready, until one of its leases ends.
func (s *schedule) full(worker, want int) bool {
	h := s.holders[worker]
	return h == nil || want < 1 || h.alone || h.single && (h.served || len(h.leases) > 0) || len(h.leases) > h.slots
}

// longestHeld finds the block that one other worker alone has held for the longest time.
func (s *schedule) longestHeld(worker int) (block int, ok bool) {
	var own []*lease // at most slots + 1
	for len(s.alone) > 0 && s.alone[0].worker == worker {
		own = append(own, heap.Pop(&s.alone).(*lease))
	}
	if len(s.alone) > 0 {
		block, ok = s.alone[0].block, true
	}
	for _, l := range own {
		heap.Push(&s.alone, l)
	}
	return block, ok
}

func (s *schedule) notAlone(l *lease) {
	if l.alone >= 0 {
		heap.Remove(&s.alone, l.alone)
	}
}

// end takes a lease away, and tells what is left of its block's leases.
func (s *schedule) end(l *lease) (other *lease) {
	s.notAlone(l)
	delete(s.leases, l.id)
	h := s.holders[l.worker]
	last := h.leases[len(h.leases)-1]
	h.leases[l.place], last.place = last, l.place
	h.leases[len(h.leases)-1] = nil
	h.leases = h.leases[:len(h.leases)-1]
	h.alone = false // with it, it was the only one
	b := &s.blocks[l.block]
	if b.holders[0] == l {
		b.holders[0] = b.holders[1]
	}
	b.holders[1] = nil
	return b.holders[0]
}

// verdict on a result.
type verdict uint8

const (
	takeIt     verdict = iota
	tookIt             // under this very lease: the worker did not get the answer
	superseded         // another's was first
	noLease
	noBlock
)

// judge says what is to be done with a result, and changes nothing.
func (s *schedule) judge(worker int, id uint64, block int) verdict {
	if block < 0 || block >= len(s.blocks) {
		return noBlock
	}
	b := &s.blocks[block]
	if b.winner == id && b.by == worker && id != 0 {
		return tookIt
	}
	l := s.leases[id]
	switch {
	case l == nil || l.worker != worker || l.block != block:
		return noLease
	case b.phase != held:
		return superseded
	}
	return takeIt
}

// claim is judge, and acts on it: the block is the lease's when the verdict is takeIt, and a lease that lost is given back. released tells that the block's last lease
// is given back with that, and the block is done.
func (s *schedule) claim(worker int, id uint64, block int) (v verdict, released bool) {
	v = s.judge(worker, id, block)
	switch v {
	case takeIt:
		b := &s.blocks[block]
		b.phase, b.winner, b.by = claimed, id, worker
		s.claims++
		s.holders[worker].served = true
		if other := s.end(s.leases[id]); other != nil {
			s.notAlone(other)
		}
	case superseded:
		s.given.superseded++
		released = s.giveBack(s.leases[id])
	}
	return v, released
}

// accepted makes a claimed block done; released tells that nobody holds it.
func (s *schedule) accepted(block int) (released bool) {
	b := &s.blocks[block]
	if b.phase != claimed {
		panic("worker: a block was accepted that nobody has claimed")
	}
	b.phase = done
	s.claims--
	s.held--
	s.undone--
	return b.holders[0] == nil
}

// giveBack ends a lease without a result, for no fault of the block.
func (s *schedule) giveBack(l *lease) (released bool) {
	other := s.end(l)
	b := &s.blocks[l.block]
	switch {
	case b.phase == held && other == nil:
		s.putBack(l.block)
	case b.phase == held && other.alone < 0 && !s.suspect(l.block):
		heap.Push(&s.alone, other)
	}
	return b.phase == done && other == nil
}

// suspect blocks were lost so often that they are given out once more at most, and never copied.
func (s *schedule) suspect(block int) bool {
	n := len(s.losers[block])
	return n > 0 && n >= s.reissues
}

// putBack makes a block ready that is held no more.
func (s *schedule) putBack(block int) {
	s.blocks[block].phase = ready
	s.held--
	s.ready++
	if s.suspect(block) {
		s.lastTry.push(block)
	} else {
		s.again.push(block)
	}
}

// keep ends all leases of a worker that are not among ids: those it does not know, and those it has dropped. It returns the blocks that were released, and how many leases
// ended.
func (s *schedule) keep(worker int, ids []uint64) (released []int, ended int) {
	h := s.holders[worker]
	if h == nil {
		return nil, 0
	}
	for _, id := range ids {
		if l := s.leases[id]; l != nil && l.worker == worker {
			l.kept = true
		}
	}
	var dropped []*lease
	for _, l := range h.leases {
		if !l.kept {
			dropped = append(dropped, l)
		}
		l.kept = false
	}
	for _, l := range dropped {
		if s.giveBack(l) {
			released = append(released, l.block)
		}
	}
	return released, len(dropped)
}

// drop ends leases of a worker, as keep does.
func (s *schedule) drop(worker int, ids []uint64) (released []int, ended int) {
	for _, id := range ids {
		if l := s.leases[id]; l != nil && l.worker == worker {
			ended++
			if s.giveBack(l) {
				released = append(released, l.block)
			}
		}
	}
	return released, ended
}

// loss is what came of the end of a worker.
type loss struct {
	released []int
	again    []int // blocks that are to be given out again
	tooOften []int // blocks that were lost too often for that, by their leases' age; more than one only if no block is given out again
}

// leave ends a worker. When it was lost its blocks count that: one whose last lease it had, or any if there are no reissues, is never given out again.
func (s *schedule) leave(worker int, lost bool) (r loss) {
	h := s.holders[worker]
	if h == nil {
		return r
	}
	leases := slices.SortedFunc(slices.Values(h.leases), func(a, b *lease) int { return cmp.Compare(a.id, b.id) })
	for _, l := range leases {
		b := &s.blocks[l.block]
		switch {
		case !lost || b.phase != held:
			if s.giveBack(l) {
				r.released = append(r.released, l.block)
			}
		default:
			s.losers[l.block] = append(s.losers[l.block], worker)
			if b.holders[1] == nil && (l.last || s.reissues == 0) {
				s.end(l)
				b.phase = waiting
				s.held--
				s.waiting++
				r.tooOften = append(r.tooOften, l.block)
				continue
			}
			s.giveBack(l)
			if b.phase == ready {
				s.given.reissued++
				r.again = append(r.again, l.block)
			}
		}
	}
	delete(s.holders, worker)
	return r
}

// mostLost are the blocks that were lost with most workers.
func (s *schedule) mostLost() (blocks []int, losers int) {
	for b, l := range s.losers {
		if len(l) > losers {
			blocks, losers = nil, len(l)
		}
		if len(l) == losers {
			blocks = append(blocks, b)
		}
	}
	slices.Sort(blocks)
	return blocks, losers
}

// lostTo lists leases of a worker whose blocks others have finished; news: one of them was not listed before.
func (s *schedule) lostTo(worker int) (ids []uint64, news bool) {
	if h := s.holders[worker]; h != nil {
		for _, l := range h.leases {
			if p := s.blocks[l.block].phase; p == claimed || p == done {
				ids = append(ids, l.id)
				news = news || !l.listed
				l.listed = true
			}
		}
	}
	return ids, news
}

// heldBy lists the blocks of a worker.
func (s *schedule) heldBy(worker int) (blocks []int) {
	if h := s.holders[worker]; h != nil {
		for _, l := range h.leases {
			blocks = append(blocks, l.block)
		}
	}
	return blocks
}

// alone is a heap of leases, the one that has lasted longest on top.
type alone []*lease

func (a alone) Len() int { return len(a) }

func (a alone) Less(i, j int) bool {
	if a[i].granted.Equal(a[j].granted) {
		return a[i].id < a[j].id
	}
	return a[i].granted.Before(a[j].granted)
}

func (a alone) Swap(i, j int) {
	a[i], a[j] = a[j], a[i]
	a[i].alone, a[j].alone = i, j
}

func (a *alone) Push(x any) {
	l := x.(*lease)
	l.alone = len(*a)
	*a = append(*a, l)
}

func (a *alone) Pop() any {
	l := (*a)[len(*a)-1]
	(*a)[len(*a)-1] = nil
	*a = (*a)[:len(*a)-1]
	l.alone = -1
	return l
}

// queue is a first-in, first-out queue of blocks.
type queue struct {
	blocks []int
	head   int
}

func (q *queue) push(b int) {
	if q.head > len(q.blocks)/2 {
		q.blocks = q.blocks[:copy(q.blocks, q.blocks[q.head:])]
		q.head = 0
	}
	q.blocks = append(q.blocks, b)
}

func (q *queue) len() int { return len(q.blocks) - q.head }

func (q *queue) pop() (int, bool) {
	if q.head == len(q.blocks) {
		return 0, false
	}
	q.head++
	return q.blocks[q.head-1], true
}
