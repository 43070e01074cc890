//go:build unix

package shm

import (
	"errors"
	"fmt"
	"io"
	"runtime"
	"sync"

	"golang.org/x/sys/unix"

	"leat/internal/fault"
	"leat/internal/fdio"
	"leat/internal/npy"
)

const (
	// copyChunk is what one goroutine copies at a time. Sizes from 256 KiB to 4 MiB are equally
	// fast.
	copyChunk = 1 << 20
	// parallelFrom is the size from which two copy faster than one.
	parallelFrom = 4 << 20
	// checkEvery is how many bytes are filled between checks of the free memory.
	checkEvery = 64 << 20
	// maxCopiers goroutines reach the bandwidth of memory.
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
	mu      sync.Mutex
	lo, hi  int64
	step    int64
	passed  int64                  // bytes handed out since reserve was called
	reserve func(rest int64) error // checks the free memory; may be nil
	err     error
}

func newChunks(n int64, elem int, reserve func(int64) error) *chunks {
	step := int64(copyChunk)
	if e := int64(elem); e > step {
		step = e
	} else {
		step -= step % e // whole elements
	}
	return &chunks{hi: n, step: step, reserve: reserve}
}

// next returns the next piece from the front or from the back; ok is false after the last, and
// after an error.
func (c *chunks) next(back bool) (from, n int64, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil || c.lo >= c.hi {
		return 0, 0, false
	}
	if c.passed >= checkEvery && c.reserve != nil {
		c.passed = 0
		if c.err = c.reserve(c.hi - c.lo); c.err != nil {
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

// each calls f for every piece in p goroutines. front is true in the first, which takes pieces from
// the front.
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

// fillFresh fills a new memfd from byte at. Writes to the descriptor are the fastest way to new
// pages, but the kernel serializes them: one goroutine writes from the front while others store
// through the mapping from the back.
func fillFresh(fd int, mem []byte, at int64, src *input, reserve func(int64) error) error {
	return newChunks(src.length, src.view.elem.Size(), reserve).each(copiers(src.length),
		func(front bool, from, n int64) error {
			fault.Point("shm.filling")
			if !front {
				return store(mem, at, src, from, n, true)
			}
			return writeSource(fd, at, src, from, n)
		})
}

// fillMapped fills memory through the mapping alone. Its first touched bytes are in the page table.
func fillMapped(mem []byte, at int64, src *input, touched int64, reserve func(int64) error) error {
	return newChunks(src.length, src.view.elem.Size(), reserve).each(copiers(src.length),
		func(_ bool, from, n int64) error {
			fault.Point("shm.filling")
			return store(mem, at, src, from, n, at+from+n > touched)
		})
}

// zeroMapped is fillMapped with zeros.
func zeroMapped(mem []byte, at, n, touched int64, fresh bool, reserve func(int64) error) error {
	return newChunks(n, 1, reserve).each(copiers(n), func(_ bool, from, n int64) error {
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
		// One call for all pages costs a third of the page faults.
		if err := populate(mem, at+from, n); err != nil {
			return err
		}
	}
	src.read(mem[at+from:at+from+n], from)
	return nil
}

// populate takes memory for the pages of some bytes. Where there is none it returns an error, while
// a store would end the process by a signal.
func populate(mem []byte, from, n int64) error {
	lo := from &^ (pageSize - 1)
	if err := populateWrite(mem[lo:min(roundUp(from+n, pageSize), int64(len(mem)))]); err != nil {
		return fmt.Errorf("taking memory: %w", wrapNoSpace(err))
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

// fillFile writes the array to a file on any file system: a full one is an error here, never a
// signal later.
func fillFile(fd int, at int64, src *input) error {
	return newChunks(src.length, src.view.elem.Size(), nil).each(1, func(_ bool, from, n int64) error {
		fault.Point("shm.filling")
		return writeSource(fd, at, src, from, n)
	})
}

func pwriteAll(fd int, b []byte, at int64) error {
	if err := fault.Error("shm.pwrite"); err != nil {
		return fmt.Errorf("writing: %w", wrapNoSpace(err))
	}
	if err := fdio.WriteFull(fd, b, at); err != nil {
		return fmt.Errorf("writing: %w", wrapNoSpace(err))
	}
	return nil
}

// wrapNoSpace wraps the system's errors for full file systems, quotas and memory, and
// npy.ErrTooLarge, in ErrNoSpace.
func wrapNoSpace(err error) error {
	if errors.Is(err, ErrNoSpace) {
		return err
	}
	for _, e := range []error{unix.ENOSPC, unix.EDQUOT, unix.ENOMEM, unix.EFBIG, io.ErrShortWrite, npy.ErrTooLarge} {
		if errors.Is(err, e) {
			return fmt.Errorf("%w: %w", ErrNoSpace, err)
		}
	}
	return err
}
