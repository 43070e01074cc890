package exec

import (
	"errors"
	"sync/atomic"
	"testing"
)

func TestHelperReadsFiles(t *testing.T) {
	var reads sharedReads
	helped := make(chan struct{})
	begun := make(chan struct{})
	var count atomic.Int64
	go func() {
		<-begun
		r := reads.join()
		if r == nil || r.number != 7 {
			t.Errorf("joined %v, expected block 7", r)
			close(helped)
			return
		}
		r.work()
		r.helpers.Done()
	}()
	err := reads.run(7, 3, func(file int) error {
		count.Add(1)
		switch file {
		case 0: // waits for the helper
			close(begun)
			<-helped
		case 2:
			close(helped)
		}
		return nil
	})
	if err != nil || count.Load() != 3 {
		t.Errorf("%d files read, error %v, expected 3 and none", count.Load(), err)
	}
	if r := reads.join(); r != nil {
		t.Errorf("joined block %d after its end", r.number)
	}
}

func TestSharedReadError(t *testing.T) {
	var reads sharedReads
	first, later := errors.New("first"), errors.New("later")
	begun, failed := make(chan struct{}), make(chan struct{})
	go func() {
		<-begun
		r := reads.join()
		r.work()
		r.helpers.Done()
		close(failed)
	}()
	err := reads.run(0, 3, func(file int) error {
		switch file {
		case 0:
			close(begun)
			<-failed
			return first
		case 1:
			return later
		}
		t.Errorf("file %d was read after an error", file)
		return nil
	})
	if err != first {
		t.Errorf("error %v, expected that of the first file", err)
	}
}
