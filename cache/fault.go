//go:build unix

package cache

import (
	"runtime/debug"
	"unsafe"
)

// A load of the mapping is a fault where the page can't be had: a full tmpfs, an I/O error, a file that someone cut off. Every touch runs under
// debug.SetPanicOnFault, in the functions of this file or in leave.

// guard calls f, which touches the mapping. faulted tells that it was stopped by a fault.
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

// leave is deferred by readers; it turns a fault into a miss. user tells that the caller's own function was running.
func (c *Cache) leave(i int64, old bool, user *bool, err *error) {
	debug.SetPanicOnFault(old)
	r := recover()
	if r != nil {
		addr, ours := c.faultAt(r)
		switch {
		case !ours:
			c.gate.leave(i)
			panic(r)
		case *user && loadable(addr):
			// What can be read was written to. Not an error: the caller's program is wrong.
			c.gate.leave(i)
			panic("cache: a store into the bytes of a View, which belong to all processes and can only be read")
		}
		c.countFault()
		c.forget(i)
		*err = ErrMiss
	}
	c.gate.leave(i)
}

// windowFault is a fault in a window, which may have been unmapped for another one since.
type windowFault struct{ addr uintptr }

// faultAt returns the address of a fault, and whether it lies in the mapping.
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

// countFault counts a fault, unless page 0 itself is gone.
func (c *Cache) countFault() {
	old := debug.SetPanicOnFault(true)
	defer func() {
		debug.SetPanicOnFault(old)
		_ = recover()
	}()
	c.count(countFaults, 1)
}

// loadable tells whether a byte of a mapping can be read.
func loadable(addr uintptr) (ok bool) {
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
