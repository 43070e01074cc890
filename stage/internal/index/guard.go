package index

import (
	"fmt"
	"runtime/debug"
)

// guard calls f, which accesses the index or a process file. If a page can't be read or written,
// because the disk failed or the file was truncated, guard stops f and marks the index as broken.
func (l *Index) guard(f func() error) (err error) {
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
