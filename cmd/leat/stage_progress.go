package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"leat/internal/units"
	"leat/objstore"
)

// stageProgress shows the progress of a command that copies objects. Its counts may be
// changed by many goroutines.
type stageProgress struct {
	w    io.Writer
	mode progressMode
	what string

	known, done, failed atomic.Int64 // objects
	counting            atomic.Bool  // more objects may become known
	bytes               atomic.Int64 // that came from sources
	waiting             *waiting     // for a source; nil: never

	mu    sync.Mutex
	start time.Time
	shown bool
}

func newStageProgress(w io.Writer, what string) *stageProgress {
	return &stageProgress{w: w, mode: chooseProgress(os.Stderr), what: what, start: time.Now()}
}

// waiting holds why requests have to be made again. Its zero value is ready, and it may be used by
// many goroutines.
type waiting struct {
	mu     sync.Mutex
	reason string
	at     time.Time
}

// waitingFor is how long a reason is shown: twice as long as the longest pause before the next
// attempt.
const waitingFor = 10 * time.Second

// note notes why a request is made again.
func (w *waiting) note(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.reason, w.at = retryReason(err), time.Now()
}

// text returns the words for a line of progress; "" where nothing is waited for.
func (w *waiting) text() string {
	if w == nil {
		return ""
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.reason == "" || time.Since(w.at) > waitingFor {
		return ""
	}
	return "trying again: " + w.reason
}

// run shows the progress now and then while op runs.
func (p *stageProgress) run(op func() error) error {
	every := progressLog
	if p.mode == progressLine {
		every = progressRedraw
	}
	end, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				p.show()
			case <-end:
				p.clear()
				return
			}
		}
	}()
	err := op()
	close(end)
	<-ended
	return err
}

func (p *stageProgress) show() {
	p.mu.Lock()
	defer p.mu.Unlock()
	text := p.text(time.Since(p.start))
	if p.mode != progressLine {
		fmt.Fprintln(p.w, text)
		return
	}
	p.shown = true
	fmt.Fprint(p.w, "\r"+text+"\x1b[K")
}

// clear takes the live line away.
func (p *stageProgress) clear() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clearLine()
}

func (p *stageProgress) clearLine() {
	if p.shown {
		fmt.Fprint(p.w, "\r\x1b[K")
		p.shown = false
	}
}

// print writes messages above the live line.
func (p *stageProgress) print(list []message) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clearLine()
	printMessages(p.w, errorPrefix, list)
}

func (p *stageProgress) text(so time.Duration) string {
	known, done, failed, bytes := p.known.Load(), p.done.Load(), p.failed.Load(), p.bytes.Load()
	text := fmt.Sprintf("%s, %s so far: %d of ", p.what, roughly(so), done+failed)
	if p.counting.Load() {
		text += "at least "
	}
	text += units.Count(known, "object")
	if bytes > 0 {
		text += ", " + units.FormatSize(bytes)
		if so >= time.Second {
			text += " (" + units.FormatSize(int64(float64(bytes)/so.Seconds())) + "/s)"
		}
	}
	if failed > 0 {
		text += fmt.Sprintf(", %d failed", failed)
	}
	if why := p.waiting.text(); why != "" {
		text += ", " + why
	}
	// Objects may differ much in size: the time left is shown when a tenth has come.
	if all := done + failed; so > 2*time.Second && !p.counting.Load() && all*10 >= known && all < known {
		text += ", about " + roughly(time.Duration(float64(so)*float64(known-all)/float64(all))) + " left"
	}
	return text
}

// counted is a bucket whose bytes are counted as they are read.
type counted struct {
	*objstore.Bucket
	n *atomic.Int64
}

func (c counted) Read(ctx context.Context, name string, offset, length int64, match *objstore.Info) (objstore.Info,
	io.ReadCloser, error) {
	info, body, err := c.Bucket.Read(ctx, name, offset, length, match)
	if err != nil {
		return info, body, err
	}
	return info, &countedBody{body, c.n}, nil
}

type countedBody struct {
	io.ReadCloser
	n *atomic.Int64
}

func (b *countedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.n.Add(int64(n))
	return n, err
}

// retryReason returns the cause of a failed request in a few words and without the object's name,
// for a progress line.
func retryReason(err error) string {
	var e *objstore.Error
	var dns *net.DNSError
	switch {
	case errors.As(err, &e) && e.Status != 0:
		return strings.TrimSpace(fmt.Sprintf("%d %s", e.Status, http.StatusText(e.Status)))
	case errors.Is(err, objstore.ErrStalled):
		return "no answer"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "connection refused"
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF), errors.Is(err, syscall.ECONNRESET),
		errors.Is(err, syscall.EPIPE):
		return "connection broken"
	case errors.As(err, &dns):
		return "host not found"
	}
	return "network failure"
}
