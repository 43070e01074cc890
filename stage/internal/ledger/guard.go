package ledger

import (
	"fmt"
	"runtime/debug"
)

// guard calls f, which touches the index or a process's file. A page of them that can't be had, because the disk failed or someone cut the file off, is
// a fault: f is stopped, and the books are given up for good.
func (l *Ledger) guard(f func() error) (err error) {
	if l.broken.Load() {
		return ErrBroken
	}
	old := debug.SetPanicOnFault(true)
	defer func() {
		debug.SetPanicOnFault(old)
		if r := recover(); r != nil {
			fault, ok := r.(interface{ Addr() uintptr })
			if !ok {
				panic(r)
			}
			l.broken.Store(true)
			err = fmt.Errorf("%w (a fault at %#x)", ErrBroken, fault.Addr())
		}
	}()
	return f()
}
