package objstore

import (
	"context"
	"errors"
	"math"
	"net"
	"net/http"
	"sync"
	"syscall"
	"time"

	"leat/internal/backoff"
)

// A server with a rate limit refuses most requests above it, while other failures do not depend on
// the rate. So a server counts as overloaded only if it refuses more requests than it answers. The
// rate is then set to a fraction of the rate of answers. From then on only requests that started at
// the new rate count, so that each overload lowers the rate once. Each answer raises the rate.
const (
	rateShare   = 0.5              // share of refused requests above which the server is overloaded
	rateWeight  = 1.0 / 16         // weight of one outcome in the share: 11 refusals in a row are an overload
	rateCut     = 0.7              // new rate as a fraction of the rate of answers, as in AWS's adaptive retries
	rateGrowth  = 64               // answers that raise the rate by a factor of e
	rateRestart = 10               // new rate if the server has not answered since the last cut
	rateMin     = 1                // minimum
	rateMemory  = 30 * time.Second // an overload is forgotten after this time
	// rateBlame is the number of failures in a row up to which a request counts as evidence of
	// overload. Further failures more likely concern its own object.
	rateBlame = 3
)

// pace spaces the starts of all requests to one server. It delays none until the server is
// overloaded.
type pace struct {
	turn chan struct{} // held by the goroutine that waits for the next start; nil if there is only one

	mu          sync.Mutex
	reached     bool      // the server answered at least once
	recent      float64   // answers in the last second, with exponential decay
	answered    time.Time // time of the last answer
	busy        time.Time // start of the latest series of answers less than a second apart
	refused     float64   // share of refusals among the outcomes, with exponential decay
	rate        float64   // starts a second; 0: unlimited
	doublesUpTo float64   // below it, each answer adds 1 to the rate, which so doubles each second
	next        time.Time // when the next request may start
	slowed      time.Time // when the rate was last lowered; failures of earlier requests are ignored
	hold        time.Time // end of the pause that the server asked for
	reason      error     // the error with which it asked
}

// newPace returns a pace for the requests of many goroutines. The zero value is one for those of a
// single goroutine.
func newPace() *pace { return &pace{turn: make(chan struct{}, 1)} }

// paceOf returns the pace shared by src's requests, or own if it shares none.
func paceOf(src Source, own *pace) *pace {
	if s, ok := src.(interface{ sharedPace() *pace }); ok && s.sharedPace() != nil {
		return s.sharedPace()
	}
	return own
}

// enter waits until a request may start, and reports whether the server answered others during the
// wait. If the server asks to wait longer than limit, enter returns the server's error.
func (p *pace) enter(ctx context.Context, limit time.Duration) (progress bool, err error) {
	begin := time.Now()
	if p.turn != nil {
		select {
		case p.turn <- struct{}{}:
		case <-ctx.Done():
			return false, context.Cause(ctx)
		}
		defer func() { <-p.turn }()
	} else if ctx.Err() != nil {
		return false, context.Cause(ctx)
	}
	for {
		wait, err := p.take(limit)
		if err == nil && wait > 0 {
			err = backoff.Sleep(ctx, wait)
		}
		if err != nil {
			return false, err
		}
		if wait <= 0 {
			return p.answeredSince(begin), nil
		}
	}
}

func (p *pace) answeredSince(t time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.answered.After(t)
}

// take reserves the next start if it is due, and returns the time until then.
func (p *pace) take(limit time.Duration) (time.Duration, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	if p.rate > 0 && now.Sub(p.slowed) > rateMemory {
		p.rate = 0
	}
	at := p.hold
	if p.rate > 0 && p.next.After(at) {
		at = p.next
	}
	wait := at.Sub(now)
	if held := p.hold.Sub(now); held > limit {
		return 0, p.reason
	}
	if wait <= 0 && p.rate > 0 {
		p.next = now.Add(time.Duration(float64(time.Second) / p.rate))
	}
	return wait, nil
}

// note records the outcome of a request; err is nil or its failure.
func (p *pace) note(err error) {
	if err != nil && !isAnswer(err) {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.reached = true
	if err != nil && Temporary(err) {
		return
	}
	now := time.Now()
	if now.Sub(p.answered) > time.Second {
		p.recent, p.busy = 0, now
	}
	p.recent, p.answered = p.recent*math.Exp(-now.Sub(p.answered).Seconds())+1, now
	p.refused -= p.refused * rateWeight
	switch {
	case p.rate == 0:
	case p.rate < p.doublesUpTo:
		p.rate++
	default:
		p.rate += p.rate / rateGrowth
	}
}

// answerRate returns the answers a second up to the last answer. mu is held.
func (p *pace) answerRate() float64 {
	observed := max(p.answered.Sub(p.busy), 10*time.Millisecond)
	return p.recent / (1 - math.Exp(-observed.Seconds()))
}

// slow counts a request that was refused for overload, and lowers the rate if too many were. asked
// is the pause that the server asks for; failed counts the request's failures in a row.
func (p *pace) slow(started time.Time, asked time.Duration, err error, failed int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	answering := p.answered.After(p.slowed)
	if failed > rateBlame && answering || !started.After(p.slowed) {
		return
	}
	if p.refused += (1 - p.refused) * rateWeight; p.refused <= rateShare {
		return
	}
	now := time.Now()
	if until := now.Add(asked); asked > 0 && until.After(p.hold) {
		p.hold, p.reason = until, err
	}
	if answering {
		p.doublesUpTo = max(rateMin, rateCut*p.answerRate())
		if p.rate > 0 {
			p.doublesUpTo = min(p.doublesUpTo, max(rateMin, rateCut*p.rate))
		}
		p.rate = p.doublesUpTo
	} else if p.rate == 0 || p.rate > rateRestart {
		p.rate = rateRestart
	}
	p.slowed, p.refused = now, 0
}

func (p *pace) isReached() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.reached
}

// isOverload reports whether err says that the server is overloaded or restarting, rather than that
// one object has a problem.
func isOverload(err error) bool {
	var e *Error
	if errors.As(err, &e) && e.Status != 0 {
		return e.Status == http.StatusTooManyRequests || e.Status == http.StatusServiceUnavailable
	}
	return errors.Is(err, syscall.ECONNREFUSED)
}

// isAnswer reports whether err is the response of a server.
func isAnswer(err error) bool {
	var e *Error
	return errors.As(err, &e) && e.Status != 0
}

// isUnreached reports whether a request reached no server.
func isUnreached(err error) bool {
	var op *net.OpError
	var dns *net.DNSError
	return errors.As(err, &dns) || errors.As(err, &op) && (op.Op == "dial" || op.Op == "proxyconnect")
}
