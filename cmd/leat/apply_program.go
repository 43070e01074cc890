package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/sys/unix"

	"leat/apply"
	"leat/apply/outcome"
)

// programFlags are the hidden options with which another program, such as the Python package, runs
// leat apply: docs/format/apply-job.md.
type programFlags struct {
	jobFile  string
	eventsFD int

	events *eventWriter    // nil without --events
	lists  map[string]bool // inputs that a job gives as lists, even of one file
}

// AddFlags adds the options.
func (f *programFlags) AddFlags(fl *pflag.FlagSet) {
	f.lists = map[string]bool{}
	fl.StringVar(&f.jobFile, "job", "", "`FILE`: the options as a JSON object; - for standard input")
	fl.IntVar(&f.eventsFD, "events", -1, "`FD`: write events as JSON lines to a file descriptor")
	for _, name := range []string{"job", "events"} {
		if err := fl.MarkHidden(name); err != nil {
			panic(err)
		}
	}
}

// prepare opens the events and reads the job, before the configuration is read.
func (f *programFlags) prepare(cmd *cobra.Command, args []string) error {
	if cmd.Flags().Changed("events") {
		events, err := newEventWriter(f.eventsFD)
		if err != nil {
			return usagef("--events %d: %w", f.eventsFD, err)
		}
		f.events = events
	}
	err := f.loadJob(cmd)
	if err == nil {
		err = configure(cmd, args)
	}
	return f.end(cmd.Context(), err)
}

// run calls work, and ends it when the program that reads the events is gone.
func (f *programFlags) run(cmd *cobra.Command, work func() error) error {
	if f.events == nil {
		return work()
	}
	ctx, stop := f.events.watch(cmd.Context())
	cmd.SetContext(ctx)
	return f.end(ctx, errors.Join(work(), stop()))
}

// end writes err as an event, in place of its text for people. The exit status stays the same.
func (f *programFlags) end(ctx context.Context, err error) error {
	if err == nil || f.events == nil {
		return err
	}
	e := newProgramErrorEvent(ctx, err)
	_ = writeJSON(f.events, e)
	switch by := signalOf(ctx); {
	case e.Kind == kindInterrupted && by != 0:
		return exitStatus(128 + int(by))
	case e.Kind == kindJob:
		return exitStatus(exitUsage)
	}
	return exitStatus(exitFailed)
}

// warn shows warnings to people, or as events.
func (f *programFlags) warn(people io.Writer, list []message) {
	if f.events == nil {
		printMessages(people, warningPrefix, list)
		return
	}
	for _, m := range list {
		_ = writeJSON(f.events, warningEvent{newEventDoc("warning"), m.text, m.hint})
	}
}

// logger returns the logger of a run's warnings. write, if not nil, gets their lines too.
func (f *programFlags) logger(people io.Writer, write func(time.Time, string)) *slog.Logger {
	h := &peopleHandler{w: people, copy: write}
	if f.events != nil {
		h.show = func(m message) { f.warn(nil, []message{m}) }
	}
	return slog.New(h)
}

// eventWriter writes events to the program that started leat. Each Write is one event.
type eventWriter struct {
	mu sync.Mutex
	f  *os.File
}

func newEventWriter(fd int) (*eventWriter, error) {
	if fd < 3 {
		return nil, errors.New("expected the number of an open file descriptor above 2")
	}
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err != nil {
		return nil, err
	}
	unix.CloseOnExec(fd)
	if err := unix.SetNonblock(fd, true); err != nil {
		return nil, err
	}
	return &eventWriter{f: os.NewFile(uintptr(fd), "events")}, nil
}

// Write writes an event. A reader that is gone ends the run by watch.
func (w *eventWriter) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.f.Write(b)
}

// errReaderGone is the cause of a run's end when the program that reads its events has closed them
// or died.
var errReaderGone = errors.New("the program that started leat is gone")

// watch returns a context that ends when the other end of a socket of events is closed. stop ends
// the watch.
func (w *eventWriter) watch(parent context.Context) (ctx context.Context, stop func() error) {
	ctx, cancel := context.WithCancelCause(parent)
	if _, err := unix.Getpeername(int(w.f.Fd())); err != nil { // a pipe or a file
		return ctx, func() error { cancel(nil); return nil }
	}
	// Fd has made it block.
	if err := unix.SetNonblock(int(w.f.Fd()), true); err != nil {
		return ctx, func() error { cancel(nil); return err }
	}
	var g sync.WaitGroup
	g.Go(func() {
		b := make([]byte, 64)
		for {
			if _, err := w.f.Read(b); errors.Is(err, os.ErrDeadlineExceeded) {
				return
			} else if err != nil {
				cancel(errReaderGone)
				return
			}
		}
	})
	return ctx, func() error {
		err := w.f.SetReadDeadline(time.Unix(1, 0))
		g.Wait()
		cancel(nil)
		return err
	}
}

// emittedEvent is a value that a block has emitted.
type emittedEvent struct {
	eventDoc
	Block int             `json:"block"`
	Value json.RawMessage `json:"value"`
}

// workerValueEvent is the value of a state of the function.
type workerValueEvent struct {
	eventDoc
	Worker int             `json:"worker"`
	Value  json.RawMessage `json:"value"`
}

// receiveValues sends the values that the job's function emits, and those of its states, as events.
func (f *programFlags) receiveValues(job *apply.Job) {
	if f.events == nil || job.Python == nil {
		return
	}
	job.Merge = func(block int, value any) error {
		v, ok := value.(json.RawMessage)
		if !ok {
			return fmt.Errorf("block %d emitted a %T, expected JSON", block, value)
		}
		return writeJSON(f.events, emittedEvent{newEventDoc("emitted"), block, v})
	}
	job.Python.WorkerValues = func(worker int, value json.RawMessage) error {
		if string(value) == "null" {
			return nil
		}
		return writeJSON(f.events, workerValueEvent{newEventDoc("worker_value"), worker, value})
	}
}

// warningEvent is a warning during a run.
type warningEvent struct {
	eventDoc
	Text string `json:"text"`
	Hint string `json:"hint,omitempty"`
}

// planEvent is the only event of a run with --plan.
type planEvent struct {
	eventDoc
	planDoc
}

// programErrorEvent is the last event of a run that failed.
type programErrorEvent struct {
	*errorEvent
	Kind  string          `json:"kind"`
	Block *blockErrorDoc  `json:"block,omitempty"`
	Items []errorTextsDoc `json:"errors"` // one for each thing that is wrong
	// Holder is the process that uses the output, of errors of kindInUse.
	Holder string `json:"holder,omitempty"`
}

// errorTextsDoc is one of several errors.
type errorTextsDoc struct {
	Text string `json:"error"`
	Hint string `json:"hint,omitempty"`
}

// Values of programErrorEvent.Kind.
const (
	kindJob         = "job"         // a mistake in the job; nothing was touched
	kindResume      = "resume"      // what an earlier run left can't be continued
	kindBlock       = "block"       // a block, or the function's setup or closing
	kindNoSpace     = "no_space"    // a disk or a quota is full
	kindInUse       = "in_use"      // another process uses an output
	kindInterrupted = "interrupted" // by a signal, or the reader of events is gone
	kindOther       = "failed"
)

// blockErrorDoc is where a run failed.
type blockErrorDoc struct {
	Block     int     `json:"block"`            // from 0; -1 in setup and closing
	Window    *[4]int `json:"window,omitempty"` // column, row, width, height in the grid
	Stage     string  `json:"stage"`
	Worker    string  `json:"worker,omitempty"`
	Host      string  `json:"host,omitempty"`
	Traceback string  `json:"traceback,omitempty"`
}

// newProgramErrorEvent describes the error of a run.
func newProgramErrorEvent(ctx context.Context, err error) *programErrorEvent {
	e := &programErrorEvent{errorEvent: newErrorEvent(err), Kind: kindOther}
	var usage usageError
	var job *outcome.JobError
	var resume *outcome.ResumeError
	var inUse *outcome.InUseError
	block := new(outcome.BlockError)
	interrupted := ctx.Err() != nil && (errors.Is(err, context.Canceled) || errors.Is(err, context.Cause(ctx)))
	switch {
	case interrupted:
		e.Kind = kindInterrupted
	case errors.As(err, &resume):
		e.Kind = kindResume
	case errors.As(err, &usage), errors.As(err, &job):
		e.Kind = kindJob
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		e.Kind = kindNoSpace
	case errors.As(err, &inUse):
		e.Kind, e.Holder = kindInUse, inUse.Holder
	case errors.Is(err, outcome.ErrInUse):
		e.Kind = kindInUse
	case errors.As(err, &block):
		e.Kind = kindBlock
	}
	if errors.As(err, &block) {
		e.Block = &blockErrorDoc{Block: block.Block, Stage: block.Stage, Worker: block.Worker, Host: block.Host,
			Traceback: string(block.Stack)}
		if w := block.Window; w.Width > 0 {
			e.Block.Window = &[4]int{w.Col, w.Row, w.Width, w.Height}
		}
	}
	for _, m := range messages(withoutLeftover(err)) {
		if e.Block != nil && e.Block.Traceback != "" {
			m.text = strings.TrimSuffix(m.text, "\n"+strings.TrimRight(e.Block.Traceback, "\n"))
		}
		e.Items = append(e.Items, errorTextsDoc{m.text, m.hint})
	}
	return e
}

// sendPlan sends the plan of a job as the event.
func (f *programFlags) sendPlan(ctx context.Context, job apply.Job) error {
	p, err := apply.MakePlan(ctx, job)
	if err != nil {
		return err
	}
	return writeJSON(f.events, planEvent{newEventDoc("plan"), *newPlanDoc(p)})
}
