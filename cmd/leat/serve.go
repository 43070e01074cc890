package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"leat/apply"
	"leat/internal/listen"
	"leat/internal/live"
	"leat/internal/storeurl"
	"leat/internal/sysmem"
	"leat/timing"
)

// shownRun is a run that shows itself while it goes (--serve).
type shownRun struct {
	page    *live.Page
	rec     *timing.Recorder
	started time.Time

	mu       sync.Mutex
	run      *apply.Running // nil before it has started
	before   int64          // pixels that an earlier run computed
	phase    live.Phase     // of the end; "" before
	err      string
	hint     string // about err
	messages []live.Message
	// What was done at the looks of the last seconds, for the throughput.
	looks []look
}

// look is what was done at a moment.
type look struct {
	at     time.Time
	pixels int64
	blocks int
}

// looksKept are one second apart.
const looksKept = 5

// serve shows the job's run at an address, which it prints. The caller ends it by end.
func (f *applyFlags) serve(people io.Writer, job *apply.Job, rec *timing.Recorder) (*shownRun, error) {
	s := &shownRun{rec: rec, started: time.Now()}
	s.page = live.New(live.Options{Title: outputFiles(job), Status: s.status, Token: os.Getenv(serveToken)})
	url, err := s.page.Listen(f.serveAt)
	if err != nil {
		if errors.Is(err, live.ErrToken) {
			return nil, usagef("%s: %w", serveToken, err)
		}
		if errors.Is(err, listen.ErrAddress) {
			return nil, usagef("--serve: %w", err)
		}
		return nil, fmt.Errorf("--serve %s: %w", f.serveAt, err)
	}
	fmt.Fprintf(people, "leat: this run shows itself at %s\n", url)
	job.Logger = f.program.logger(people, s.warn)
	return s, nil
}

// serveToken is the environment variable with the token of the live page.
const serveToken = "LEAT_SERVE_TOKEN"

// outputFiles returns the file names of a job's outputs, in the order of the outputs' names.
func outputFiles(job *apply.Job) string {
	var files []string
	for _, name := range sortedNames(job.Outputs) {
		if file := path.Base(storeurl.Redact(filepath.ToSlash(job.Outputs[name].Path))); file != "." && file != "/" {
			name = file
		}
		files = append(files, name)
	}
	return strings.Join(files, ", ")
}

// watch shows a run's status.
func (s *shownRun) watch(r *apply.Running) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.run = r
}

// end shows how the run ended, for as long as those who look at it take to hear of it.
func (s *shownRun) end(err error) {
	s.mu.Lock()
	s.phase = live.Done
	if err != nil {
		err = withoutLeftover(err)
		s.phase, s.err, s.hint = live.Failed, errorText(err), hintText(err)
		s.messages = append(s.messages, live.Message{Time: time.Now(), Text: s.err})
	}
	s.mu.Unlock()
	ctx, stop := context.WithTimeout(context.Background(), time.Second)
	defer stop()
	_ = s.page.Close(ctx) // nobody is left to tell
}

// warn keeps a warning for the page.
func (s *shownRun) warn(at time.Time, text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.messages = append(s.messages, live.Message{Time: at, Warning: true, Text: text})
}

func (s *shownRun) status() live.Status {
	s.mu.Lock()
	st := live.Status{Command: commandLine(os.Args), Version: version, Started: s.started, Phase: live.Staging,
		Err: s.err, Hint: s.hint, Messages: append([]live.Message{}, s.messages...)}
	run, phase := s.run, s.phase
	s.mu.Unlock()
	st.Timings, st.Memory = s.rec.Summary(), sysmem.Resident()
	if run != nil {
		now := run.Status()
		s.mu.Lock()
		if s.before == 0 && now.Resumed > 0 {
			s.before = now.Pixels
		}
		s.mu.Unlock()
		showState(&st, now)
	}
	if phase != "" {
		st.Phase = phase
	}
	s.reckon(&st)
	return st
}

// reckon fills in how fast it goes, and how long it will take. It is called by one goroutine.
func (s *shownRun) reckon(st *live.Status) {
	now := look{time.Now(), st.Pixels, st.Blocks.Done}
	s.mu.Lock()
	before := s.before
	s.mu.Unlock()
	if seconds := now.at.Sub(s.started).Seconds(); seconds > 0 {
		st.MeanRate = float64(max(0, st.Pixels-before)) / seconds
	}
	if st.Phase != live.Computing {
		return
	}
	s.looks = append(s.looks, now)
	s.looks = s.looks[max(0, len(s.looks)-looksKept-1):]
	first := s.looks[0]
	seconds := now.at.Sub(first.at).Seconds()
	if seconds <= 0 || now.blocks == first.blocks {
		return
	}
	st.Rate = float64(now.pixels-first.pixels) / seconds
	perBlock := seconds / float64(now.blocks-first.blocks)
	st.Left = time.Duration(float64(st.Blocks.Total-now.blocks) * perBlock * float64(time.Second))
}

// phases are apply's stages as the page calls them.
var phases = map[string]live.Phase{"preparing": live.Staging, "resuming": live.Staging, "staging": live.Computing,
	"rasterizing": live.Burning, "blocks": live.Computing, "laying out": live.LayingOut, "uploading": live.Uploading,
	"done": live.Done}

// showState puts what a run is at in the page's words.
func showState(st *live.Status, s apply.Status) {
	st.Phase = phases[s.Stage]
	st.Blocks = live.Blocks{Total: s.Plan.ComputedBlocks(), Done: s.Done}
	st.Pixels, st.MemoryLimit = s.Pixels, s.Plan.BudgetBytes
	st.Grid = &live.Grid{Columns: s.Plan.Blocks.Cols(), States: make([]live.BlockState, len(s.Blocks))}
	for n, b := range s.Blocks {
		st.Grid.States[n] = [...]live.BlockState{live.BlockWaiting, live.BlockRead, live.BlockHeld, live.BlockDone,
			live.BlockSkipped}[b]
	}
	if !s.Plan.WorkersRead {
		st.Queues = append(st.Queues, live.Queue{Name: "blocks read ahead", Depth: int64(s.ReadAhead),
			Limit: int64(s.Plan.Buffers)})
	}
	for i, w := range s.Local {
		one := live.Worker{Name: fmt.Sprintf("worker %d", i+1), Kind: "in-process", State: "working", Slots: 1,
			Done: w.Done}
		if w.Block >= 0 {
			one.Held = []int{w.Block}
		}
		st.Workers = append(st.Workers, one)
	}
	for _, o := range s.Outputs {
		st.Outputs = append(st.Outputs, live.Output{Name: o.Name, Path: o.Path, Bytes: o.Bytes})
	}
	st.Bottleneck = advice(st.Timings, s.Plan)
	if s.Remote == nil {
		return
	}
	o := s.Remote
	st.Jobs = o.Jobs
	// A lost block is given out again at once, or ends the run.
	st.Blocks.Lost, st.Blocks.Reissued, st.Blocks.Copies = int(o.Reissued), int(o.Reissued), int(o.Copies)
	st.Queues = append(st.Queues, live.Queue{Name: "blocks to be given out", Depth: int64(o.Waiting)},
		live.Queue{Name: "workers that wait for blocks", Depth: int64(o.Polls)},
		live.Queue{Name: "bytes of results in memory", Depth: o.BodyBytes})
	holders := make([]uint8, len(s.Blocks))
	now := time.Now()
	for _, w := range o.Workers {
		one := live.Worker{Name: w.Name, Kind: w.Kind, Host: w.Host, PID: w.PID, Cores: w.Cores, Slots: w.Slots,
			State: string(w.State), Done: w.Done, Held: w.Held}
		if !w.Heard.IsZero() {
			one.Quiet = now.Sub(w.Heard)
		}
		st.Workers = append(st.Workers, one)
		for _, n := range w.Held {
			if holders[n]++; holders[n] > 1 && s.Blocks[n] != apply.BlockDone {
				st.Grid.States[n] = live.BlockCopied
			}
		}
	}
}
