package coordinator

import (
	"flag"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// model is a simple schedule that searches all its blocks in each operation.
type model struct {
	blocks   []modelBlock
	workers  map[int]*modelWorker
	queue    []int // blocks of lost workers
	lastTry  []int // those of them on their last try
	offers   []int
	onDemand bool
	copies   bool
	reissues int
	expected int // workers
	now      int
}

type modelBlock struct {
	phase  phase
	held   map[uint64]modelLease
	winner uint64
	lost   int
	gone   bool // lost too often
	given  bool
}

type modelLease struct {
	worker int
	last   bool
}

type modelWorker struct {
	slots  int
	most   int // blocks that it may hold
	single bool
	served bool
	alone  bool // with a block on its last try
}

func (m *model) holds(worker int) (ids []uint64) {
	for _, b := range m.blocks {
		for id, l := range b.held {
			if l.worker == worker {
				ids = append(ids, id)
			}
		}
	}
	slices.Sort(ids)
	return ids
}

func (m *model) blockOf(id uint64) int {
	return slices.IndexFunc(m.blocks, func(b modelBlock) bool { _, ok := b.held[id]; return ok })
}

// next returns the block that a worker is given next: the first ready one, else a copy.
func (m *model) next(worker int) (block int, isCopy, ok bool) {
	w := m.workers[worker]
	n := len(m.holds(worker))
	limit := w.slots + 1
	if m.ahead(w) {
		limit = w.most
	}
	if w.single {
		limit = 1
		if w.served {
			return
		}
	}
	if n >= limit || w.alone {
		return
	}
	if len(m.lastTry) > 0 {
		return m.lastTry[0], false, n == 0
	}
	for _, b := range m.queue {
		return b, false, true
	}
	if m.onDemand {
		for _, b := range m.offers {
			return b, false, true
		}
	} else {
		for b, s := range m.blocks {
			if s.phase == ready && !s.given {
				return b, false, true
			}
		}
	}
	if !m.copies || n >= w.slots {
		return
	}
	for _, b := range m.blocks {
		if b.phase == waiting {
			return
		}
	}
	oldest, best := -1, uint64(0)
	for b, s := range m.blocks {
		if s.phase != held || len(s.held) != 1 {
			continue
		}
		for id, l := range s.held {
			if (s.lost == 0 || s.lost < m.reissues) && l.worker != worker && (oldest < 0 || id < best) {
				oldest, best = b, id // lease numbers increase with time
			}
		}
	}
	return oldest, true, oldest >= 0
}

// ahead reports whether a worker may hold as many blocks as it can.
func (m *model) ahead(w *modelWorker) bool {
	others, left := 0, len(m.lastTry)
	for _, o := range m.workers {
		if o != w {
			others += o.slots
		}
	}
	for b, s := range m.blocks {
		if s.phase == ready && !slices.Contains(m.lastTry, b) {
			left++
		}
	}
	return len(m.queue) == 0 && left > max(others, (m.expected-1)*w.slots)
}

func (m *model) give(block, worker int, id uint64) {
	b := &m.blocks[block]
	b.phase, b.given = held, true
	last := slices.Contains(m.lastTry, block)
	b.held[id] = modelLease{worker: worker, last: last}
	m.workers[worker].alone = last
	m.lastTry = slices.DeleteFunc(m.lastTry, func(x int) bool { return x == block })
	m.queue = slices.DeleteFunc(m.queue, func(x int) bool { return x == block })
	m.offers = slices.DeleteFunc(m.offers, func(x int) bool { return x == block })
}

func (m *model) leaseEnds(b *modelBlock, id uint64) {
	if w := m.workers[b.held[id].worker]; w != nil {
		w.alone = false
	}
	delete(b.held, id)
}

// end ends a lease and reports whether that released the block.
func (m *model) end(id uint64) (released bool) {
	n := m.blockOf(id)
	b := &m.blocks[n]
	m.leaseEnds(b, id)
	if b.phase == held && len(b.held) == 0 {
		b.phase = ready
		if b.lost > 0 && b.lost >= m.reissues {
			m.lastTry = append(m.lastTry, n)
		} else {
			m.queue = append(m.queue, n)
		}
	}
	return b.phase == done && len(b.held) == 0
}

func TestScheduleAgainstModel(t *testing.T) {
	steps := flag.Lookup("rapid.steps")
	was := steps.Value.String()
	defer func() { _ = steps.Value.Set(was) }()
	if err := steps.Value.Set("150"); err != nil { // with fewer steps, hardly any block has two holders
		t.Fatal(err)
	}
	rapid.Check(t, func(t *rapid.T) {
		blocks := rapid.IntRange(0, 7).Draw(t, "blocks")
		m := &model{
			blocks: make([]modelBlock, blocks), workers: map[int]*modelWorker{},
			onDemand: rapid.Bool().Draw(t, "on demand"), copies: rapid.IntRange(0, 3).Draw(t, "copies") > 0,
			reissues: rapid.IntRange(0, 5).Draw(t, "reissues"),
			expected: rapid.IntRange(1, 3).Draw(t, "expected"),
		}
		was := rapid.SliceOfN(rapid.Bool(), blocks, blocks).Draw(t, "done before")
		s := newSchedule(blocks, func(b int) bool { return was[b] }, m.onDemand, m.copies, m.reissues,
			m.expected)
		for b := range m.blocks {
			m.blocks[b].held = map[uint64]modelLease{}
			switch {
			case was[b]:
				m.blocks[b].phase = done
			case !m.onDemand:
				m.blocks[b].phase = ready
			}
		}
		joined := 0
		single := rapid.Bool().Draw(t, "single")
		worker := func() int {
			if joined == 0 {
				t.Skip("nobody")
			}
			return rapid.IntRange(0, joined-1).Draw(t, "worker")
		}
		ids := func(worker int) []uint64 {
			// Leases of other workers and unknown leases are tried too.
			all := slices.Sorted(maps.Keys(s.leases))
			return rapid.SliceOfDistinct(rapid.SampledFrom(append(all, 0, 1, 99999)), rapid.ID[uint64]).Draw(t,
				"leases")
		}
		t.Repeat(map[string]func(*rapid.T){
			"join": func(t *rapid.T) {
				slots := rapid.IntRange(1, 3).Draw(t, "slots")
				if single {
					slots = 1
				}
				most := slots + rapid.IntRange(1, 3).Draw(t, "ahead")
				s.join(joined, slots, most, single)
				m.workers[joined] = &modelWorker{slots: slots, most: most, single: single}
				joined++
			},
			"offer": func(t *rapid.T) {
				if !m.onDemand || blocks == 0 {
					t.Skip("all are offered")
				}
				b := rapid.IntRange(0, blocks-1).Draw(t, "block")
				if m.blocks[b].gone {
					t.Skip("the run has failed")
				}
				want := m.blocks[b].phase == waiting
				if got := s.offer(b); got != want {
					t.Fatalf("offer of block %d: %v", b, got)
				}
				if want {
					m.blocks[b].phase = ready
					m.offers = append(m.offers, b)
				}
			},
			"take": func(t *rapid.T) {
				w := worker()
				want := rapid.IntRange(0, 5).Draw(t, "want")
				m.now++
				got := s.take(w, want, time.Unix(int64(m.now), 0))
				for i := 0; ; i++ {
					var block int
					var isCopy, ok bool
					if m.workers[w] != nil && i < want {
						block, isCopy, ok = m.next(w)
					}
					if !ok {
						if len(got) != i {
							t.Fatalf("%d leases, expected %d", len(got), i)
						}
						break
					}
					if i >= len(got) {
						t.Fatalf("only %d leases, expected block %d (copy: %v) next", len(got), block, isCopy)
					}
					if got[i].block != block || got[i].worker != w {
						t.Fatalf("lease %d is of block %d, expected %d (copy: %v)", got[i].id, got[i].block, block, isCopy)
					}
					m.give(block, w, got[i].id)
				}
			},
			"claim": func(t *rapid.T) {
				w := worker()
				block := rapid.IntRange(-1, blocks).Draw(t, "block")
				id := rapid.SampledFrom(append(slices.Sorted(maps.Keys(s.leases)), 0, 99999)).Draw(t, "lease")
				if n := m.blockOf(id); n >= 0 && rapid.IntRange(0, 3).Draw(t, "right") > 0 {
					block, w = n, m.blocks[n].held[id].worker
				}
				want := noLease
				if block < 0 || block >= blocks {
					want = noBlock
				} else if b := &m.blocks[block]; b.winner == id && id != 0 {
					want = duplicate
				} else if l, ok := b.held[id]; ok && l.worker == w {
					if want = accept; b.phase != held {
						want = superseded
					}
				}
				got, released := s.claim(w, id, block)
				if got != want {
					t.Fatalf("verdict %d, expected %d", got, want)
				}
				wantReleased := false
				switch want {
				case accept:
					b := &m.blocks[block]
					b.phase, b.winner = claimed, id
					m.leaseEnds(b, id)
					m.workers[w].served = true
				case superseded:
					wantReleased = m.end(id)
				}
				if released != wantReleased {
					t.Fatalf("released: %v", released)
				}
			},
			"accepted": func(t *rapid.T) {
				var all []int
				for b, x := range m.blocks {
					if x.phase == claimed {
						all = append(all, b)
					}
				}
				if len(all) == 0 {
					t.Skip("none is claimed")
				}
				b := rapid.SampledFrom(all).Draw(t, "block")
				m.blocks[b].phase = done
				if got, want := s.accepted(b), len(m.blocks[b].held) == 0; got != want {
					t.Fatalf("released: %v", got)
				}
			},
			"keep": func(t *rapid.T) {
				w := worker()
				keep := ids(w)
				var want []int
				ended := 0
				for _, id := range m.holds(w) {
					if !slices.Contains(keep, id) {
						ended++
						// The order in which several blocks are requeued is that of the leases'
						// places, which the model does not have.
						b := m.blockOf(id)
						if m.end(id) {
							want = append(want, b)
						}
					}
				}
				got, n := s.keepOnly(w, keep)
				same(t, "released", got, want)
				if n != ended {
					t.Fatalf("%d leases ended, expected %d", n, ended)
				}
				m.queue = slices.Clone(s.again.blocks[s.again.head:])
				m.lastTry = slices.Clone(s.lastTry.blocks[s.lastTry.head:])
			},
			"drop": func(t *rapid.T) {
				w := worker()
				drop := ids(w)
				var want []int
				for _, id := range drop {
					if b := m.blockOf(id); b >= 0 && m.blocks[b].held[id].worker == w && m.end(id) {
						want = append(want, b)
					}
				}
				got, _ := s.drop(w, drop)
				same(t, "released", got, want)
			},
			"leave": func(t *rapid.T) {
				w := worker()
				lost := rapid.Bool().Draw(t, "lost")
				var want loss
				for _, id := range m.holds(w) {
					n := m.blockOf(id)
					b := &m.blocks[n]
					wasHeld := b.phase == held
					if wasHeld && lost {
						b.lost++
						if len(b.held) == 1 && (b.held[id].last || m.reissues == 0) {
							if m.reissues > 0 && len(m.holds(w)) != 1 {
								t.Fatalf("block %d is named, and its worker had blocks %v", n, s.heldBy(w))
							}
							m.leaseEnds(b, id)
							b.phase, b.gone = waiting, true
							want.tooOften = append(want.tooOften, n)
							continue
						}
					}
					if m.end(id) {
						want.released = append(want.released, n)
					}
					if wasHeld && lost && b.phase == ready {
						want.again = append(want.again, n)
					}
				}
				delete(m.workers, w)
				got := s.leave(w, lost)
				same(t, "released", got.released, want.released)
				same(t, "again", got.again, want.again)
				same(t, "too often", got.tooOften, want.tooOften)
				m.queue = slices.Clone(s.again.blocks[s.again.head:])
				m.lastTry = slices.Clone(s.lastTry.blocks[s.lastTry.head:])
			},
			"": func(t *rapid.T) { m.compare(t, s) },
		})
	})
}

func same(t *rapid.T, what string, got, want []int) {
	t.Helper()
	got, want = slices.Clone(got), slices.Clone(want)
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Fatalf("%s: %v, expected %v", what, got, want)
	}
}

// compare compares the state of a schedule with that of the model.
func (m *model) compare(t *rapid.T, s *schedule) {
	var w, r, h, c, u, leases int
	queued := append(slices.Clone(s.again.blocks[s.again.head:]), s.lastTry.blocks[s.lastTry.head:]...)
	if len(m.lastTry) != s.lastTry.len() {
		t.Fatalf("blocks %v wait for their last try, expected %v", s.lastTry.blocks[s.lastTry.head:], m.lastTry)
	}
	for b, x := range m.blocks {
		got := s.blocks[b]
		if got.phase != x.phase || got.winner != x.winner {
			t.Fatalf("block %d is %d (lease %d), expected %d (%d)", b, got.phase, got.winner, x.phase, x.winner)
		}
		leases += len(x.held)
		if len(x.held) > 2 {
			t.Fatalf("block %d has %d holders", b, len(x.held))
		}
		holders := map[int]bool{}
		for id, l := range x.held {
			if got := s.leases[id]; got == nil || got.block != b || got.worker != l.worker {
				t.Fatalf("lease %d of block %d: %+v", id, b, got)
			}
			if holders[l.worker] {
				t.Fatalf("worker %d has block %d twice", l.worker, b)
			}
			holders[l.worker] = true
		}
		switch x.phase {
		case waiting:
			w++
		case ready:
			r++
		case claimed:
			c++
			h++
		case held:
			h++
		}
		if x.phase != done {
			u++
		}
		if x.phase != ready && slices.Contains(queued, b) {
			t.Fatalf("block %d is queued, and is not ready", b)
		}
	}
	if got, want := fmt.Sprint(s.waiting, s.ready, s.held, s.claims, s.undone, len(s.leases)),
		fmt.Sprint(w, r, h, c, u, leases); got != want {
		t.Fatalf("waiting, ready, held, claimed, undone, leases: %s, expected %s", got, want)
	}
	for worker := range m.workers {
		var blocks []int
		for _, id := range m.holds(worker) {
			blocks = append(blocks, m.blockOf(id))
		}
		same(t, "blocks of a worker", s.heldBy(worker), blocks)
	}
}

// One block or several kill each worker that begins them. The workers also hold or read other
// blocks, which must not be named.
func TestOnlyFatalBlockIsBlamed(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		blocks := rapid.IntRange(1, 20).Draw(t, "blocks")
		deadly := rapid.SliceOfNDistinct(rapid.IntRange(0, blocks-1), 1, 4, rapid.ID[int]).Draw(t, "deadly")
		ahead := rapid.IntRange(1, 4).Draw(t, "ahead")
		slots, reissues := rapid.IntRange(1, 3).Draw(t, "slots"), rapid.IntRange(1, 3).Draw(t, "reissues")
		s := newSchedule(blocks, nil, false, rapid.Bool().Draw(t, "copies"), reissues, 3)
		workers := []int{}
		for joined, step := 0, 0; ; step++ {
			for len(workers) < 3 {
				s.join(joined, slots, slots+ahead, false)
				workers = append(workers, joined)
				joined++
			}
			i := rapid.IntRange(0, len(workers)-1).Draw(t, "worker")
			w := workers[i]
			s.take(w, rapid.IntRange(1, slots+ahead).Draw(t, "want"), time.Unix(int64(step), 0))
			h := s.holders[w]
			if len(h.leases) == 0 {
				continue
			}
			// It begins one of its blocks.
			l := rapid.SampledFrom(h.leases).Draw(t, "begins")
			if !slices.Contains(deadly, l.block) {
				if v, _ := s.claim(w, l.id, l.block); v == accept {
					s.accepted(l.block)
				}
				continue
			}
			workers = slices.Delete(workers, i, i+1)
			if blamed := s.leave(w, true).tooOften; len(blamed) > 0 {
				if len(blamed) > 1 || !slices.Contains(deadly, blamed[0]) {
					t.Fatalf("blocks %v are named; %v are deadly", blamed, deadly)
				}
				return
			}
			if joined > 3+len(deadly)*(reissues+2)*2+blocks {
				t.Fatalf("%d workers were lost, and no block is named", joined)
			}
		}
	})
}
