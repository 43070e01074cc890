package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"leat/internal/units"
)

// endsWithin is how long an interrupted operation has to end by itself.
const endsWithin = time.Second

// watch runs an operation that may take minutes and shows that it goes on: what, how long,
// and, where done knows a total, how far. When ctx ends before the operation does, watch returns
// the cause and lets it be: the process is about to end, and every operation on a cache may end at
// any point.
func watch(ctx context.Context, people io.Writer, what string, done func() (done, total int64), op func() error) error {
	ended := make(chan error, 1)
	go func() { ended <- op() }()
	p := &watching{w: people, mode: chooseProgress(os.Stderr), what: what, done: done}
	return p.until(ctx, ended)
}

// watching shows that an operation goes on.
type watching struct {
	w    io.Writer
	mode progressMode
	what string
	done func() (done, total int64) // nil if the progress is not known

	seen []progressSample // of the last progressHistory, the oldest first
}

type progressSample struct {
	at   time.Duration
	done int64
}

func (p *watching) until(ctx context.Context, ended <-chan error) error {
	every := progressLog
	if p.mode == progressLine {
		every = progressRedraw
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	start, shown := time.Now(), false
	clearLine := func() {
		if shown && p.mode == progressLine {
			fmt.Fprint(p.w, "\r\x1b[K")
		}
	}
	for {
		select {
		case err := <-ended:
			clearLine()
			return err
		case <-ctx.Done():
			clearLine()
			select {
			case err := <-ended:
				return err
			case <-time.After(endsWithin):
				return context.Cause(ctx)
			}
		case <-tick.C:
			shown = true
			if text := p.text(time.Since(start)); p.mode == progressLine {
				fmt.Fprint(p.w, "\r"+text+"\x1b[K")
			} else {
				fmt.Fprintln(p.w, text)
			}
		}
	}
}

func (p *watching) text(so time.Duration) string {
	text := p.what + ", " + roughly(so) + " so far"
	if p.done == nil {
		return text
	}
	done, total := p.done()
	done = min(done, total)
	left := p.left(so, done, total)
	if done <= 0 {
		return text
	}
	text += fmt.Sprintf(": %s of %s (%d %%)", units.FormatSize(done), units.FormatSize(total), int64(100*float64(done)/float64(total)))
	if left > 0 {
		text += ", about " + roughly(left) + " left"
	}
	return text
}

// left estimates the time left from the rate of the last seconds, since what comes first may be
// slower or quicker than the rest. It returns 0 where they tell nothing.
func (p *watching) left(so time.Duration, done, total int64) time.Duration {
	if p.seen == nil {
		p.seen = []progressSample{{}}
	}
	p.seen = append(p.seen, progressSample{so, done})
	for so-p.seen[1].at >= progressHistory {
		p.seen = p.seen[1:]
	}
	first := p.seen[0]
	if so-first.at <= time.Second || done <= first.done {
		return 0
	}
	return time.Duration(float64(so-first.at) * float64(total-done) / float64(done-first.done))
}
