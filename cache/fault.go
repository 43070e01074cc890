//go:build unix

package cache

import (
	"runtime/debug"
	"unsafe"
)

// A load from the mapping faults if the page can't be read: a full tmpfs, an I/O error, a truncated
// file. Every access runs under debug.SetPanicOnFault, in the functions of this file or in leave.

// guard calls f, which accesses the mapping, and reports whether a fault stopped it.
func (c *Cache) guard(f func() error) (faulted bool, err error) {
	old := debug.SetPanicOnFault(true)
	defer func() {
		debug.SetPanicOnFault(old)
		if r := recover(); r != nil {
			if _, ours := c.faultAt(r); !ours {
				panic(r)
			}
			faulted, err = true, nil
			c.countFault()
		}
	}()
	return false, f()
}

// leave is deferred by readers and turns a fault into a miss. user reports whether the caller's
// function was running.
func (c *Cache) leave(i int64, old bool, user *bool, err *error) {
	debug.SetPanicOnFault(old)
	r := recover()
	if r != nil {
		addr, ours := c.faultAt(r)
		switch {
		case !ours:
			c.drainGate.leave(i)
			panic(r)
		case *user && isReadable(addr):
			// The page is readable, so the fault was a store: a bug of the caller.
			c.drainGate.leave(i)
			panic("cache: write to the bytes of a View, which are read-only and shared by all processes")
		}
		c.countFault()
		c.forget(i)
		*err = ErrMiss
	}
	c.drainGate.leave(i)
}

// windowFault is a fault in a window that may have been replaced since.
type windowFault struct{ addr uintptr }

// faultAt returns the address of a fault, and whether it is in the mapping.
func (c *Cache) faultAt(r any) (uintptr, bool) {
	if f, ok := r.(windowFault); ok {
		return f.addr, true
	}
	e, ok := r.(interface{ Addr() uintptr })
	if !ok {
		return 0, false
	}
	return e.Addr(), c.m.holds(e.Addr())
}

// countFault counts a fault, unless page 0 itself can't be accessed.
func (c *Cache) countFault() {
	old := debug.SetPanicOnFault(true)
	defer func() {
		debug.SetPanicOnFault(old)
		_ = recover()
	}()
	c.count(countFaults, 1)
}

// isReadable reports whether a byte of a mapping can be read.
func isReadable(addr uintptr) (ok bool) {
	old := debug.SetPanicOnFault(true)
	defer func() {
		debug.SetPanicOnFault(old)
		ok = recover() == nil
	}()
	_ = loadByte(addr)
	return true
}

//go:noinline
func loadByte(addr uintptr) byte { return **(**byte)(unsafe.Pointer(&addr)) }
