//go:build unix

package index

import (
	"context"
	"sync/atomic"

	"leat/internal/lockfile"
)

// bucket is the number of the first record of a chain.
type bucket = atomic.Uint32

// maxChain limits how many records of a chain are visited. Without it, a reader whose record moved
// to another chain might never stop.
const maxChain = 1 << 16

// search finds the valid record of a key. Without the bucket's lock it may miss one while another
// record of the chain is removed; the caller must pin the result and check it again. certain
// reports that it missed none that was there during the whole search. The error is that of mapped.
func (l *Index) search(k Key) (i uint32, r *record, certain bool, err error) {
	i = l.bucket(k.bucket()).Load()
	certain = true
	for range maxChain {
		if i == 0 {
			return 0, nil, certain, nil
		}
		r, err := l.mapped(i)
		if err != nil {
			return 0, nil, false, err
		}
		if r == nil {
			break
		}
		seq := r.seq.Load()
		switch state := byte(seq); {
		case state == stateValid && r.key == k:
			return i, r, true, nil
		case state == stateFree, state == stateMore, r.bucket() != k.bucket():
			return 0, nil, false, nil // it has just left this chain
		}
		i = r.next.Load()
		// A record that left the chain may have got another next meanwhile.
		certain = certain && r.seq.Load() == seq
	}
	return 0, nil, false, nil
}

// mapChain maps the records of the chain of a bucket, which must be locked: no search of it fails
// from then on.
func (l *Index) mapChain(n uint32) error {
	i := l.bucket(n).Load()
	for range maxChain {
		if i == 0 {
			break
		}
		r, err := l.mapped(i)
		if r == nil {
			return err
		}
		i = r.next.Load()
	}
	return nil
}

// link inserts a record at the head of the chain of its bucket, which must be locked.
func (l *Index) link(i uint32, r *record) {
	b := l.bucket(r.bucket())
	r.next.Store(b.Load())
	b.Store(i)
}

// unlink removes a record from the chain of its bucket, which must be locked. It does nothing if
// the record is not there. The error is that of mapped.
func (l *Index) unlink(i uint32, r *record) error {
	from := l.bucket(r.bucket())
	for range maxChain {
		j := from.Load()
		if j == 0 {
			return nil
		}
		if j == i {
			from.Store(r.next.Load())
			return nil
		}
		m, err := l.mapped(j)
		if m == nil {
			return err
		}
		from = &m.next
	}
	return nil
}

// lockBucket excludes other goroutines and processes from changing the chain of a bucket.
func (l *Index) lockBucket(n uint32) (unlock func(), err error) {
	mu := &l.bucketMu[n%uint32(len(l.bucketMu))]
	mu.Lock()
	if err := l.wait(context.Background(), lockfile.Write, int64(n)); err != nil {
		mu.Unlock()
		return nil, err
	}
	return func() {
		_, _ = l.locks.Try(lockfile.Free, int64(n), 1)
		mu.Unlock()
	}, nil
}

// LockKey tries to take the right to copy or evict the object of a key. It does not wait. The lock
// ends with the process at the latest.
func (l *Index) LockKey(k Key) (unlock func(), ok bool, err error) {
	l.keysMu.Lock()
	defer l.keysMu.Unlock()
	n := k.lock()
	if _, taken := l.keys[n]; taken {
		return nil, false, nil
	}
	if ok, err := l.locks.Try(lockfile.Write, n, 1); !ok || err != nil {
		return nil, false, err
	}
	l.keys[n] = struct{}{}
	return func() {
		l.keysMu.Lock()
		defer l.keysMu.Unlock()
		delete(l.keys, n)
		_, _ = l.locks.Try(lockfile.Free, n, 1)
	}, true, nil
}

// Busy reports whether another process copies or evicts the object of a key.
func (l *Index) Busy(k Key) bool {
	held, err := l.locks.Probe(k.lock(), 1)
	return err == nil && held
}
