package exec

import (
	"errors"
	"os"
	"slices"
	"strconv"
	"strings"

	"leat/apply/internal/resolve"
	"leat/apply/outcome"
	"leat/block"
	"leat/internal/worker/runerror"
	"leat/worker"
)

// Values of BlockError.Stage.
const (
	stageReading   = "reading"
	stageComputing = "computing"
	stageSetup     = "setup"
	stageClosing   = "closing"
)

// localError returns a BlockError for an error in this process; b is nil in Setup and Close.
func localError(stage, worker string, b *block.Block, err error) *outcome.BlockError {
	e := &outcome.BlockError{Block: -1, Stage: stage, Worker: worker, Stack: stackOf(err), Err: err}
	e.Host, _ = os.Hostname()
	if b != nil {
		e.Block, e.Window = b.Number, b.Window
	}
	return e
}

// stackOf returns the stack of a panic, or the traceback of a function in another language.
func stackOf(err error) []byte {
	var p *outcome.PanicError
	if errors.As(err, &p) {
		return p.Stack
	}
	var s interface{ Stack() []byte }
	if errors.As(err, &s) {
		return s.Stack()
	}
	return nil
}

// workerError is an error of a worker, with what the coordinator needs to make a BlockError of it.
type workerError struct {
	err   error
	stage string
	known []error // sentinels
}

func (e *workerError) Error() string { return e.err.Error() }
func (e *workerError) Unwrap() error { return e.err }
func (e *workerError) Stack() []byte { return stackOf(e.err) }

// Code implements worker.Coder. It returns the stage and codes for what the error wraps, separated
// by semicolons, in at most 64 bytes (protocol.MaxCode).
func (e *workerError) Code() string {
	words := []string{e.stage}
	var p *outcome.PanicError
	if errors.As(e.err, &p) {
		words = append(words, codePanic+p.Of)
	}
	if errors.As(e.err, new(*outcome.PythonError)) {
		words = append(words, codePython)
	}
	if f := fieldOf(e.err); f != nil {
		words = append(words, codeField+f.Field)
	}
	var bits uint64
	for i, s := range e.known {
		if errors.Is(e.err, s) {
			bits |= 1 << i
		}
	}
	if bits != 0 {
		words = append(words, codeIs+strconv.FormatUint(bits, 16))
	}
	if errors.As(e.err, new(*outcome.InputChangedError)) {
		words = append(words, resolve.CodeInputChanged)
	}
	return strings.Join(words, ";")
}

const (
	codePanic  = "panic="
	codePython = "python"
	codeIs     = "is="
	codeField  = "field="
)

// fieldOf returns the innermost FieldError that err wraps, the most specific one; nil if there is
// none.
func fieldOf(err error) (found *outcome.FieldError) {
	for {
		var f *outcome.FieldError
		if !errors.As(err, &f) {
			return found
		}
		found, err = f, f.Err
	}
}

// remoteError is the Err of a BlockError from another process.
type remoteError struct {
	message string
	wraps   []error
}

func (e *remoteError) Error() string   { return e.message }
func (e *remoteError) Unwrap() []error { return e.wraps }

// failures makes BlockErrors of what workers report.
type failures struct {
	blocks block.Plan
	known  []error // sentinels
}

// blockError returns the BlockError of a failure that a worker reported, or the failure itself if
// it concerns the worker and not the job's function or blocks.
func (r *failures) blockError(f *worker.Failure) error {
	stage, codes, _ := strings.Cut(f.Code, ";")
	if stage == stageStarting {
		return &remoteError{message: f.Error(), wraps: r.wrapped(f, strings.Split(codes, ";"))}
	}
	if !slices.Contains([]string{stageReading, stageComputing, stageSetup, stageClosing}, stage) {
		return f
	}
	e := &outcome.BlockError{Block: -1, Stage: stage, Worker: f.Worker, Host: f.Host}
	if f.Stack != "" {
		e.Stack = []byte(f.Stack)
	}
	if stage == stageReading || stage == stageComputing {
		e.Block = f.Block
		if f.Block >= 0 && f.Block < r.blocks.Count() {
			e.Window = r.blocks.At(f.Block).Window
		}
	}
	shown := *f
	shown.Block = e.Block // not the block for which a worker was set up
	e.Text = shown.Error()
	e.Err = &remoteError{message: f.Message, wraps: r.wrapped(f, strings.Split(codes, ";"))}
	return e
}

// wrapped returns the failure and the errors that its codes stand for.
func (r *failures) wrapped(f *worker.Failure, codes []string) []error {
	wraps := []error{f}
	for _, w := range codes {
		if of, ok := strings.CutPrefix(w, codePanic); ok {
			_, value, _ := strings.Cut(f.Message, " panicked: ")
			wraps = append(wraps, &outcome.PanicError{Of: of, Value: value, Stack: []byte(f.Stack)})
		}
		if w == codePython {
			kind, text, _ := strings.Cut(f.Message, ": ")
			wraps = append(wraps, &outcome.PythonError{Kind: kind, Message: text, Traceback: f.Stack})
		}
		if name, ok := strings.CutPrefix(w, codeField); ok {
			wraps = append(wraps, &outcome.FieldError{Field: name, Err: errors.New(f.Message)})
		}
		if changed := new(outcome.InputChangedError); w == resolve.CodeInputChanged {
			changed.Change, _, _ = strings.Cut(f.Message, " while it was ")
			changed.During, changed.Overwritten = "read", strings.HasSuffix(changed.Change, " was written to")
			wraps = append(wraps, changed)
		}
		if text, ok := strings.CutPrefix(w, codeIs); ok {
			bits, _ := strconv.ParseUint(text, 16, 64)
			for i, s := range r.known {
				if bits&(1<<i) != 0 {
					wraps = append(wraps, s)
				}
			}
		}
	}
	return wraps
}

// Starting returns an error of a worker process that could not begin, which keeps its field and the
// standard library's sentinels on the way to the run.
func Starting(err error) error { return &workerError{err, stageStarting, sharedErrors} }

// stageStarting is the stage of these errors, which are not BlockErrors.
const stageStarting = "starting"

// blockErrors converts the failures in an error of coordinator.Run to BlockErrors.
func (r *failures) blockErrors(err error) error {
	switch e := err.(type) {
	case *worker.Failure:
		return r.blockError(e)
	case *worker.RunError:
		var after []error
		for _, later := range e.After {
			if !repeats(later, e.Cause) {
				after = append(after, r.blockErrors(later))
			}
		}
		return runerror.Join(r.blockErrors(e.Cause), after...)
	}
	return err
}

// repeats reports whether err is the failure cause again: Setup fails for every block that a worker
// holds.
func repeats(err, cause error) bool {
	a, ok := err.(*worker.Failure)
	b, same := cause.(*worker.Failure)
	return ok && same && a.Worker == b.Worker && a.Message == b.Message && a.Code == b.Code
}
