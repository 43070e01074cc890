// Package fault lets tests end a process, or make a system call fail, at a named point of the code.
// Outside tests a point costs one atomic load.
package fault

import "sync/atomic"

var hook atomic.Pointer[func(point string) error]

// Set makes all goroutines of the process call f at every point they pass; nil ends that. It is for
// tests only.
func Set(f func(point string) error) {
	if f == nil {
		hook.Store(nil)
		return
	}
	hook.Store(&f)
}

// Point is a place at which a test may end the process.
func Point(name string) { _ = Error(name) }

// Error is a place at which a test may make an operation fail: it returns the test's error, or nil.
func Error(name string) error {
	if f := hook.Load(); f != nil {
		return (*f)(name)
	}
	return nil
}
