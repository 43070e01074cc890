// Package fault lets tests end a process, or have a system call fail, at a named point of the code.
// Outside tests a point costs one atomic load.
package fault

import "sync/atomic"

var hook atomic.Pointer[func(point string) error]

// Set has f called at every point that any goroutine passes; nil ends that. For tests alone: the
// hook is the process's.
func Set(f func(point string) error) {
	if f == nil {
		hook.Store(nil)
		return
	}
	hook.Store(&f)
}

// Point is a place at which a test may end the process.
func Point(name string) { _ = Error(name) }

// Error is a place at which a test may have something fail: the error that it wants there, else
// nil.
func Error(name string) error {
	if f := hook.Load(); f != nil {
		return (*f)(name)
	}
	return nil
}
