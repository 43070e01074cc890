package main

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/term"

	"leat/apply/outcome"
)

// progressMode says how a running command shows how far it is.
type progressMode int

const (
	progressNone  progressMode = iota
	progressLine               // one line that is rewritten, for a terminal
	progressLines              // a line now and then, for logs
	progressJSON               // an event a line
)

// How often progress is shown.
const (
	progressRedraw  = 100 * time.Millisecond
	progressLog     = 5 * time.Second
	progressEvents  = 500 * time.Millisecond
	progressHistory = 10 * time.Second // over which rate and time left are reckoned
	progressEarly   = 2 * time.Second  // after the first block, before which no time left is shown
)

// chooseProgress returns the mode that fits f: a terminal gets a live line, anything else plain
// lines.
func chooseProgress(f *os.File) progressMode {
	if term.IsTerminal(int(f.Fd())) && os.Getenv("TERM") != "dumb" {
		return progressLine
	}
	return progressLines
}

// asciiLocale reports whether the locale of the environment has another character set than UTF-8.
func asciiLocale(getenv func(string) string) bool {
	locale := strings.ToUpper(cmp.Or(getenv("LC_ALL"), getenv("LC_CTYPE"), getenv("LANG")))
	return !strings.Contains(locale, "UTF-8") && !strings.Contains(locale, "UTF8")
}

// progress shows how far a job is. It starts no goroutine: what is shown changes with update, which
// may be called from many goroutines. What can't be written is lost without an error.
type progress struct {
	w     io.Writer
	mode  progressMode
	width func() int       // columns of the terminal
	now   func() time.Time // the clock
	ascii bool             // the terminal shows no other characters

	mu       sync.Mutex
	start    time.Time
	shown    time.Time // when something was shown last; zero if never
	last     progressState
	lastDone int // as shown last, -1 if never
	history  []progressState
	before   progressState // what an earlier run did
	waiting  waiting
	first    progressState // the first block of this run; zero before it
	finished bool
}

// newProgress returns a progress that writes to w; its clock starts now.
func newProgress(w io.Writer, mode progressMode) *progress {
	p := &progress{w: w, mode: mode, now: time.Now, ascii: asciiLocale(os.Getenv), lastDone: -1}
	p.width = func() int {
		if f, ok := w.(*os.File); ok {
			if cols, _, err := term.GetSize(int(f.Fd())); err == nil && cols > 0 {
				return cols
			}
		}
		return 80
	}
	p.begin()
	return p
}

func (p *progress) begin() {
	p.start = p.now()
	p.history = []progressState{{at: p.start}}
}

// started writes the first event.
func (p *progress) started(plan *outcome.Plan) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mode == progressJSON {
		_ = writeJSON(p.w, newStartedEvent(plan))
	}
}

// from says that an earlier run did so much, which counts for no rate.
func (p *progress) from(done, total int, pixels int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.last = progressState{p.now(), done, total, pixels, ""}
	p.before = p.last
	p.history = []progressState{p.last}
}

// update says that done of total blocks with so many output pixels are finished, and which stage is
// the bottleneck now (empty where unknown). Calls may overtake each other: only one with more
// blocks than before is shown.
func (p *progress) update(done, total int, pixels int64, stage string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mode == progressNone || p.finished || done < p.last.done {
		return
	}
	now := p.now()
	p.last = progressState{now, done, total, pixels, stage}
	if p.first.at.IsZero() && done > p.before.done {
		p.first = p.last
	}
	every, since := progressRedraw, p.shown
	switch p.mode {
	case progressLines:
		every = progressLog
		if since.IsZero() {
			since = p.start // nothing for short runs
		}
	case progressJSON:
		every = progressEvents
	}
	if now.Sub(since) < every && (p.mode == progressLines || done < total || done == p.lastDone) {
		return
	}
	p.show()
}

// again says that a request is made again, and why.
func (p *progress) again(err error) {
	p.waiting.note(err)
	p.mu.Lock()
	defer p.mu.Unlock()
	every := progressRedraw
	if p.mode == progressLines {
		every = progressLog
	}
	if p.mode != progressLine && p.mode != progressLines || p.finished || p.last.total == 0 ||
		p.now().Sub(p.shown) < every {
		return
	}
	p.last.at = p.now()
	p.show()
}

// finish ends the progress: the live line goes away, events end with the last state.
func (p *progress) finish() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.finished {
		return
	}
	p.finished = true
	switch {
	case p.mode == progressLine && !p.shown.IsZero():
		fmt.Fprint(p.w, "\r\x1b[K")
	case p.mode == progressJSON && !p.last.at.IsZero() && p.lastDone != p.last.done:
		p.show()
	}
}

// above returns a writer of whole lines to the terminal that the live line stands on: the line
// makes way for them and stands below then.
func (p *progress) above(w io.Writer) io.Writer { return aboveLine{p, w} }

type aboveLine struct {
	p *progress
	w io.Writer
}

func (a aboveLine) Write(lines []byte) (int, error) {
	p := a.p
	p.mu.Lock()
	defer p.mu.Unlock()
	live := p.mode == progressLine && !p.shown.IsZero() && !p.finished
	if live {
		fmt.Fprint(p.w, "\r\x1b[K")
	}
	n, err := a.w.Write(lines)
	if live {
		p.show()
	}
	return n, err
}
