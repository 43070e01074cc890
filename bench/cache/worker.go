package cache

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"time"

	"leat/cache"
)

// store is a system within a worker. The first five read entry i, each in its way, and look at it.
type store interface {
	view(i int64, size int) error
	into(i int64, size int) error
	copy(i int64, size int) error
	recycled(i int64, size int) error
	fill(i int64, size int) error
	put(i int64, data []byte) (bool, error)
	get(i int64) ([]byte, error)
	Close() error
}

// begin is the order that says when to begin.
type begin struct{ At int64 }

// work is a worker: it gets a task, warms up, reports that, gets the time to begin, and reports
// what it did.
func work(in io.Reader, out io.Writer) error {
	from, to := json.NewDecoder(in), json.NewEncoder(out)
	var t task
	if err := from.Decode(&t); err != nil {
		return err
	}
	s, err := openStore(t)
	if err != nil {
		return to.Encode(part{Err: err.Error()})
	}
	defer s.Close()
	w := &worker{task: t, store: s}
	if err := w.warmUp(); err != nil {
		return to.Encode(part{Err: err.Error()})
	}
	if err := to.Encode(part{}); err != nil {
		return err
	}
	var b begin
	if err := from.Decode(&b); err != nil {
		return err
	}
	time.Sleep(time.Until(time.Unix(0, b.At)))
	p, err := w.run()
	if err == nil {
		err = w.verify(p.Count)
	}
	if err != nil {
		p.Err = err.Error()
	}
	return to.Encode(p)
}

func openStore(t task) (store, error) {
	if t.System == lockedName {
		l, err := openLocked(t.Where, t.slots())
		return &lockedStore{l: l, buf: make([]byte, t.Size)}, err
	}
	c, err := cache.Attach(cache.Handle(t.Where), nil)
	return &leatStore{c: c, buf: make([]byte, t.Size)}, err
}

type worker struct {
	task
	store store
}

func (w *worker) putting() bool { return w.Op == opPut || w.Op == opMixed && w.Rank == 0 }

// writers is how many processes put.
func (w *worker) writers() int64 {
	if w.Op == opPut {
		return int64(w.Processes)
	}
	return 1
}

// slot is where this process's k-th put goes.
func (w *worker) slot(k int64) int64 {
	return w.Entries + scatter(int64(w.Rank)+k*w.writers(), w.Fresh)
}

// warmUp reads all entries: after it they are in this process's mapping, and verified.
func (w *worker) warmUp() error {
	for i := range w.Entries {
		if err := w.store.copy(i, w.Size); err != nil {
			return err
		}
	}
	return nil
}

func (w *worker) run() (p part, err error) {
	one, batch, limit := w.reader(), 16, int64(1)<<62
	if w.putting() {
		one, batch, limit = w.writer(), 1, w.Limit/w.writers()
	}
	from := time.Now()
	now := from
	for now.Sub(from) < w.For && p.Count < limit {
		for range batch {
			if err := one(); err != nil {
				return p, err
			}
		}
		p.Count += int64(batch)
		now = time.Now()
	}
	p.Begin, p.End = from.UnixNano(), now.UnixNano()
	return p, nil
}

func (w *worker) reader() func() error {
	get := map[string]func(int64, int) error{opView: w.store.view, opInto: w.store.into, opCopy: w.store.copy,
		opRecycled: w.store.recycled, opMixed: w.store.copy, opFill: w.store.fill}[w.Op]
	r := rand.New(rand.NewPCG(uint64(w.Rank), 1))
	return func() error { return get(r.Int64N(w.Entries), w.Size) }
}

func (w *worker) writer() func() error {
	data, k := blank(w.Size), int64(0)
	return func() error {
		i := w.slot(k)
		k++
		mark(data, i)
		stored, err := w.store.put(i, data)
		if err == nil && !stored {
			err = fmt.Errorf("entry %d was not stored", i)
		}
		return err
	}
}

// verify reads entries back that this process put, all of their bytes.
func (w *worker) verify(count int64) error {
	if !w.putting() {
		return nil
	}
	want := blank(w.Size)
	for k := int64(0); k < count; k += max(1, count/100) {
		i := w.slot(k)
		mark(want, i)
		got, err := w.store.get(i)
		if err != nil {
			return err
		}
		if string(got) != string(want) {
			return fmt.Errorf("entry %d is not what was put", i)
		}
	}
	return nil
}

type leatStore struct {
	c   *cache.Cache
	buf []byte
}

func (s *leatStore) view(i int64, size int) error {
	return s.c.View(i, func(b []byte) error { return touch(b, size, i) })
}

func (s *leatStore) copy(i int64, size int) error {
	b, err := s.c.Get(i)
	if err != nil {
		return err
	}
	return check(b, size, i)
}

func (s *leatStore) recycled(i int64, size int) error {
	b, err := s.c.Get(i)
	if err != nil {
		return err
	}
	defer s.c.Recycle(b)
	return check(b, size, i)
}

func (s *leatStore) into(i int64, size int) error {
	if err := s.c.View(i, func(b []byte) error {
		s.buf = append(s.buf[:0], b...)
		return nil
	}); err != nil {
		return err
	}
	return check(s.buf, size, i)
}

var errFill = errors.New("an entry that is there was to be filled")

func (s *leatStore) fill(i int64, size int) error {
	b, err := s.c.GetOrFill(context.Background(), i, func(context.Context) ([]byte, error) { return nil, errFill })
	if err != nil {
		return err
	}
	return check(b, size, i)
}

func (s *leatStore) put(i int64, data []byte) (bool, error) { return s.c.Put(i, data) }
func (s *leatStore) get(i int64) ([]byte, error)            { return s.c.Get(i) }
func (s *leatStore) Close() error                           { return s.c.Close() }

type lockedStore struct {
	l   *locked
	buf []byte
}

// view is into: what may be replaced as soon as the lock is gone can't be looked at without a copy.
func (s *lockedStore) view(i int64, size int) error { return s.into(i, size) }

func (s *lockedStore) into(i int64, size int) error {
	b, err := s.l.get(i, s.buf)
	if err != nil {
		return err
	}
	return check(b, size, i)
}

func (s *lockedStore) copy(i int64, size int) error {
	b, err := s.l.get(i, nil)
	if err != nil {
		return err
	}
	return check(b, size, i)
}

func (s *lockedStore) recycled(i int64, size int) error       { return s.into(i, size) }
func (s *lockedStore) fill(i int64, size int) error           { return s.copy(i, size) }
func (s *lockedStore) put(i int64, data []byte) (bool, error) { return s.l.put(i, data, true) }
func (s *lockedStore) get(i int64) ([]byte, error)            { return s.l.get(i, nil) }
func (s *lockedStore) Close() error                           { return s.l.Close() }
