//go:build unix

package cache

import (
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"

	"leat/internal/fault"
)

const (
	// mapBytes is the size of the mapping of the file, beyond its end so that it never has to grow.
	// It takes address space but no memory: 2 us.
	mapBytes = 1 << 40
	// smallIndex is the largest index that is mapped completely if address space is limited.
	smallIndex = 16 << 20
	windowSize = 256 << 10 // a multiple of any page size
	maxWindows = 64        // mapped at the same time, unless more are in use
)

// mapping is a process's view of the file.
type mapping struct {
	data []byte // the file from its start, read-only; empty if address space is limited
	head []byte // page 0, and the index if it fits; writable unless the cache is read-only
	win  windows
}

func mapFile(fd int, n int64, readOnly bool) (m *mapping, err error) {
	m = &mapping{win: windows{fd: fd, prot: unix.PROT_READ | unix.PROT_WRITE, open: map[int64]*window{}}}
	if readOnly {
		m.win.prot = unix.PROT_READ
	}
	if math.MaxInt >= mapBytes && fault.Error("cache.map") == nil {
		reach := int64(mapBytes)
		m.data, err = unix.Mmap(fd, 0, int(reach), unix.PROT_READ, unix.MAP_SHARED)
		if err != nil {
			m.data = nil // ulimit -v
		}
	}
	whole := pageSize + 8*n
	if whole <= smallIndex || whole <= int64(len(m.data)) {
		if fault.Error("cache.map index") == nil {
			m.head, _ = unix.Mmap(fd, 0, int(whole), m.win.prot, unix.MAP_SHARED)
			noReadAhead(m.head)
		}
	}
	if m.head == nil {
		if m.head, err = unix.Mmap(fd, 0, pageSize, m.win.prot, unix.MAP_SHARED); err != nil {
			return nil, errors.Join(fmt.Errorf("mapping: %w", err), m.close())
		}
	}
	return m, nil
}

func (m *mapping) close() error {
	var errs []error
	for _, b := range [][]byte{m.data, m.head} {
		if b != nil {
			errs = append(errs, unix.Munmap(b))
		}
	}
	m.data, m.head = nil, nil
	return errors.Join(append(errs, m.win.close())...)
}

// noReadAhead disables read-ahead around a loaded slot, which in a sparse index spends up to 10 ms
// on megabytes of holes.
func noReadAhead(b []byte) {
	if len(b) > 0 {
		_ = unix.Madvise(b, unix.MADV_RANDOM)
	}
}

// holds reports whether an address is in the mapping.
func (m *mapping) holds(addr uintptr) bool {
	return within(m.data, addr) || within(m.head, addr) || m.win.holds(addr)
}

func within(b []byte, addr uintptr) bool {
	p := uintptr(unsafe.Pointer(unsafe.SliceData(b)))
	return b != nil && addr >= p && addr-p < uintptr(len(b))
}

func wordAt(b []byte, at int64) *atomic.Uint64 {
	return (*atomic.Uint64)(unsafe.Pointer(&b[at : at+8][0]))
}

// windows are small mappings of the parts of the index that mapping.head does not cover.
type windows struct {
	fd, prot int

	mu   sync.Mutex
	open map[int64]*window // by number, windowSize bytes each
	time int64
}

type window struct {
	b    []byte
	refs int
	used int64 // windows.time of the last use
}

// word returns the 8 bytes at an offset of the file, and their window, which stays mapped until
// release.
func (w *windows) word(at int64) (*window, *atomic.Uint64, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	number := at / windowSize
	v := w.open[number]
	if v == nil {
		if len(w.open) >= maxWindows {
			w.evict()
		}
		b, err := unix.Mmap(w.fd, number*windowSize, windowSize, w.prot, unix.MAP_SHARED)
		if err != nil {
			return nil, nil, fmt.Errorf("mapping: %w", err)
		}
		noReadAhead(b)
		v = &window{b: b}
		w.open[number] = v
	}
	w.time++
	v.used = w.time
	v.refs++
	return v, wordAt(v.b, at%windowSize), nil
}

func (w *windows) release(v *window) {
	w.mu.Lock()
	v.refs--
	w.mu.Unlock()
}

// evict unmaps the least recently used window that is not in use.
func (w *windows) evict() {
	oldest := int64(-1)
	for number, v := range w.open {
		if v.refs == 0 && (oldest < 0 || v.used < w.open[oldest].used) {
			oldest = number
		}
	}
	if oldest >= 0 && unix.Munmap(w.open[oldest].b) == nil {
		delete(w.open, oldest)
	}
}

func (w *windows) holds(addr uintptr) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, v := range w.open {
		if within(v.b, addr) {
			return true
		}
	}
	return false
}

func (w *windows) close() error {
	var err error
	for number, v := range w.open {
		err = errors.Join(err, unix.Munmap(v.b))
		delete(w.open, number)
	}
	return err
}
