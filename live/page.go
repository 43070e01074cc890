package live

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"math"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Options say what a page shows.
type Options struct {
	// Title names the run, such as its outputs.
	Title string
	// Status returns what the run is doing. It is called by one goroutine, once a second from
	// Listen on, and a last time by Close. It must not wait for the run.
	Status func() Status
	// Collectors are served besides the run's own metrics.
	Collectors []prometheus.Collector
	// Logger receives failures of connections; nil discards them.
	Logger *slog.Logger
}

// Page serves what a run is doing. Its methods may be called by several goroutines at once.
type Page struct {
	o        Options
	every    time.Duration // between two looks at the status
	patience time.Duration // for a client to send a request, and to take an answer or an event

	lastWait  time.Duration // of Close, for the last event to go out
	following atomic.Int64  // clients that events are sent to

	mu      sync.Mutex
	server  *http.Server // nil before Listen
	ended   chan error   // of the server
	closing chan struct{}
	stopped chan struct{} // closed after the last look
	closed  bool
	now     *look
}

// look is what was seen at one moment.
type look struct {
	status Status
	json   []byte
	next   chan struct{} // closed when there is a newer one
	last   bool
}

// New returns a page that is not served yet.
func New(o Options) *Page {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return &Page{o: o, every: time.Second, patience: 5 * time.Second, lastWait: 2 * time.Second,
		ended: make(chan error, 1), closing: make(chan struct{}), stopped: make(chan struct{}),
		now: &look{next: make(chan struct{})}}
}

// watch looks at the status each second until Close, and once more then.
func (p *Page) watch() {
	defer close(p.stopped)
	tick := time.NewTicker(p.every)
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
		p.show(s, h.points, last)
		if last {
			return
		}
	}
}

// finite is v, or 0 where v is nothing that can be shown: a rate over no time.
func finite(v float64) float64 {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return 0
	}
	return v
}

// show makes a status what is served.
func (p *Page) show(s Status, history []point, last bool) {
	shown := s
	shown.Messages = s.Messages[max(0, len(s.Messages)-MaxMessages):]
	text, err := json.Marshal(struct {
		Status
		History []point `json:"history"`
		Last    bool    `json:"last"`
	}{shown, history, last})
	if err != nil { // what JSON has not, such as the year 10000
		p.o.Logger.Warn("the live page can't show the status of the run", "error", err)
		text, _ = json.Marshal(map[string]any{"title": s.Title, "phase": s.Phase,
			"error": "the status can't be shown: " + err.Error(), "last": last})
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	close(p.now.next)
	p.now = &look{status: s, json: text, next: make(chan struct{}), last: last}
}

// latest returns what was seen last, waiting for the first look.
func (p *Page) latest(ctx context.Context) (*look, error) {
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

// lastEvents waits until the last event has gone out to all who follow. What is not large the
// kernel takes at once, but on a machine that does much else it takes a while until it is given it.
func (p *Page) lastEvents(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, p.lastWait)
	defer cancel()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for p.following.Load() > 0 {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// closeWait is how long Close waits for connections after the last event was sent. A connection
// that a browser opened in reserve and has not used counts as busy for seconds.
const closeWait = 250 * time.Millisecond

// Close looks at the status a last time, shows it to the pages that are open, and ends the serving.
// ctx bounds the wait for a Status that does not return, and for slow clients, who are cut off.
// Nothing is left running after it returned nil; a second call does nothing.
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
		p.lastEvents(ctx)
	case <-ctx.Done():
		err = errors.New("the status of the run was not to be had in time")
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
