package cache

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"time"

	"leat/cache"
)

// What processes do in a measurement.
const (
	opView = "view" // read entries in random order without a copy, and look at one byte
	opInto = "into" // copy them into the same memory again and again, and look at their words
	opCopy = "copy" // copy them into new memory, and look at their words
	opFill = "fill" // the same, by GetOrFill
	// the same, and the memory is recycled
	opRecycled = "recycled"
	opPut      = "put"   // put new entries, each process its own, in scattered slots
	opMixed    = "mixed" // the first process puts, the others copy
)

// task is one measurement.
type task struct {
	System    string
	Op        string
	Size      int   // bytes of an entry, a multiple of 8
	Entries   int64 // that are there before: slots 0 to Entries-1
	Fresh     int64 // slots after them, a power of two, to be put into; 0: none
	Limit     int64 // most puts, of all processes together
	Processes int
	For       time.Duration

	Rank  int
	Where string // path or handle
}

func (t task) slots() int64 { return t.Entries + t.Fresh }

// part is what one process did. Times are nanoseconds of the clock.
type part struct {
	Count      int64
	Begin, End int64
	Err        string `json:",omitempty"`
}

// place is where a system has its entries. drop removes them.
type place struct {
	path string
	drop func() error
}

// system is leat or a peer.
type system interface {
	name() string
	// open makes an empty cache of n slots and returns how long it took.
	open(dir string, n int64) (time.Duration, error)
	// make makes one with the entries of a task.
	make(dir string, t task) (place, error)
	// measure has processes do a task.
	measure(ctx context.Context, t task, where place) ([]part, error)
}

const (
	leatName   = "leat"
	lockedName = "lock per operation"
)

// leatSystem is package cache, with its defaults.
type leatSystem struct{}

func (leatSystem) name() string { return leatName }

func (leatSystem) open(dir string, n int64) (time.Duration, error) {
	begin := time.Now()
	c, err := cache.Create(n, &cache.Options{Dir: dir})
	if err != nil {
		return 0, err
	}
	return time.Since(begin), c.Close()
}

func (leatSystem) make(dir string, t task) (w place, err error) {
	c, err := cache.Create(t.slots(), &cache.Options{Dir: dir})
	if err != nil {
		return w, err
	}
	b := blank(t.Size)
	for i := range t.Entries {
		mark(b, i)
		if ok, err := c.Put(i, b); err != nil || !ok {
			return w, errors.Join(errors.New("leat: an entry was not stored"), err, c.Close())
		}
	}
	h, err := c.Handle()
	return place{path: string(h), drop: c.Close}, err
}

func (leatSystem) measure(ctx context.Context, t task, where place) ([]part, error) {
	t.System, t.Where = leatName, where.path
	return measure(ctx, t)
}

// lockedSystem is the variant with locks.
type lockedSystem struct{}

func (lockedSystem) name() string { return lockedName }

func (lockedSystem) open(dir string, n int64) (took time.Duration, err error) {
	path := filepath.Join(dir, "opened")
	begin := time.Now()
	l, err := makeLocked(path, n)
	if err != nil {
		return 0, err
	}
	took = time.Since(begin)
	return took, errors.Join(l.Close(), os.Remove(path))
}

func (lockedSystem) make(dir string, t task) (w place, err error) {
	path := filepath.Join(dir, "locked")
	l, err := makeLocked(path, t.slots())
	if err != nil {
		return w, err
	}
	b := blank(t.Size)
	for i := range t.Entries {
		mark(b, i)
		if ok, err := l.put(i, b, false); err != nil || !ok {
			return w, errors.Join(errors.New("locked: an entry was not stored"), err, l.Close())
		}
	}
	err = l.f.Sync() // or the first measured put pays for it
	return place{path: path, drop: func() error { return os.Remove(path) }}, errors.Join(err, l.Close())
}

func (lockedSystem) measure(ctx context.Context, t task, where place) ([]part, error) {
	t.System, t.Where = lockedName, where.path
	return measure(ctx, t)
}
