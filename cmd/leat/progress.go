package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/term"

	"leat/timing"
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

// progress shows how far a job is. It starts no goroutine: what is shown changes with update, which
// may be called from many goroutines. What can't be written is lost without an error.
type progress struct {
	w     io.Writer
	mode  progressMode
	width func() int       // columns of the terminal
	now   func() time.Time // the clock

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

type progressState struct {
	at          time.Time
	done, total int
	pixels      int64
	stage       string
}

// newProgress returns a progress that writes to w; its clock starts now.
func newProgress(w io.Writer, mode progressMode) *progress {
	p := &progress{w: w, mode: mode, now: time.Now, lastDone: -1}
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

// show shows the last state; p.mu is held.
func (p *progress) show() {
	s := p.last
	p.shown, p.lastDone = s.at, s.done
	// One state older than the history is kept, so that there always is one to compare with.
	for len(p.history) > 1 && s.at.Sub(p.history[1].at) > progressHistory {
		p.history = p.history[1:]
	}
	rate, left := p.reckon(s)
	if len(p.history) == 0 || s.at.After(p.history[len(p.history)-1].at) {
		p.history = append(p.history, s)
	}
	percent := 0
	if s.total > 0 {
		percent = 100 * s.done / s.total
	}
	switch p.mode {
	case progressLine:
		const bar = 24
		full := min(bar, bar*percent/100)
		line := fmt.Sprintf("%s%s %3d %%  %d/%d blocks", strings.Repeat("█", full), strings.Repeat("░", bar-full),
			percent, s.done, s.total)
		if rate > 0 {
			line += fmt.Sprintf("  %.1f Mpixel/s", rate/1e6)
		}
		if left >= 0 && s.done < s.total {
			line += "  " + roughly(left) + " left"
		}
		if why := p.waiting.text(); why != "" {
			line += "  " + why
		} else if s.stage != "" {
			line += "  " + s.stage
		}
		if r, most := []rune(line), p.width()-1; len(r) > most {
			line = string(r[:max(0, most)])
		}
		fmt.Fprint(p.w, "\r"+line+"\x1b[K")
	case progressLines:
		line := fmt.Sprintf("%d of %d blocks (%d %%)", s.done, s.total, percent)
		if rate > 0 {
			line += fmt.Sprintf(", %.1f Mpixel/s", rate/1e6)
		}
		if left >= 0 && s.done < s.total {
			line += ", about " + roughly(left) + " left"
		}
		if s.stage != "" {
			line += ", bottleneck " + s.stage
		}
		if why := p.waiting.text(); why != "" {
			line += ", " + why
		}
		fmt.Fprintln(p.w, line)
	case progressJSON:
		e := progressEvent{"progress", s.done, s.total, s.pixels, s.at.Sub(p.start).Seconds(), rate, nil, s.stage}
		if left >= 0 {
			sec := left.Seconds()
			e.Left = &sec
		}
		if j, err := json.Marshal(e); err == nil {
			p.w.Write(append(j, '\n'))
		}
	}
}

// progressEvent is a line of --json.
type progressEvent struct {
	Event   string   `json:"event"`
	Blocks  int      `json:"blocks"`
	Total   int      `json:"total"`
	Pixels  int64    `json:"pixels"`
	Elapsed float64  `json:"elapsed_s"`
	Rate    float64  `json:"pixels_per_s"`
	Left    *float64 `json:"eta_s"` // null where unknown
	Stage   string   `json:"bottleneck,omitempty"`
}

// reckon gives pixels per second over the history, and the time left, -1 where unknown.
func (p *progress) reckon(s progressState) (rate float64, left time.Duration) {
	from := p.history[0]
	sec := s.at.Sub(from.at).Seconds()
	if sec <= 0 {
		return 0, -1
	}
	rate = float64(s.pixels-from.pixels) / sec
	if s.done >= s.total {
		return rate, 0
	}
	return rate, p.left(s)
}

// left is the time left, -1 where unknown. What was before the first block, such as the start of
// workers, does not count. Workers end their first blocks at about the same time: as long as one
// took, those of a second round are waited for.
func (p *progress) left(s progressState) time.Duration {
	if p.first.at.IsZero() || s.at.Sub(p.first.at) < min(progressHistory,
		max(progressEarly, p.first.at.Sub(p.begun()))) {
		return -1
	}
	from := p.history[0]
	if from.at.Before(p.first.at) {
		from = p.first
	}
	if s.done <= from.done {
		return -1
	}
	return time.Duration(s.at.Sub(from.at).Seconds() / float64(s.done-from.done) * float64(s.total-s.done) * 1e9)
}

// begun is when this run began with its blocks, as far as is known.
func (p *progress) begun() time.Time {
	if p.before.at.IsZero() {
		return p.start
	}
	return p.before.at
}

// finish ends the progress: the live line goes away, events end with the last state. The caller
// reports err; after an error nothing more is shown of the blocks.
func (p *progress) finish(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.finished {
		return
	}
	p.finished = true
	switch {
	case p.mode == progressLine && !p.shown.IsZero():
		fmt.Fprint(p.w, "\r\x1b[K")
	case p.mode == progressLines && !p.shown.IsZero() && err == nil:
		d := p.now().Sub(p.start)
		fmt.Fprintf(p.w, "%d of %d blocks in %s, %.1f Mpixel/s\n", p.last.done, p.last.total, timing.FormatDuration(d),
			float64(p.last.pixels-p.before.pixels)/1e6/max(1e-9, d.Seconds()))
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

// roughly gives a duration as people say it: "8 s", "3 min", "2 h 10 min".
func roughly(d time.Duration) string {
	switch {
	case d < time.Second:
		return "1 s"
	case d < 99500*time.Millisecond:
		return fmt.Sprintf("%.0f s", d.Seconds())
	case d < 99*time.Minute+30*time.Second:
		return fmt.Sprintf("%.0f min", d.Minutes())
	}
	d = d.Round(time.Minute)
	return fmt.Sprintf("%d h %d min", int(d.Hours()), int(d.Minutes())%60)
}
