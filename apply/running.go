package apply

import (
	"context"
	"time"
)

// Running is a run that [Start] has started. Its methods may be called by any goroutine at any
// time.
type Running struct {
	run  *run
	done chan struct{} // closed when res and err are set
	res  *Result
	err  error
}

// Start checks a job and all that it names, plans it, and starts to run it. It returns the errors
// in the job, a [JobError] or those of inputs and outputs, before any output is touched. When ctx
// is done, the run ends with ctx's cause within about the time of one block. The caller must call
// Wait.
func Start(ctx context.Context, job Job) (*Running, error) {
	start := time.Now()
	ctx, abort := context.WithCancelCause(ctx)
	r, err := prepare(ctx, &job)
	if err != nil {
		abort(nil)
		return nil, err
	}
	r.abort = abort
	r.recoverCallbacks()
	r.watch()
	s := &Running{run: r, done: make(chan struct{})}
	go s.work(ctx, start)
	return s, nil
}

// work runs the job. A function of the job that ends its goroutine ends the run with an error.
func (s *Running) work(ctx context.Context, start time.Time) {
	r := s.run
	returned := false
	defer func() {
		if !returned {
			if s.err = context.Cause(ctx); s.err == nil {
				s.err = &PanicError{Value: goexit}
			}
		}
		if err := r.in.Close(); err != nil && s.err == nil {
			s.res, s.err = nil, err
		}
		r.at("done")
		r.abort(nil)
		close(s.done)
	}()
	s.res, s.err = r.run(ctx, start)
	returned = true
}

// Status returns the status of the run, which may have ended.
func (s *Running) Status() Status { return s.run.status() }

// Done is closed when the run has ended, so that Wait returns at once.
func (s *Running) Done() <-chan struct{} { return s.done }

// Wait waits for the end of the run, in which every block was computed once and all outputs were
// published. On an error old files are unchanged, except that several outputs are renamed one by
// one at the very end. An error or a panic of the function, or of Setup or Close, is a
// [BlockError]; a panic of Merge or BeforeClose is a [PanicError]. A run that can be resumed is an
// [IncompleteError]. Wait returns when all goroutines of the run have ended; later calls return the
// same.
func (s *Running) Wait() (*Result, error) {
	<-s.done
	return s.res, s.err
}
