package stage

import (
	"leat/objstore"
	"leat/stage/internal/ledger"
)

// state is where an item is on its way.
type state int

const (
	idle    state = iota // nothing was tried, or not queued: it is read when it is asked for
	queued               // waits for a worker
	running              // being looked up or copied by this process
	parked               // waits for room
	away                 // being copied by another process
	staged               // its entry is pinned
	through              // being read directly, for those who wait
	failed               // err says why; the next request tries again
)

// item is an object that this pool has to do with, as long as a Lazy or Reader refers to it or something is under way. The pool's mu guards it.
type item struct {
	p        *Pool
	src      Source
	name, id string
	key      ledger.Key
	file     bool          // it is to be a file of its own
	staged   *ledger.Entry // its bytes are this one's, which lies with others in a file; nil: they are the source's
	drop     bool          // it is removed at its last release, whatever the pool's Keep
	refs     int
	wanted   int // callers that wait for it
	state    state
	ticket   uint64        // of its place in the queue
	change   chan struct{} // closed when the state changes; nil if nobody waits
	entry    *ledger.Entry // when staged
	shared   bool          // it was copied by another process while this one waited
	waited   bool          // it had to wait for room
	size     int64         // as far as known from an attempt before; 0: not
	cancel   func()        // of the copy that runs
	direct   *direct       // what was read through last, for those who waited for it
	throughs int           // how often that was
	err      error         // of the last attempt; idle: what failed of the directory, so that it could not be staged
	failures int           // so far: those who waited before one get its error
}

// setState moves an item on and wakes who waits for it.
func (p *Pool) setState(it *item, s state, err error) {
	was := it.state.underWay()
	if it.state == queued {
		p.queue.length--
	}
	if s == queued {
		p.queue.length++
	}
	it.state, it.err = s, err
	if s == failed {
		it.failures++
	}
	switch now := s.underWay(); {
	case now && !was:
		p.busy++
	case was && !now:
		if p.busy--; p.busy == 0 && p.idle != nil {
			close(p.idle)
			p.idle = nil
		}
	}
	if it.change != nil {
		close(it.change)
		it.change = nil
	}
	if it.refs == 0 && !s.underWay() {
		p.forget(it)
	}
}

func (s state) underWay() bool {
	return s == queued || s == running || s == parked || s == away || s == through
}

// changed is closed when the item's state changes.
func (it *item) changed() <-chan struct{} {
	if it.change == nil {
		it.change = make(chan struct{})
	}
	return it.change
}

// release ends one reference to an item.
func (p *Pool) release(it *item) {
	if !p.enter() {
		return
	}
	defer p.leave()
	p.mu.Lock()
	it.refs--
	if it.refs > 0 || p.stopping { // Close gives back all that there is
		p.mu.Unlock()
		return
	}
	switch it.state {
	case queued, parked, away:
		delete(p.away, it)
		p.setState(it, idle, nil) // the queue and the parked pass over what is not theirs any more
	case running:
		if it.cancel != nil && (p.o.Keep == Drop || it.drop) {
			it.cancel()
		}
	case through:
		it.cancel()
	default:
		p.forget(it)
	}
	e, drop := it.entry, it.drop || p.o.Keep == Drop
	it.entry = nil
	p.mu.Unlock()
	if e != nil {
		p.giveUp(e, drop)
		p.wakeHelper()
	}
}

// forget removes an item that nobody refers to and nothing is under way for.
func (p *Pool) forget(it *item) {
	if p.items[it.key] == it {
		delete(p.items, it.key)
	}
}

// giveUp ends the use of a staged object. The caller keeps the pool from being closed.
func (p *Pool) giveUp(e *ledger.Entry, drop bool) {
	if !drop {
		e.Unpin()
		return
	}
	if gone, err := e.Drop(); err != nil {
		p.o.Warn(err)
	} else if gone {
		p.count(countEvicted, 1)
	}
}

// match is the version of a staged object, for reading more of it from its source.
func match(e *ledger.Entry) *objstore.Info {
	return &objstore.Info{Size: e.Size, ETag: e.ETag, ModTime: e.Modified}
}
