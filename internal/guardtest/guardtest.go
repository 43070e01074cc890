// Package guardtest provides tests with memory between pages that can't be accessed, so that a load
// or store outside of it faults, in assembly too.
package guardtest

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// Memory lies between two pages that can't be accessed.
type Memory []byte

// New returns memory of at least size bytes, which stays mapped until the process ends.
func New(size int) Memory {
	page := unix.Getpagesize()
	size = (size + page - 1) / page * page
	all, err := unix.Mmap(-1, 0, size+2*page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		panic(fmt.Errorf("mapping %d bytes for a test: %w", size, err))
	}
	for _, guard := range [][]byte{all[:page], all[page+size:]} {
		if err := unix.Mprotect(guard, unix.PROT_NONE); err != nil {
			panic(fmt.Errorf("guarding the memory of a test: %w", err))
		}
	}
	return Memory(all[page : page+size : page+size])
}

// First returns the first n bytes.
func (m Memory) First(n int) []byte { return m[:n:n] }

// Last returns the last n bytes.
func (m Memory) Last(n int) []byte { return m[len(m)-n:] }
