package coordinator

import (
	"cmp"
	"container/heap"
	"slices"
	"time"
)

// schedule decides which worker gets which block. It does no I/O and has no clock; its caller holds
// a lock. Each operation takes O(log n) per block or lease.
//
// A block waits (with OnDemand, until it is offered), is ready, is held under one or two leases, is
// claimed by the first lease with a result, and is done once that result is accepted. A superseded
// lease stays until its worker returns it, since the worker may still be reading the block's
// arrays.
//
// A worker is lost with all its blocks, and any of them may be the cause. So a block's last try
// goes to a worker without other blocks, whose loss then must be due to this block. While a block
// waits for its last try, no worker gets another block, and the first one without a lease gets it.
type schedule struct {
	blocks      []blockState
	lostWorkers map[int][]int // workers that were lost with a block
	holders     map[int]*holder
	leases      map[uint64]*lease
	next        int // first block that was never leased, without onDemand
	// blocks of lost workers to be leased for the last time: to a worker without other blocks
	lastTry    queue
	again      queue     // other blocks of lost workers: leased before new blocks
	offered    queue     // blocks that were offered
	soleLeases leaseHeap // leases whose block no other worker holds
	lastID     uint64    // of leases
	onDemand   bool
	copies     bool
	reissues   int
	workers    int // expected
	slots      int // of all holders

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
	waiting phase = iota // to be offered; or lost too often, and never leased again
	ready
	held
	claimed
	done
)

type blockState struct {
	phase   phase
	holders [2]*lease
	winner  uint64 // the lease whose result was accepted
	by      int    // its worker
}

type holder struct {
	slots  int
	most   int // leases, above slots
	leases []*lease
	// single holders get one block only.
	single, served bool
	exclusive      bool // its one lease is its block's last try
}

type lease struct {
	id        uint64
	block     int
	worker    int
	granted   time.Time
	place     int  // index in its holder's leases
	heapIndex int  // index in soleLeases; -1: not there
	last      bool // its block's last try: the worker's only lease, and the block's
	kept      bool
	listed    bool // returned by supersededLeases before
}

func newSchedule(blocks int, isDone func(int) bool, onDemand, copies bool, reissues, workers int) *schedule {
	s := &schedule{
		blocks: make([]blockState, blocks), lostWorkers: map[int][]int{}, holders: map[int]*holder{},
		leases:   map[uint64]*lease{},
		onDemand: onDemand, copies: copies, reissues: reissues, workers: workers,
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

// offer makes a block ready and reports false if it was ready before.
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

// join adds a worker that may hold at most a number of leases, which is larger than slots.
func (s *schedule) join(worker, slots, most int, single bool) {
	s.holders[worker] = &holder{slots: slots, most: most, single: single}
	s.slots += slots
}

// limit returns how many leases a worker may hold now: one more than slots, or most while the
// others have enough blocks. It is one more than slots while blocks of a lost worker wait: one of
// them may be the cause, and then few others are lost with it again.
func (s *schedule) limit(h *holder) int {
	switch others := max(s.slots, s.workers*h.slots) - h.slots; {
	case h.single:
		return 1
	case s.again.len() == 0 && s.ready > others:
		return h.most
	}
	return h.slots + 1
}

// pop removes the next block to lease to a worker that may have other blocks.
func (s *schedule) pop() (int, bool) {
	if b, ok := s.again.pop(); ok {
		return b, true
	}
	if s.onDemand {
		return s.offered.pop()
	}
	for ; s.next < len(s.blocks); s.next++ {
		// Blocks lost before are in again, so a ready block here was never leased.
		if s.blocks[s.next].phase == ready {
			s.next++
			return s.next - 1, true
		}
	}
	return 0, false
}

// take leases up to want blocks to a worker, as far as limit allows. Copies of blocks that others
// hold are only for slots that would be idle.
func (s *schedule) take(worker, want int, now time.Time) []*lease {
	h := s.holders[worker]
	if s.isFull(worker, want) {
		return nil
	}
	if s.lastTry.len() > 0 {
		if len(h.leases) > 0 {
			return nil
		}
		b, _ := s.lastTry.pop()
		h.exclusive = true
		s.ready--
		s.held++
		return []*lease{s.grant(worker, h, b, now)}
	}
	var taken []*lease
	for len(taken) < want && len(h.leases) < s.limit(h) {
		b, ok := s.pop()
		if !ok {
			break
		}
		s.ready--
		s.held++
		taken = append(taken, s.grant(worker, h, b, now))
	}
	if s.copies && s.ready == 0 && s.waiting == 0 {
		for len(taken) < want && len(h.leases) < h.slots {
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
	l := &lease{id: s.lastID, block: block, worker: worker, granted: now, place: len(h.leases), heapIndex: -1,
		last: h.exclusive}
	h.leases = append(h.leases, l)
	s.leases[l.id] = l
	b := &s.blocks[block]
	b.phase = held
	if b.holders[0] != nil {
		b.holders[1] = l
		s.unlistSole(b.holders[0])
		return l
	}
	b.holders[0] = l
	if !s.isSuspect(block) {
		heap.Push(&s.soleLeases, l)
	}
	return l
}

// isFull reports whether a worker can't get any of want blocks until one of its leases ends.
func (s *schedule) isFull(worker, want int) bool {
	h := s.holders[worker]
	return h == nil || want < 1 || h.exclusive || h.single && h.served || len(h.leases) >= s.limit(h)
}

// longestHeld returns the block that a single other worker has held for the longest time.
func (s *schedule) longestHeld(worker int) (block int, ok bool) {
	var own []*lease
	for len(s.soleLeases) > 0 && s.soleLeases[0].worker == worker {
		own = append(own, heap.Pop(&s.soleLeases).(*lease))
	}
	if len(s.soleLeases) > 0 {
		block, ok = s.soleLeases[0].block, true
	}
	for _, l := range own {
		heap.Push(&s.soleLeases, l)
	}
	return block, ok
}

func (s *schedule) unlistSole(l *lease) {
	if l.heapIndex >= 0 {
		heap.Remove(&s.soleLeases, l.heapIndex)
	}
}

// removeLease removes a lease and returns the other lease of its block, or nil.
func (s *schedule) removeLease(l *lease) (other *lease) {
	s.unlistSole(l)
	delete(s.leases, l.id)
	h := s.holders[l.worker]
	last := h.leases[len(h.leases)-1]
	h.leases[l.place], last.place = last, l.place
	h.leases[len(h.leases)-1] = nil
	h.leases = h.leases[:len(h.leases)-1]
	h.exclusive = false // an exclusive lease is the only one
	b := &s.blocks[l.block]
	if b.holders[0] == l {
		b.holders[0] = b.holders[1]
	}
	b.holders[1] = nil
	return b.holders[0]
}

// verdict classifies a result.
type verdict uint8

const (
	accept     verdict = iota
	duplicate          // same lease again: the worker did not receive the answer
	superseded         // another worker's result was first
	noLease
	noBlock
)

// classify returns what to do with a result and changes nothing.
func (s *schedule) classify(worker int, id uint64, block int) verdict {
	if block < 0 || block >= len(s.blocks) {
		return noBlock
	}
	b := &s.blocks[block]
	if b.winner == id && b.by == worker && id != 0 {
		return duplicate
	}
	l := s.leases[id]
	switch {
	case l == nil || l.worker != worker || l.block != block:
		return noLease
	case b.phase != held:
		return superseded
	}
	return accept
}

// claim classifies a result and acts on it: accept assigns the block to the lease, superseded ends
// the lease. released reports whether that ended the last lease of a block that is done.
func (s *schedule) claim(worker int, id uint64, block int) (v verdict, released bool) {
	v = s.classify(worker, id, block)
	switch v {
	case accept:
		b := &s.blocks[block]
		b.phase, b.winner, b.by = claimed, id, worker
		s.claims++
		s.holders[worker].served = true
		if other := s.removeLease(s.leases[id]); other != nil {
			s.unlistSole(other)
		}
	case superseded:
		s.given.superseded++
		released = s.returnLease(s.leases[id])
	}
	return v, released
}

// accepted marks a claimed block as done; released reports whether no worker holds it.
func (s *schedule) accepted(block int) (released bool) {
	b := &s.blocks[block]
	if b.phase != claimed {
		panic("worker: a block was accepted that was not claimed")
	}
	b.phase = done
	s.claims--
	s.held--
	s.undone--
	return b.holders[0] == nil
}

// returnLease ends a lease without a result. It does not count as a loss of the block.
func (s *schedule) returnLease(l *lease) (released bool) {
	other := s.removeLease(l)
	b := &s.blocks[l.block]
	switch {
	case b.phase == held && other == nil:
		s.requeue(l.block)
	case b.phase == held && other.heapIndex < 0 && !s.isSuspect(l.block):
		heap.Push(&s.soleLeases, other)
	}
	return b.phase == done && other == nil
}

// isSuspect reports whether a block was lost so often that it is leased at most once more and never
// copied.
func (s *schedule) isSuspect(block int) bool {
	n := len(s.lostWorkers[block])
	return n > 0 && n >= s.reissues
}

// requeue makes a block ready that no worker holds any more.
func (s *schedule) requeue(block int) {
	s.blocks[block].phase = ready
	s.held--
	s.ready++
	if s.isSuspect(block) {
		s.lastTry.push(block)
	} else {
		s.again.push(block)
	}
}

// keepOnly ends all leases of a worker that are not in ids: leases that it never received or has
// dropped. It returns the released blocks and the number of ended leases.
func (s *schedule) keepOnly(worker int, ids []uint64) (released []int, ended int) {
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
		if s.returnLease(l) {
			released = append(released, l.block)
		}
	}
	return released, len(dropped)
}

// drop ends leases of a worker and returns what keepOnly does.
func (s *schedule) drop(worker int, ids []uint64) (released []int, ended int) {
	for _, id := range ids {
		if l := s.leases[id]; l != nil && l.worker == worker {
			ended++
			if s.returnLease(l) {
				released = append(released, l.block)
			}
		}
	}
	return released, ended
}

// loss is the effect of a worker's end.
type loss struct {
	released []int
	again    []int // blocks that are ready again
	// Blocks that were lost too often, oldest lease first; more than one only without reissues.
	tooOften []int
	maxLost  int // the largest number of workers lost with one of its blocks
}

// leave ends a worker. If it was lost, that counts against its blocks: a block on its last try, or
// any block without reissues, is never leased again.
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
			if s.returnLease(l) {
				r.released = append(r.released, l.block)
			}
		default:
			s.lostWorkers[l.block] = append(s.lostWorkers[l.block], worker)
			r.maxLost = max(r.maxLost, len(s.lostWorkers[l.block]))
			if b.holders[1] == nil && (l.last || s.reissues == 0) {
				s.removeLease(l)
				b.phase = waiting
				s.held--
				s.waiting++
				r.tooOften = append(r.tooOften, l.block)
				continue
			}
			s.returnLease(l)
			if b.phase == ready {
				s.given.reissued++
				r.again = append(r.again, l.block)
			}
		}
	}
	delete(s.holders, worker)
	s.slots -= h.slots
	return r
}

// mostLost returns the blocks that were lost with the most workers.
func (s *schedule) mostLost() (blocks []int, losers int) {
	for b, l := range s.lostWorkers {
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

// supersededLeases returns the leases of a worker whose blocks others have finished; news: one of
// them was not returned before.
func (s *schedule) supersededLeases(worker int) (ids []uint64, news bool) {
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

// heldBy returns the blocks that a worker holds.
func (s *schedule) heldBy(worker int) (blocks []int) {
	if h := s.holders[worker]; h != nil {
		for _, l := range h.leases {
			blocks = append(blocks, l.block)
		}
	}
	return blocks
}

// leaseHeap is a heap of leases, the oldest first.
type leaseHeap []*lease

func (a leaseHeap) Len() int { return len(a) }

func (a leaseHeap) Less(i, j int) bool {
	if a[i].granted.Equal(a[j].granted) {
		return a[i].id < a[j].id
	}
	return a[i].granted.Before(a[j].granted)
}

func (a leaseHeap) Swap(i, j int) {
	a[i], a[j] = a[j], a[i]
	a[i].heapIndex, a[j].heapIndex = i, j
}

func (a *leaseHeap) Push(x any) {
	l := x.(*lease)
	l.heapIndex = len(*a)
	*a = append(*a, l)
}

func (a *leaseHeap) Pop() any {
	l := (*a)[len(*a)-1]
	(*a)[len(*a)-1] = nil
	*a = (*a)[:len(*a)-1]
	l.heapIndex = -1
	return l
}

// queue is a FIFO queue of blocks.
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
