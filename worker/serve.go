package worker

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
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
	b, err := encode(answer)
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
	var other *otherProtocol
	if errors.As(err, &other) {
		c.count(func(f *Refused) { f.Build++ })
		c.log.Warn("a worker was refused", "why", other)
		return none, other.refused()
	}
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
	case c.o.Mixed:
	case j.Build != c.o.Build:
		return refuse(http.StatusForbidden, "build", "the worker is of build %q, the run of %q: their results may differ; use the same program everywhere, or allow mixed workers", j.Build, c.o.Build)
	case j.Arch != thisArch():
		return refuse(http.StatusForbidden, "build", "the worker runs on %s, the run on %s: their results may differ; allow mixed workers if that is no matter", j.Arch, thisArch())
	}
	return nil
}

// isOver is the answer to a message that comes after the end, which may be a good one: then it is no news of its sender's work.
func (c *Channel) isOver() *refused {
	if c.endWord() == endDone {
		return refuse(http.StatusGone, "done", "the run has ended: all blocks are done")
	}
	return refuse(http.StatusGone, "ended", "the run has ended: it failed")
}

// poll is a request for blocks under way.
type poll struct {
	k        *connection
	q        leaseMessage
	m        *member
	waiting  bool          // its answer may wait
	replaced chan struct{} // closed when another takes its place
	turn     chan struct{} // where it waits
	released []int         // to be told once the lock is given up
	answer   leaseAnswer
}

func (c *Channel) leased(w http.ResponseWriter, r *http.Request, k *connection) (any, *refused) {
	q, no := read[leaseMessage](c, w, r)
	if no != nil {
		return nil, no
	}
	timer := time.NewTimer(milliseconds(q.Wait, c.times.Poll))
	defer timer.Stop()
	p := &poll{k: k, q: q, waiting: q.Wait > 0, replaced: make(chan struct{})}
	again, no := c.begin(p)
	for again {
		c.release(p.released)
		select {
		case <-p.turn:
		case <-timer.C:
			p.waiting = false
		case <-p.replaced:
		case <-c.over:
		case <-r.Context().Done():
		}
		again, no = c.goOn(p, r.Context().Err() != nil)
	}
	c.release(p.released)
	if no != nil {
		return nil, no
	}
	p.answer.Note, p.answer.Noted = c.noteFor(q.Noted)
	return p.answer, nil
}

// begin has a poll take the place of the last of its worker. again: it waits.
func (c *Channel) begin(p *poll) (again bool, no *refused) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if p.m, no = c.member(p.k, p.q.Worker); no != nil {
		return false, no
	}
	var returned int
	p.released, returned = c.schedule.keep(p.m.number, p.q.Held)
	c.wake(returned)
	if p.m.poll != nil {
		close(p.m.poll)
	}
	p.m.poll = p.replaced
	return c.fill(p)
}

// goOn looks again for blocks for a poll that has waited.
func (c *Channel) goOn(p *poll, gone bool) (again bool, no *refused) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p.released = nil
	if p.m.turn == p.turn {
		p.m.turn = nil
	}
	if gone && p.m.poll == p.replaced { // nobody would get the blocks
		close(p.replaced)
		p.m.poll = nil
	}
	if !c.polls.remove(p.turn) && (p.m.poll != p.replaced || c.schedule.full(p.m.number, p.q.Want)) {
		c.polls.wake(1) // it was our turn, and we don't take it
	}
	return c.fill(p)
}

// fill gives a poll what there is. again: there is nothing, and it waits.
func (c *Channel) fill(p *poll) (again bool, no *refused) {
	m := p.m
	if c.open && !c.ended && m.poll == p.replaced {
		p.answer.Leases = c.grants(m, p.q.Want, time.Now())
	}
	if p.waiting && len(p.answer.Leases) == 0 && !c.ended && m.poll == p.replaced {
		if c.schedule.full(m.number, p.q.Want) {
			p.turn = c.polls.aside()
		} else {
			p.turn = c.polls.add()
		}
		m.turn = p.turn
		return true, nil
	}
	if m.poll == p.replaced {
		m.poll = nil
	}
	if c.ended {
		p.answer.End = c.endWord()
	} else if m.state == StateLost {
		_, no = c.member(p.k, p.q.Worker)
	}
	return false, no
}

// grants takes blocks for a worker: one at a time, until their payloads are enough for an answer.
func (c *Channel) grants(m *member, want int, now time.Time) (grants []leaseGrant) {
	last := c.schedule.lastTry.len()
	for bytes := 0; len(grants) < want && bytes < maxPayload; {
		taken := c.schedule.take(m.number, 1, now)
		if len(taken) == 0 {
			break
		}
		l := taken[0]
		m.had = true
		grants = append(grants, leaseGrant{Lease: l.id, Block: l.block, Payload: c.payloads[l.block]})
		bytes += len(c.payloads[l.block])
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
	// Not longer than a heartbeat: a worker that waits for its answer is silent.
	timer := time.NewTimer(milliseconds(q.Wait, c.times.Heartbeat))
	defer timer.Stop()
	if no := c.dropped(k, q); no != nil {
		return nil, no
	}
	var answer heartbeatAnswer
	for waiting, first := q.Wait > 0, true; ; first = false {
		m, news, no := c.news(k, q.Worker, first, &answer)
		if no != nil {
			return nil, no
		}
		if !waiting || news {
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

// news is what a heartbeat's answer tells a worker. first: its message has just come.
func (c *Channel) news(k *connection, worker int, first bool, answer *heartbeatAnswer) (m *member, news bool, no *refused) {
	c.mu.Lock()
	defer c.mu.Unlock()
	m, no = c.member(k, worker)
	if no != nil {
		if !first && no.code == "lost" {
			c.refused.Lost-- // no message was refused: it is told the news
		}
		return nil, false, no
	}
	answer.Superseded, news = c.schedule.lostTo(m.number)
	if c.ended {
		answer.End = c.endWord()
	}
	return m, news || c.ended, nil
}

// dropped ends leases that a worker has no use for.
func (c *Channel) dropped(k *connection, q heartbeatMessage) (no *refused) {
	if len(q.Dropped) == 0 {
		return nil
	}
	var released []int
	func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		var m *member
		if m, no = c.member(k, q.Worker); no != nil {
			return
		}
		var ended int
		released, ended = c.schedule.drop(m.number, q.Dropped)
		c.wake(ended)
		c.polls.wakeThis(m.turn)
	}()
	c.release(released)
	return no
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
	released, no := c.takeLeave(k, q)
	c.release(released)
	return struct{}{}, no
}

func (c *Channel) takeLeave(k *connection, q leaveMessage) (released []int, no *refused) {
	c.mu.Lock()
	defer c.mu.Unlock()
	m, no := c.member(k, q.Worker)
	if no != nil {
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
	return l.released, nil
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
