//go:build unix

package index

// FreeReplaced frees the replaced and damaged versions of an object that nobody uses. The caller
// holds the key's lock for a copy, so that no eviction can free them meanwhile. left reports
// whether any are still in use.
func (l *Index) FreeReplaced(k Key) (n int, left bool, err error) {
	err = l.guard(func() error {
		marks := l.markReplaced(k)
		f := &failures{all: true}
		n, err = l.evictMarked(marks, func() bool { return false }, f)
		left = n < len(marks)
		if err == nil && len(f.list) > 0 {
			err = f.list[0]
		}
		return err
	})
	return n, left, err
}

// markReplaced marks the stale records of a key, whose lock the caller holds. It may miss one while
// another record leaves the chain.
func (l *Index) markReplaced(k Key) (marks []marked) {
	i := l.bucket(k.bucket()).Load()
	for range maxChain {
		if i == 0 {
			break
		}
		r := l.record(i)
		if r == nil {
			break
		}
		seq := r.seq.Load()
		state := byte(seq)
		if state == stateFree || state == stateMore || r.bucket() != k.bucket() {
			break // it has just left this chain
		}
		next := r.next.Load()
		// One that is being evicted was left by a process that died: a live one holds the lock. The
		// exchange fails if the record was in another use when its key was read.
		if (state == stateStale || state == stateEvicting) && r.key == k && r.intact(seq) &&
			r.seq.CompareAndSwap(seq, withState(seq, stateEvicting)) {
			marks = append(marks, marked{candidate: candidate{rec: i, seq: withState(seq, stateStale)}, r: r,
				unlock: func() {}})
		}
		i = next
	}
	return marks
}

// EvictReplaced frees the replaced and damaged versions of all objects, as far as nobody uses them,
// until stop returns true. It goes on after each whose bytes can't be freed, and returns their
// errors.
func (l *Index) EvictReplaced(stop func() bool) (n int, failed []*RemoveError, err error) {
	f := &failures{all: true}
	err = l.guard(func() error {
		var found []candidate
		count := l.count()
		for i := uint32(1); i < count && !stop(); i++ {
			r, err := l.mapped(i)
			if r == nil {
				return err
			}
			if seq := r.seq.Load(); byte(seq) == stateStale || byte(seq) == stateEvicting {
				found = append(found, candidate{rec: i, seq: seq})
			}
			if len(found) == batch || i == count-1 {
				evicted, err := l.evictSome(found, stop, f)
				if n += evicted; err != nil {
					return err
				}
				found = found[:0]
			}
		}
		return nil
	})
	return n, f.list, err
}
