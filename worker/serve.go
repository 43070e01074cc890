package worker

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"time"
)

// refused is why a message is refused.
type refused struct {
	status     int
	code, text string
	hangUp     bool // nothing more is read from the connection
}

func refuse(status int, code, format string, args ...any) *refused {
	return &refused{status: status, code: code, text: fmt.Sprintf(format, args...)}
}

// serve answers one message.
func (c *Channel) serve(w http.ResponseWriter, r *http.Request) {
	defer func() {
		if p := recover(); p != nil { // net/http would go on, and the run wait for ever
			c.end(fmt.Errorf("worker: the channel broke: %v\n%s", p, debug.Stack()))
		}
	}()
	k := r.Context().Value(connectionKey{}).(*connection)
	answer, no := c.dispatch(w, r, k)
	if no != nil {
		answer = refusal{Error: no.text, Code: no.code}
		if no.hangUp {
			w.Header().Set("Connection", "close")
			// net/http would wait without end for the rest of a small body.
			_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(c.times.Stranger))
		}
		c.log.Debug("a message was refused", "path", cut(shown(r.URL.Path), 64), "status", no.status, "why", no.text, "from", k.RemoteAddr())
	}
	b, err := json.Marshal(answer)
	if err != nil {
		panic(err)
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(b)))
	if no != nil {
		w.WriteHeader(no.status)
	}
	_, _ = w.Write(b) // a worker that is not there any more is noticed by its silence
}

func (c *Channel) dispatch(w http.ResponseWriter, r *http.Request, k *connection) (any, *refused) {
	if !k.trusted {
		if !c.showsToken(r) {
			c.count(func(f *Refused) { f.Token++ })
			return nil, &refused{http.StatusUnauthorized, "token", "the token is missing, or not that of this run", true}
		}
		c.gate.forget(k)
	}
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		return nil, &refused{http.StatusMethodNotAllowed, "method", "messages are sent by POST", true}
	}
	switch r.URL.Path {
	case pathJoin:
		return c.joined(w, r, k)
	case pathLease:
		return c.leased(w, r, k)
	case pathResult:
		return c.resulted(w, r, k)
	case pathError:
		return c.failed(w, r, k)
	case pathHeartbeat:
		return c.beat(w, r, k)
	case pathLeave:
		return c.left(w, r, k)
	}
	return nil, &refused{http.StatusNotFound, "path", "there is no such message", true}
}

// showsToken compares in a time that does not depend on what was sent.
func (c *Channel) showsToken(r *http.Request) bool {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	got, want := sha256.Sum256([]byte(token)), sha256.Sum256([]byte(c.token))
	return subtle.ConstantTimeCompare(got[:], want[:]) == 1 && strings.EqualFold(scheme, "Bearer")
}

func (c *Channel) count(f func(*Refused)) {
	c.mu.Lock()
	f(&c.refused)
	c.mu.Unlock()
}

// read reads a message whole: handlers wait afterwards, when net/http looks whether the worker is still there.
func read[T any, P checker[T]](c *Channel, w http.ResponseWriter, r *http.Request) (T, *refused) {
	var none T
	rc := http.NewResponseController(w)
	_ = rc.SetReadDeadline(time.Now().Add(c.times.Silence))
	data, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxMessage))
	_ = rc.SetReadDeadline(time.Time{})
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		c.count(func(f *Refused) { f.Malformed++ })
		return none, &refused{http.StatusRequestEntityTooLarge, "length", fmt.Sprintf("the message is longer than %d bytes", maxMessage), true}
	case err != nil:
		return none, c.broken(err)
	}
	m, err := decode[T, P](data)
	if err != nil {
		c.count(func(f *Refused) { f.Malformed++ })
		return none, refuse(http.StatusBadRequest, "malformed", "the message can't be read: %v", err)
	}
	return m, nil
}

// broken is the answer to a body that did not come.
func (c *Channel) broken(err error) *refused {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		c.count(func(f *Refused) { f.Slow++ })
		return &refused{http.StatusRequestTimeout, "slow", fmt.Sprintf("the body made no progress in %v", c.times.Silence), true}
	}
	return &refused{http.StatusBadRequest, "malformed", "the body ended early", true}
}

// member finds who sent a message, and notes that it was heard. The caller holds the lock.
func (c *Channel) member(k *connection, number int) (*member, *refused) {
	if number >= len(c.members) {
		c.refused.Lost++
		return nil, refuse(http.StatusNotFound, "worker", "no worker %d has joined", number)
	}
	m := c.members[number]
	if m.state != StateJoined {
		if m.state == StateLost {
			c.refused.Lost++
			return nil, refuse(http.StatusGone, "lost", "worker %d was taken for lost, and its blocks were given to others", number)
		}
		return nil, refuse(http.StatusGone, "left", "worker %d has left", number)
	}
	m.heard = time.Now()
	c.bind(k, m)
	return m, nil
}

func (c *Channel) joined(w http.ResponseWriter, r *http.Request, k *connection) (any, *refused) {
	j, no := read[joinMessage](c, w, r)
	if no != nil {
		return nil, no
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if no := c.unfit(j); no != nil {
		c.refused.Build++
		c.log.Warn("a worker was refused", "worker", j.Name, "host", j.Host, "why", no.text)
		return nil, no
	}
	if c.ended {
		return nil, c.isOver()
	}
	m := c.join(j, k.trusted, time.Now())
	c.bind(k, m)
	return joinAnswer{
		Worker: m.number, Workers: c.o.Workers, Slots: m.slots, Single: c.o.Single, MaxResult: c.o.MaxResult,
		Heartbeat: c.times.Heartbeat.Milliseconds(), Silence: c.times.Silence.Milliseconds(), Poll: c.times.Poll.Milliseconds(),
		Job: c.o.Job,
	}, nil
}

// unfit tells why a worker's results would not be those of the others.
func (c *Channel) unfit(j joinMessage) *refused {
	switch {
	case j.Protocol != protocol:
		return refuse(http.StatusForbidden, "build", "the worker speaks version %d of the protocol, the run version %d", j.Protocol, protocol)
	case c.o.Mixed:
	case j.Build != c.o.Build:
		return refuse(http.StatusForbidden, "build", "the worker is of build %q, the run of %q: their results may differ; use the same program everywhere, or allow mixed workers", j.Build, c.o.Build)
	case j.Arch != thisArch():
		return refuse(http.StatusForbidden, "build", "the worker runs on %s, the run on %s: their results may differ; allow mixed workers if that is no matter", j.Arch, thisArch())
	}
	return nil
}

func (c *Channel) isOver() *refused {
	return refuse(http.StatusGone, "ended", "the run has ended: %s", c.endWord())
}

func (c *Channel) leased(w http.ResponseWriter, r *http.Request, k *connection) (any, *refused) {
	q, no := read[leaseMessage](c, w, r)
	if no != nil {
		return nil, no
	}
	timer := time.NewTimer(milliseconds(q.Wait, c.times.Poll))
	defer timer.Stop()

	c.mu.Lock()
	m, no := c.member(k, q.Worker)
	if no != nil {
		c.mu.Unlock()
		return nil, no
	}
	released, returned := c.schedule.keep(m.number, q.Held)
	c.wake(returned)
	if m.poll != nil {
		close(m.poll)
	}
	replaced := make(chan struct{})
	m.poll = replaced
	var answer leaseAnswer
	for waiting := q.Wait > 0; ; {
		if c.open && !c.ended && m.poll == replaced {
			answer.Leases = c.grants(m, q.Want, time.Now())
		}
		if !waiting || len(answer.Leases) > 0 || c.ended || m.poll != replaced {
			break
		}
		var turn chan struct{}
		if c.schedule.isAlone(m.number) {
			turn = c.polls.aside()
		} else {
			turn = c.polls.add()
		}
		m.turn = turn
		c.mu.Unlock()
		c.release(released)
		released = nil
		select {
		case <-turn:
		case <-timer.C:
			waiting = false
		case <-replaced:
		case <-c.over:
		case <-r.Context().Done():
		}
		c.mu.Lock()
		if m.turn == turn {
			m.turn = nil
		}
		if r.Context().Err() != nil && m.poll == replaced { // nobody would get the blocks
			close(replaced)
			m.poll = nil
		}
		if !c.polls.remove(turn) && m.poll != replaced {
			c.polls.wake(1) // it was our turn, and we don't take it
		}
	}
	if m.poll == replaced {
		m.poll = nil
	}
	if c.ended {
		answer.End = c.endWord()
	} else if m.state == StateLost {
		_, no = c.member(k, q.Worker)
	}
	c.mu.Unlock()
	c.release(released)
	if no != nil {
		return nil, no
	}
	answer.Note, answer.Noted = c.noteFor(q.Noted)
	return answer, nil
}

// grants takes blocks for a worker.
func (c *Channel) grants(m *member, want int, now time.Time) (grants []leaseGrant) {
	last := c.schedule.lastTry.len()
	for _, l := range c.schedule.take(m.number, want, now) {
		m.had = true
		grants = append(grants, leaseGrant{Lease: l.id, Block: l.block, Payload: c.payloads[l.block]})
	}
	if last == 1 && c.schedule.lastTry.len() == 0 {
		c.polls.wake(math.MaxInt) // others were kept waiting for it
	}
	return grants
}

func (c *Channel) beat(w http.ResponseWriter, r *http.Request, k *connection) (any, *refused) {
	q, no := read[heartbeatMessage](c, w, r)
	if no != nil {
		return nil, no
	}
	timer := time.NewTimer(milliseconds(q.Wait, c.times.Poll))
	defer timer.Stop()
	if no := c.dropped(k, q); no != nil {
		return nil, no
	}
	var answer heartbeatAnswer
	for waiting, first := q.Wait > 0, true; ; first = false {
		c.mu.Lock()
		m, no := c.member(k, q.Worker)
		if no != nil {
			if !first && no.code == "lost" {
				c.refused.Lost-- // no message was refused: it is told the news
			}
			c.mu.Unlock()
			return nil, no
		}
		var news bool
		answer.Superseded, news = c.schedule.lostTo(m.number)
		if c.ended {
			answer.End = c.endWord()
		}
		c.mu.Unlock()
		if !waiting || news || answer.End != "" {
			break
		}
		select {
		case <-m.push:
		case <-timer.C:
			waiting = false
		case <-c.over:
		case <-r.Context().Done():
			waiting = false
		}
	}
	answer.Note, answer.Noted = c.noteFor(q.Noted)
	return answer, nil
}

// dropped ends leases that a worker has no use for.
func (c *Channel) dropped(k *connection, q heartbeatMessage) *refused {
	if len(q.Dropped) == 0 {
		return nil
	}
	c.mu.Lock()
	m, no := c.member(k, q.Worker)
	if no != nil {
		c.mu.Unlock()
		return no
	}
	released, ended := c.schedule.drop(m.number, q.Dropped)
	c.wake(ended)
	c.polls.wakeThis(m.turn)
	c.mu.Unlock()
	c.release(released)
	return nil
}

func (c *Channel) failed(w http.ResponseWriter, r *http.Request, k *connection) (any, *refused) {
	q, no := read[errorMessage](c, w, r)
	if no != nil {
		return nil, no
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	m, no := c.member(k, q.Worker)
	if no != nil {
		return nil, no
	}
	if q.Lease != 0 {
		switch c.schedule.judge(m.number, q.Lease, q.Block) {
		case takeIt:
		case noBlock:
			c.refused.Block++
			return nil, refuse(http.StatusNotFound, "block", "the run has no block %d", q.Block)
		case superseded, tookIt: // the lease is given back with the next request for blocks
			return nil, refuse(http.StatusConflict, "superseded", "block %d is done", q.Block)
		default:
			c.refused.Lease++
			return nil, refuse(http.StatusConflict, "lease", "the worker has no lease %d of block %d", q.Lease, q.Block)
		}
	}
	c.endLocked(&Failure{Kind: m.kind, Worker: m.name, Host: m.host, Block: q.Block, Message: q.Message, Stack: q.Stack, Code: q.Code})
	return struct{}{}, nil
}

func (c *Channel) left(w http.ResponseWriter, r *http.Request, k *connection) (any, *refused) {
	q, no := read[leaveMessage](c, w, r)
	if no != nil {
		return nil, no
	}
	c.mu.Lock()
	m, no := c.member(k, q.Worker)
	if no != nil {
		c.mu.Unlock()
		return nil, no
	}
	if q.Message != "" {
		c.closedBadly(&Failure{Kind: m.kind, Worker: m.name, Host: m.host, Block: -1, Message: q.Message, Stack: q.Stack, Code: q.Code})
	}
	m.state = StateLeft
	m.nudge()
	l := c.depart(m, false)
	if !c.ended {
		c.log.Info("a worker has left", "worker", m.name, "host", m.host, "blocks", m.done)
	}
	c.settle(time.Now())
	c.mu.Unlock()
	c.release(l.released)
	return struct{}{}, nil
}

// closedBadly ends the run, or makes its good end a bad one.
func (c *Channel) closedBadly(f *Failure) {
	if c.ended && c.cause == nil {
		c.cause = f
		return
	}
	c.endLocked(f)
}

// accept hands a result to its taker. A panic there must end the run, not the connection.
func (c *Channel) accept(ctx context.Context, r *Result) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	return c.o.Accept(ctx, r)
}
