package live

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// Options configure a Page.
type Options struct {
	// Title names the run, for example by the files of its outputs.
	Title string
	// Status returns the state of the run. One goroutine calls it: once a second after Listen, and
	// a last time during Close. It must not wait for the run.
	Status func() Status
	// Token is what requests have to send, at least 16 characters. Default: a random one.
	Token string
	// Logger receives failures of connections. Default: none.
	Logger *slog.Logger
}

// Page serves the status of a run. Its methods may be called concurrently.
type Page struct {
	o              Options
	interval       time.Duration // between two calls of Status
	clientTimeout  time.Duration // for a client to send a request, and to read an answer or an event
	lastEventLimit time.Duration // how long Close waits until the last event was sent
	followers      atomic.Int64  // clients that receive events

	mu      sync.Mutex
	server  *http.Server // nil before Listen
	ended   chan error   // of the server
	closing chan struct{}
	stopped chan struct{} // closed after the last snapshot
	closed  bool
	now     *snapshot
}

// snapshot is the status at one time.
type snapshot struct {
	status Status
	json   []byte        // nil before the first one
	next   chan struct{} // closed when there is a newer one
	last   bool
}

// New returns a Page, which Listen serves.
func New(o Options) *Page {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return &Page{o: o, interval: time.Second, clientTimeout: 5 * time.Second, lastEventLimit: 2 * time.Second,
		ended: make(chan error, 1), closing: make(chan struct{}), stopped: make(chan struct{}),
		now: &snapshot{next: make(chan struct{})}}
}

// watch takes a snapshot each second until Close, and a last one then.
func (p *Page) watch() {
	defer close(p.stopped)
	tick := time.NewTicker(p.interval)
	defer tick.Stop()
	var h history
	for n := 0; ; n++ {
		last := false
		if n > 0 {
			select {
			case <-tick.C:
			case <-p.closing:
				last = true
			}
		}
		s := p.o.Status()
		if s.Title == "" {
			s.Title = p.o.Title
		}
		if s.Elapsed == 0 && !s.Started.IsZero() {
			s.Elapsed = time.Since(s.Started)
		}
		s.Rate, s.MeanRate = finite(s.Rate), finite(s.MeanRate)
		h.add(point{int64(s.Elapsed), s.Pixels, int64(s.Blocks.Done)}, last)
		p.publish(s, h.points, last)
		if last {
			return
		}
	}
}

// finite returns v, or 0 for a rate over no time.
func finite(v float64) float64 {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return 0
	}
	return v
}

// publish makes a status the one that is served.
func (p *Page) publish(s Status, history []point, last bool) {
	shown := s
	shown.Messages = s.Messages[max(0, len(s.Messages)-maxMessages):]
	text, err := json.Marshal(struct {
		Status
		History []point `json:"history"`
		Last    bool    `json:"last"`
	}{shown, history, last})
	if err != nil { // a value that JSON can't express, such as the year 10000
		p.o.Logger.Warn("status not shown", "error", err)
		text, _ = json.Marshal(map[string]any{"title": s.Title, "phase": s.Phase,
			"error": "the status can't be shown: " + err.Error(), "last": last})
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	close(p.now.next)
	p.now = &snapshot{status: s, json: text, next: make(chan struct{}), last: last}
}

// latest returns the latest snapshot and waits for the first one.
func (p *Page) latest(ctx context.Context) (*snapshot, error) {
	for {
		p.mu.Lock()
		l := p.now
		p.mu.Unlock()
		if l.json != nil {
			return l, nil
		}
		select {
		case <-l.next:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// waitForLastEvents waits until all followers were sent the last event. The kernel buffers small
// events at once, but on a busy machine it takes a while until the followers' goroutines run.
func (p *Page) waitForLastEvents(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, p.lastEventLimit)
	defer cancel()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for p.followers.Load() > 0 {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// closeWait is how long Close waits for connections after the last event was sent. One that a
// browser opened in advance and has not used counts as busy for seconds.
const closeWait = 250 * time.Millisecond

// Close sends the last status to the open pages and stops serving. ctx bounds the wait for a Status
// that does not return, and for slow clients, whose connections are then closed. After Close has
// returned nil, nothing is left running. It may be called again.
func (p *Page) Close(ctx context.Context) error {
	p.mu.Lock()
	if p.closed || p.server == nil {
		p.closed = true
		p.mu.Unlock()
		return nil
	}
	p.closed = true
	close(p.closing)
	p.mu.Unlock()

	var err error
	select {
	case <-p.stopped:
		p.waitForLastEvents(ctx)
	case <-ctx.Done():
		err = fmt.Errorf("last status of the run: %w", context.Cause(ctx))
	}
	soon, cancel := context.WithTimeout(ctx, closeWait)
	defer cancel()
	if p.server.Shutdown(soon) != nil {
		err = errors.Join(err, p.server.Close())
	}
	if ended := <-p.ended; !errors.Is(ended, http.ErrServerClosed) {
		err = errors.Join(err, ended)
	}
	return err
}

// point is the progress at a time since the run's start. In JSON it is an array.
type point [3]int64 // ns, pixels, blocks

// maxPoints is the number of points that a history keeps: more than the page has columns to draw,
// and 10 KB of JSON.
const maxPoints = 512

// history keeps points of the whole run. When it is full, it drops every second point, and keeps
// half as many of the following ones.
type history struct {
	points []point
	added  int
	skip   int // points dropped after each kept one
}

// add keeps a point if it is its turn or the last one.
func (h *history) add(p point, last bool) {
	if h.added%(h.skip+1) == 0 || last {
		h.points = append(h.points, p)
	}
	h.added++
	if len(h.points) < maxPoints {
		return
	}
	for i := range len(h.points) / 2 {
		h.points[i] = h.points[2*i]
	}
	h.points = h.points[:len(h.points)/2]
	h.skip = 2*h.skip + 1
}
