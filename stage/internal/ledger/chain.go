//go:build unix

package ledger

import (
	"sync/atomic"

	"leat/internal/lease"
)

// bucket is the number of the first record of a chain.
type bucket = atomic.Uint32

// longest is how many records of a chain are looked at: a reader that stood on a record while it was given to another chain must come to an end.
const longest = 1 << 16

// search finds the valid record of a key. Without the bucket's lock it may miss one, when a record of the chain goes meanwhile; what it finds must be
// pinned and compared again.
func (l *Ledger) search(k Key) (uint32, *record) {
	i := l.bucket(k.bucket()).Load()
	for range longest {
		if i == 0 {
			break
		}
		r := l.record(i)
		if r == nil {
			break
		}
		switch state := byte(r.seq.Load()); {
		case state == stateValid && r.key == k:
			return i, r
		case state == stateFree, state == stateMore, r.key.bucket() != k.bucket():
			return 0, nil // it was in this chain a moment ago
		}
		i = r.next.Load()
	}
	return 0, nil
}

// link puts a record first into the chain of its bucket, which must be locked.
func (l *Ledger) link(i uint32, r *record) {
	b := l.bucket(r.key.bucket())
	r.next.Store(b.Load())
	b.Store(i)
}

// unlink takes a record out of the chain of its bucket, which must be locked. One that is not there stays where it is.
func (l *Ledger) unlink(i uint32, r *record) {
	from := l.bucket(r.key.bucket())
	for range longest {
		j := from.Load()
		if j == 0 {
			return
		}
		if j == i {
			from.Store(r.next.Load())
			return
		}
		m := l.record(j)
		if m == nil {
			return
		}
		from = &m.next
	}
}

// lockBucket keeps all others, in all processes, from changing the chain of a bucket.
func (l *Ledger) lockBucket(n uint32) (unlock func(), err error) {
	mu := &l.bucketMu[n%uint32(len(l.bucketMu))]
	mu.Lock()
	if err := l.wait(lease.Write, int64(n)); err != nil {
		mu.Unlock()
		return nil, err
	}
	return func() {
		_, _ = l.locks.Try(lease.Free, int64(n), 1)
		mu.Unlock()
	}, nil
}

// LockKey takes the right to copy or evict the object of a key, in all processes; it does not wait. It ends with the process at the latest.
func (l *Ledger) LockKey(k Key) (unlock func(), ok bool, err error) {
	l.keysMu.Lock()
	defer l.keysMu.Unlock()
	n := k.lock()
	if _, taken := l.keys[n]; taken {
		return nil, false, nil
	}
	if ok, err := l.locks.Try(lease.Write, n, 1); !ok || err != nil {
		return nil, false, err
	}
	l.keys[n] = struct{}{}
	return func() {
		l.keysMu.Lock()
		defer l.keysMu.Unlock()
		delete(l.keys, n)
		_, _ = l.locks.Try(lease.Free, n, 1)
	}, true, nil
}

// Busy reports whether another process copies or evicts the object of a key.
func (l *Ledger) Busy(k Key) bool {
	mode, err := l.locks.Probe(k.lock(), 1)
	return err == nil && mode != lease.Free
}
