package stage

import (
	"leat/objstore"
	"leat/stage/internal/index"
)

// state is how far an item has come.
type state int

const (
	idle            state = iota // not queued, or can't be staged: it is read on request
	queued                       // waits for a worker
	running                      // being found or copied by this process
	waitingForSpace              // waits for space
	copiedElsewhere              // being copied by another process
	staged                       // its entry is pinned
	directRead                   // being read without being staged
	failed                       // err is the reason; the next request tries again
)

// item is an object that this pool uses: it exists while a Ref or Reader refers to it or while work
// on it is in progress. The pool's mu guards it.
type item struct {
	p           *Pool
	src         Source
	name, id    string
	key         index.Key
	file        bool           // store it as a file of its own
	staged      *index.Entry   // copy the bytes from this packed entry; nil: from the source
	drop        bool           // remove it at its last release, whatever Options.Keep is
	known       *objstore.Info // version that the caller has read from the source; nil: none
	refs        int
	wanted      int // callers that wait for it now
	state       state
	ticket      uint64        // of its position in the queue
	change      chan struct{} // closed when state or unfinished changes; nil if nobody waits
	entry       *index.Entry  // when staged
	unfinished  *unfinished   // its copy in progress, if received bytes can be read
	shared      bool          // another process copied it while this one waited
	waited      bool          // it has waited for space
	size        int64         // as known from an earlier attempt; 0: unknown
	cancel      func()        // cancels the copy or the direct read in progress
	direct      *direct       // result of the last direct read, for its waiters
	directReads int           // completed direct reads
	err         error         // of the last attempt; if idle: the failure of the directory that prevents staging
	failures    int           // failed attempts; callers that waited before one get its error
}

// setState changes the state of an item and wakes its waiters. mu is held.
func (p *Pool) setState(it *item, s state, err error) {
	was := it.state.inProgress()
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
	switch now := s.inProgress(); {
	case now && !was:
		p.busy++
	case was && !now:
		if p.busy--; p.busy == 0 && p.idle != nil {
			close(p.idle)
			p.idle = nil
		}
	}
	it.wake()
	if it.refs == 0 && !s.inProgress() {
		p.forget(it)
	}
}

func (s state) inProgress() bool {
	return s == queued || s == running || s == waitingForSpace || s == copiedElsewhere || s == directRead
}

// changed returns a channel that is closed when the item's state changes or its copy can be read.
func (it *item) changed() <-chan struct{} {
	if it.change == nil {
		it.change = make(chan struct{})
	}
	return it.change
}

// wake wakes those who wait for a change. mu is held.
func (it *item) wake() {
	if it.change != nil {
		close(it.change)
		it.change = nil
	}
}

// release ends one reference to an item.
func (p *Pool) release(it *item) {
	if !p.enter() {
		return
	}
	defer p.leave()
	p.mu.Lock()
	it.refs--
	if it.refs > 0 || p.stopping { // Close releases everything
		p.mu.Unlock()
		return
	}
	switch it.state {
	case queued, waitingForSpace, copiedElsewhere:
		delete(p.elsewhere, it)
		p.setState(it, idle, nil) // the queue and the waiting list skip items in another state
	case running:
		if it.cancel != nil && (p.o.Keep == Drop || it.drop) {
			it.cancel()
		}
	case directRead:
		it.cancel()
	default:
		p.forget(it)
	}
	e, drop := it.entry, it.drop || p.o.Keep == Drop
	it.entry = nil
	p.mu.Unlock()
	if e != nil {
		p.unuse(e, drop)
		p.wakeJanitor()
	}
}

// forget removes an item without references or work in progress.
func (p *Pool) forget(it *item) {
	if p.items[it.key] == it {
		delete(p.items, it.key)
	}
}

// unuse unpins a staged object and removes it if drop is set. The caller has entered the pool.
func (p *Pool) unuse(e *index.Entry, drop bool) {
	if !drop {
		e.Unpin()
		return
	}
	if gone, err := e.Drop(); err != nil {
		p.o.Logger.Warn("removing staged object failed", "object", e.Name, "error", err)
	} else if gone {
		p.count(countEvicted, 1)
	}
}

// infoOf returns the version of a staged object, to read more of it from its source.
func infoOf(e *index.Entry) *objstore.Info {
	m := &objstore.Info{Size: e.Size, ETag: e.ETag, ModTime: e.Modified}
	m.AmbiguousVersion = versionOf(*m) != e.Version
	return m
}
