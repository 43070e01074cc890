package exec

import (
	"runtime/debug"

	"leat/apply/outcome"
	"leat/raster"
)

// call calls one of the job's functions other than Compute. A panic in it becomes a PanicError with
// this name. One that ends its goroutine aborts the run.
func call(name string, abort func(cause error), f func() error) (err error) {
	finished := false
	defer func() {
		if finished {
			return
		}
		p := recover()
		err = &outcome.PanicError{Of: name, Value: p, Stack: debug.Stack()}
		if p == nil && abort != nil { // runtime.Goexit can't be stopped
			abort(&outcome.PanicError{Of: name, Value: goexit})
		}
	}()
	err = f()
	finished = true
	return err
}

// RecoverMerge returns merge, the job's function of this name, with its panics made errors of the
// run.
func RecoverMerge(name string, merge func(from int, value any) error, abort func(error)) func(int, any) error {
	if merge == nil {
		return nil
	}
	return func(from int, value any) error {
		return call(name, abort, func() error { return merge(from, value) })
	}
}

// RecoverBeforeClose returns an output's hook with its panics made errors of the run.
func RecoverBeforeClose(before func(*raster.Info) error, abort func(error)) func(*raster.Info) error {
	if before == nil {
		return nil
	}
	return func(info *raster.Info) error {
		return call("BeforeClose", abort, func() error { return before(info) })
	}
}

// Goexit returns the error of a function that ended the run's goroutine.
func Goexit() error { return &outcome.PanicError{Value: goexit} }

// goexit is the value of the PanicError of a function that ended its goroutine.
const goexit = "it ended its goroutine (runtime.Goexit)"
