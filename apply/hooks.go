package apply

import (
	"fmt"
	"runtime/debug"

	"leat/raster"
)

// called calls one of the job's functions other than Func. A panic in it becomes a PanicError with
// this name.
func (r *run) called(name string, f func() error) (err error) {
	finished := false
	defer func() {
		if finished {
			return
		}
		p := recover()
		err = &PanicError{Of: name, Value: p, Stack: debug.Stack()}
		if p == nil && r.abort != nil { // runtime.Goexit can't be stopped
			r.abort(&PanicError{Of: name, Value: goexit})
		}
	}()
	err = f()
	finished = true
	return err
}

// recoverCallbacks makes panics in the functions that the run calls in its own process errors of
// the run.
func (r *run) recoverCallbacks() {
	if merge := r.job.Merge; merge != nil {
		r.job.Merge = func(block int, value any) error {
			return r.called("Merge", func() error { return merge(block, value) })
		}
	}
	for _, o := range r.outs {
		if before := o.Spec.BeforeClose; before != nil {
			o.Spec.BeforeClose = func(info *raster.Info) error {
				return r.called("BeforeClose", func() error { return before(info) })
			}
		}
	}
}

// goexit is the value of the PanicError of a function that ended its goroutine.
const goexit = "it ended its goroutine (runtime.Goexit)"

// PanicError is returned when the job's function or one of its hooks panicked. errors.Is and
// errors.As look into a Value that is an error.
type PanicError struct {
	Of    string // "Setup", "Close", "Merge" or "BeforeClose"; "" for the function of blocks
	Value any    // a string if another process computed the block
	Stack []byte // stack of the panic
}

// Unwrap returns Value if it is an error.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}

func (e *PanicError) Error() string {
	of := e.Of
	if of == "" {
		of = "the function"
	}
	return fmt.Sprintf("%s panicked: %v", of, e.Value)
}
