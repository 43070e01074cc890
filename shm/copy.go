//go:build unix

package shm

import (
	"errors"
	"fmt"
	"runtime"
	"sync"

	"golang.org/x/sys/unix"

	"leat/internal/fault"

	"leat/npy"
)

const (
	// copyChunk is what one goroutine copies at a time. Between 256 KiB and 4 MiB the speed is the
	// same.
	copyChunk = 1 << 20
	// parallelFrom is the size from which two copy faster than one.
	parallelFrom = 4 << 20
	// roomEvery is how often the room in memory is looked at again while it is filled.
	roomEvery = 64 << 20
	// maxCopiers is where memory, not processors, sets the speed.
	maxCopiers = 4
)

// copiers is how many goroutines copy n bytes.
func copiers(n int64) int {
	if n < parallelFrom {
		return 1
	}
	return min(runtime.GOMAXPROCS(0), maxCopiers)
}

// chunks hands out the bytes from 0 to n, in pieces of step, from both ends.
type chunks struct {
	mu     sync.Mutex
	lo, hi int64
	step   int64
	passed int64                  // bytes handed out since room was looked at
	room   func(rest int64) error // may be nil
	err    error
}

func newChunks(n int64, elem int, room func(int64) error) *chunks {
	step := int64(copyChunk)
	if e := int64(elem); e > step {
		step = e
	} else {
		step -= step % e // whole elements
	}
	return &chunks{hi: n, step: step, room: room}
}

// next returns the next piece from the front, or from the back; ok is false when all are given, or
// after an error.
func (c *chunks) next(back bool) (from, n int64, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil || c.lo >= c.hi {
		return 0, 0, false
	}
	if c.passed >= roomEvery && c.room != nil {
		c.passed = 0
		if c.err = c.room(c.hi - c.lo); c.err != nil {
			return 0, 0, false
		}
	}
	n = min(c.step, c.hi-c.lo)
	if back {
		// The last piece is the one that may be shorter.
		if r := (c.hi - c.lo) % c.step; r > 0 {
			n = r
		}
		c.hi -= n
		from = c.hi
	} else {
		from = c.lo
		c.lo += n
	}
	c.passed += n
	return from, n, true
}

func (c *chunks) fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err == nil {
		c.err = err
	}
}

// each runs f for every piece in p goroutines; front tells the first of them, which takes pieces
// from the front.
func (c *chunks) each(p int, f func(front bool, from, n int64) error) error {
	var wg sync.WaitGroup
	work := func(front bool) {
		for {
			from, n, ok := c.next(!front)
			if !ok {
				return
			}
			if err := f(front, from, n); err != nil {
				c.fail(err)
			}
		}
	}
	for range p - 1 {
		wg.Go(func() { work(false) })
	}
	work(true)
	wg.Wait()
	return c.err
}

// fillFresh fills a new memfd from byte at on, through the descriptor and, where that is quicker,
// the mapping. Writes of one file wait for each other in the kernel and are the quickest way to new
// pages; while one goroutine writes from the front, others store from the back.
func fillFresh(fd int, mem []byte, at int64, src *input, room func(int64) error) error {
	return newChunks(src.length, src.view.elem.Size(), room).each(copiers(src.length),
		func(front bool, from, n int64) error {
			fault.Point("shm.filling")
			if !front {
				return store(mem, at, src, from, n, true)
			}
			return writeSource(fd, at, src, from, n)
		})
}

// fillMapped fills memory through the mapping alone. touched tells that its pages are in the page
// table.
func fillMapped(mem []byte, at int64, src *input, touched int64, room func(int64) error) error {
	return newChunks(src.length, src.view.elem.Size(), room).each(copiers(src.length),
		func(_ bool, from, n int64) error {
			fault.Point("shm.filling")
			return store(mem, at, src, from, n, at+from+n > touched)
		})
}

// zeroMapped is fillMapped with zeros.
func zeroMapped(mem []byte, at, n, touched int64, fresh bool, room func(int64) error) error {
	return newChunks(n, 1, room).each(copiers(n), func(_ bool, from, n int64) error {
		fault.Point("shm.filling")
		if at+from+n > touched {
			if err := populate(mem, at+from, n); err != nil {
				return err
			}
		}
		if !fresh {
			clear(mem[at+from : at+from+n])
		}
		return nil
	})
}

func store(mem []byte, at int64, src *input, from, n int64, touch bool) error {
	if touch {
		// One call for all pages of the piece costs a third of a page fault for each.
		if err := populate(mem, at+from, n); err != nil {
			return err
		}
	}
	src.read(mem[at+from:at+from+n], from)
	return nil
}

// populate has the pages of some bytes made, or reports that there is no memory: a store would be a
// signal.
func populate(mem []byte, from, n int64) error {
	lo := from &^ (pageSize - 1)
	if err := populateWrite(mem[lo:min(roundUp(from+n, pageSize), int64(len(mem)))]); err != nil {
		return fmt.Errorf("taking memory: %w", noRoomIf(err))
	}
	return nil
}

// writeSource writes a piece of src to a file in which the array begins at byte at.
func writeSource(fd int, at int64, src *input, from, n int64) error {
	if src.flat != nil {
		return pwriteAll(fd, src.flat[from:from+n], at+from)
	}
	b := make([]byte, n)
	src.read(b, from)
	return pwriteAll(fd, b, at+from)
}

// fillFile writes the array to a file on any file system: what doesn't fit is an error here, never
// a signal later.
func fillFile(fd int, at int64, src *input) error {
	return newChunks(src.length, src.view.elem.Size(), nil).each(1, func(_ bool, from, n int64) error {
		fault.Point("shm.filling")
		return writeSource(fd, at, src, from, n)
	})
}

func pwriteAll(fd int, b []byte, at int64) error {
	if err := fault.Error("shm.pwrite"); err != nil {
		return fmt.Errorf("writing: %w", noRoomIf(err))
	}
	for len(b) > 0 {
		n, err := unix.Pwrite(fd, b, at)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return fmt.Errorf("writing: %w", noRoomIf(err))
		case n == 0:
			return fmt.Errorf("writing: %w", ErrNoRoom)
		}
		b, at = b[n:], at+int64(n)
	}
	return nil
}

// noRoomIf wraps the system's errors for full file systems, quotas and memory, and
// npy.ErrTooLarge, in ErrNoRoom.
func noRoomIf(err error) error {
	if errors.Is(err, ErrNoRoom) {
		return err
	}
	for _, e := range []error{unix.ENOSPC, unix.EDQUOT, unix.ENOMEM, unix.EFBIG, npy.ErrTooLarge} {
		if errors.Is(err, e) {
			return fmt.Errorf("%w: %w", ErrNoRoom, err)
		}
	}
	return err
}
