package apply

import (
	"fmt"
	"runtime/debug"

	"leat/raster"
)

// called calls one of the job's own functions beside the one for blocks, by whose name it is told of: what it panics with is an error.
func (r *run) called(name string, f func() error) (err error) {
	finished := false
	defer func() {
		if finished {
			return
		}
		p := recover()
		err = &PanicError{Of: name, Value: p, Stack: debug.Stack()}
		if p == nil && r.abort != nil { // runtime.Goexit, which nothing can stop
			r.abort(&PanicError{Of: name, Value: goexit})
		}
	}()
	err = f()
	finished = true
	return err
}

// tame has panics of what the job calls in the run's own process be errors of the run.
func (r *run) tame() {
	if merge := r.job.Merge; merge != nil {
		r.job.Merge = func(block int, value any) error {
			return r.called("Merge", func() error { return merge(block, value) })
		}
	}
	if progress := r.job.Progress; progress != nil {
		r.job.Progress = func(p Progress) {
			if err := r.called("Progress", func() error { progress(p); return nil }); err != nil {
				r.abort(err)
			}
		}
	}
	for _, o := range r.outs {
		if before := o.spec.BeforeClose; before != nil {
			o.spec.BeforeClose = func(info *raster.Info) error {
				return r.called("BeforeClose", func() error { return before(info) })
			}
		}
	}
}

// goexit is what is said of a function that can't be called back.
const goexit = "it ended its goroutine (runtime.Goexit)"

// PanicError is a panic of the job's function, or of another that the job names.
type PanicError struct {
	Of    string // "Setup", "Close", "Merge", "Progress" or "BeforeClose"; empty: the function of blocks
	Value any
	Stack []byte // where it happened
}

func (e *PanicError) Error() string {
	of := e.Of
	if of == "" {
		of = "the function"
	}
	return fmt.Sprintf("%s panicked: %v", of, e.Value)
}
