package exec

import (
	"slices"
	"sync"
	"sync/atomic"
)

// sharedRead is a block that a reader is reading. Readers without a block of their own read files
// of it, so that the last blocks of a run do not wait for one reader while processors are idle.
type sharedRead struct {
	number  int // of the block
	read    func(file int) error
	next    atomic.Int64 // file
	errs    []error      // by file
	helpers sync.WaitGroup
}

// work reads files until all have been begun or one fails.
func (r *sharedRead) work() {
	for {
		i := int(r.next.Add(1)) - 1
		if i >= len(r.errs) {
			return
		}
		if r.errs[i] = r.read(i); r.errs[i] != nil {
			r.next.Store(int64(len(r.errs)))
		}
	}
}

// sharedReads are the blocks that are being read.
type sharedReads struct {
	mu   sync.Mutex
	list []*sharedRead
}

// run reads the files of a block, and returns the error of the first file that failed.
func (s *sharedReads) run(number, files int, read func(file int) error) error {
	r := &sharedRead{number: number, read: read, errs: make([]error, files)}
	s.mu.Lock()
	s.list = append(s.list, r)
	s.mu.Unlock()
	r.work()
	s.mu.Lock()
	s.list = slices.DeleteFunc(s.list, func(o *sharedRead) bool { return o == r })
	s.mu.Unlock()
	r.helpers.Wait()
	for _, err := range r.errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// join returns a block with files that no goroutine has begun to read, or nil. The caller must work
// on it, and then call Done of its helpers.
func (s *sharedReads) join() *sharedRead {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.list {
		if r.next.Load() < int64(len(r.errs)) {
			r.helpers.Add(1)
			return r
		}
	}
	return nil
}
