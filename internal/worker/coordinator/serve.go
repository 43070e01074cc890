package coordinator

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

	"leat/internal/worker/protocol"
	"leat/worker"
)

// refused is the reason for refusing a message.
type refused struct {
	status     int
	code, text string
	closeConn  bool // close the connection without reading on
}

func refuse(status int, code, format string, args ...any) *refused {
	return &refused{status: status, code: code, text: fmt.Sprintf(format, args...)}
}

// serve answers one message.
func (c *Coordinator) serve(w http.ResponseWriter, r *http.Request) {
	defer func() {
		if p := recover(); p != nil { // net/http would recover from it, and the run would hang
			c.end(fmt.Errorf("panic in the coordinator: %v\n%s", p, debug.Stack()))
		}
	}()
	k := r.Context().Value(connectionKey{}).(*connection)
	answer, no := c.dispatch(w, r, k)
	if no != nil {
		answer = protocol.Refusal{Error: no.text, Code: no.code}
		if no.closeConn {
			w.Header().Set("Connection", "close")
			// net/http would wait for the rest of a small body without limit.
			_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(c.times.ShutdownGrace))
		}
		c.log.Debug("message refused", "path", protocol.Truncate(protocol.Sanitize(r.URL.Path), 64), "status", no.status, "why", no.text,
			"from", k.RemoteAddr())
	}
	b, err := protocol.Encode(answer)
	if err != nil {
		panic(err)
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(b)))
	if no != nil {
		w.WriteHeader(no.status)
	}
	_, _ = w.Write(b) // a lost worker is detected by its silence
}

func (c *Coordinator) dispatch(w http.ResponseWriter, r *http.Request, k *connection) (any, *refused) {
	if !k.trusted {
		if !c.showsToken(r) {
			c.count(func(f *worker.Refused) { f.Token++ })
			return nil, &refused{http.StatusUnauthorized, "token", "missing or wrong token",
				true}
		}
		c.gate.forget(k)
	}
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		return nil, &refused{http.StatusMethodNotAllowed, "method", "messages are sent by POST", true}
	}
	switch r.URL.Path {
	case protocol.PathJoin:
		return c.handleJoin(w, r, k)
	case protocol.PathLease:
		return c.handleLease(w, r, k)
	case protocol.PathResult:
		return c.handleResult(w, r, k)
	case protocol.PathError:
		return c.handleError(w, r, k)
	case protocol.PathHeartbeat:
		return c.handleHeartbeat(w, r, k)
	case protocol.PathLeave:
		return c.handleLeave(w, r, k)
	}
	return nil, &refused{http.StatusNotFound, "path", "unknown path", true}
}

// showsToken reports whether a request has the token, in constant time.
func (c *Coordinator) showsToken(r *http.Request) bool {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	got, want := sha256.Sum256([]byte(token)), sha256.Sum256([]byte(c.token))
	return subtle.ConstantTimeCompare(got[:], want[:]) == 1 && strings.EqualFold(scheme, "Bearer")
}

func (c *Coordinator) count(f func(*worker.Refused)) {
	c.mu.Lock()
	f(&c.refused)
	c.mu.Unlock()
}

// read reads and decodes a whole message: handlers wait afterwards, while net/http watches the
// connection.
func read[T any, P protocol.Message[T]](c *Coordinator, w http.ResponseWriter, r *http.Request) (T, *refused) {
	return readUpTo[T, P](c, w, r, protocol.MaxMessage)
}

// stepReader reads a body, each step of which must arrive within the timeout.
type stepReader struct {
	body    io.Reader
	rc      *http.ResponseController
	timeout time.Duration
	left    int // of the current step
}

func (s *stepReader) Read(b []byte) (int, error) {
	if s.left == 0 {
		s.left = bodyStep
		_ = s.rc.SetReadDeadline(time.Now().Add(s.timeout))
	}
	n, err := s.body.Read(b[:min(len(b), s.left)])
	s.left -= n
	return n, err
}

// readUpTo is read for a message of at most limit bytes.
func readUpTo[T any, P protocol.Message[T]](c *Coordinator, w http.ResponseWriter, r *http.Request,
	limit int64) (T, *refused) {
	var none T
	rc := http.NewResponseController(w)
	data, err := io.ReadAll(&stepReader{body: http.MaxBytesReader(w, r.Body, limit), rc: rc,
		timeout: c.times.HeartbeatTimeout})
	_ = rc.SetReadDeadline(time.Time{})
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		c.count(func(f *worker.Refused) { f.Malformed++ })
		return none, &refused{http.StatusRequestEntityTooLarge, "length",
			fmt.Sprintf("the message is longer than %d bytes", limit), true}
	case err != nil:
		return none, c.bodyRefusal(err)
	}
	m, err := protocol.Decode[T, P](data)
	var other *protocol.VersionError
	if errors.As(err, &other) {
		c.count(func(f *worker.Refused) { f.Build++ })
		c.log.Warn("worker refused", "why", other)
		return none, refuse(http.StatusForbidden, "build", "%v", other)
	}
	if err != nil {
		c.count(func(f *worker.Refused) { f.Malformed++ })
		return none, refuse(http.StatusBadRequest, "malformed", "malformed message: %v", err)
	}
	return m, nil
}

// bodyRefusal returns the refusal of an incomplete body.
func (c *Coordinator) bodyRefusal(err error) *refused {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		c.count(func(f *worker.Refused) { f.Slow++ })
		return &refused{http.StatusRequestTimeout, "slow",
			fmt.Sprintf("the body made no progress in %v", c.times.HeartbeatTimeout), true}
	}
	return &refused{http.StatusBadRequest, "malformed", "the body ended early", true}
}

// member returns the sender of a message and updates when it was last heard. The caller holds mu.
func (c *Coordinator) member(k *connection, number int) (*member, *refused) {
	if number >= len(c.members) {
		c.refused.Lost++
		return nil, refuse(http.StatusNotFound, "worker", "no worker %d has joined", number)
	}
	m := c.members[number]
	if m.state != worker.StateJoined {
		if m.state == worker.StateLost {
			c.refused.Lost++
			return nil, refuse(http.StatusGone, "lost",
				"worker %d is lost, and its blocks were leased to others", number)
		}
		return nil, refuse(http.StatusGone, "left", "worker %d has left", number)
	}
	m.heard = time.Now()
	c.bind(k, m)
	return m, nil
}

func (c *Coordinator) handleJoin(w http.ResponseWriter, r *http.Request, k *connection) (any, *refused) {
	j, no := read[protocol.Join](c, w, r)
	if no != nil {
		return nil, no
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if no := c.checkBuild(j); no != nil {
		c.refused.Build++
		c.log.Warn("worker refused", "worker", j.Name, "host", j.Host, "why", no.text)
		return nil, no
	}
	if c.blocksOver() {
		return nil, c.endRefusal()
	}
	m := c.join(j, k.trusted, time.Now())
	c.bind(k, m)
	return protocol.JoinAnswer{
		Worker: m.number, Workers: c.o.Workers, Slots: m.slots, Single: c.o.OneBlockPerJob, MaxResult: c.o.MaxResult,
		MaxValue:  c.o.MaxValue,
		Heartbeat: c.times.Heartbeat.Milliseconds(), Silence: c.times.HeartbeatTimeout.Milliseconds(),
		Poll: c.times.Poll.Milliseconds(),
		Job:  c.o.Job,
	}, nil
}

// checkBuild returns a refusal if the worker's results may differ from those of others.
func (c *Coordinator) checkBuild(j protocol.Join) *refused {
	switch {
	case c.o.AllowMixedBuilds:
	case j.Build != c.o.Build:
		return refuse(http.StatusForbidden, "build",
			"the worker's build is %q, expected %q: results of different builds may differ", j.Build, c.o.Build)
	case j.Arch != protocol.ThisArch():
		return refuse(http.StatusForbidden, "build",
			"the worker's architecture is %s, expected %s: results may differ",
			j.Arch, protocol.ThisArch())
	}
	return nil
}

// endRefusal returns the refusal of messages after the end of the run.
func (c *Coordinator) endRefusal() *refused {
	if c.endName() == protocol.EndDone {
		return refuse(http.StatusGone, "done", "the run has ended: all blocks are done")
	}
	return refuse(http.StatusGone, "ended", "the run has ended: it failed")
}

// poll is a waiting request for blocks.
type poll struct {
	k        *connection
	q        protocol.LeaseRequest
	m        *member
	waiting  bool          // its answer may be delayed
	replaced chan struct{} // closed when a newer poll replaces it
	turn     chan struct{} // where it waits
	released []int         // to be released after unlocking
	answer   protocol.LeaseAnswer
}

func (c *Coordinator) handleLease(w http.ResponseWriter, r *http.Request, k *connection) (any, *refused) {
	q, no := read[protocol.LeaseRequest](c, w, r)
	if no != nil {
		return nil, no
	}
	timer := time.NewTimer(milliseconds(q.Wait, c.times.Poll))
	defer timer.Stop()
	p := &poll{k: k, q: q, waiting: q.Wait > 0, replaced: make(chan struct{})}
	again, no := c.beginPoll(p)
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
		again, no = c.resumePoll(p, r.Context().Err() != nil)
	}
	c.release(p.released)
	if no != nil {
		return nil, no
	}
	p.answer.Note, p.answer.Noted = c.noteFor(q.Noted)
	return p.answer, nil
}

// beginPoll lets a poll replace the previous one of its worker. again: it waits.
func (c *Coordinator) beginPoll(p *poll) (again bool, no *refused) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if p.m, no = c.member(p.k, p.q.Worker); no != nil {
		return false, no
	}
	var returned int
	p.released, returned = c.schedule.keepOnly(p.m.number, p.q.Held)
	c.wake(returned)
	if p.m.poll != nil {
		close(p.m.poll)
	}
	p.m.poll = p.replaced
	return c.fillPoll(p)
}

// resumePoll looks for blocks again after a poll has waited.
func (c *Coordinator) resumePoll(p *poll, gone bool) (again bool, no *refused) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p.released = nil
	if p.m.turn == p.turn {
		p.m.turn = nil
	}
	if gone && p.m.poll == p.replaced { // the worker would not receive the blocks
		close(p.replaced)
		p.m.poll = nil
	}
	if !c.polls.remove(p.turn) && (p.m.poll != p.replaced || c.schedule.isFull(p.m.number, p.q.Want)) {
		c.polls.wake(1) // pass the unused turn on
	}
	return c.fillPoll(p)
}

// fillPoll adds the available blocks to a poll's answer. again: there are none, and it waits.
func (c *Coordinator) fillPoll(p *poll) (again bool, no *refused) {
	m := p.m
	if c.open && !c.ended && m.poll == p.replaced {
		p.answer.Leases = c.takeLeases(m, p.q.Want, time.Now())
	}
	if p.waiting && len(p.answer.Leases) == 0 && !c.blocksOver() && m.poll == p.replaced {
		if c.schedule.isFull(m.number, p.q.Want) {
			p.turn = c.polls.newTurn()
		} else {
			p.turn = c.polls.add()
		}
		m.turn = p.turn
		return true, nil
	}
	if m.poll == p.replaced {
		m.poll = nil
	}
	if c.blocksOver() {
		p.answer.End = c.endName()
	} else if m.state == worker.StateLost {
		_, no = c.member(p.k, p.q.Worker)
	}
	return false, no
}

// takeLeases leases blocks to a worker one at a time, until their payloads fill an answer.
func (c *Coordinator) takeLeases(m *member, want int, now time.Time) (grants []protocol.Grant) {
	last := c.schedule.lastTry.len()
	for bytes := 0; len(grants) < want && bytes < protocol.MaxPayload; {
		taken := c.schedule.take(m.number, 1, now)
		if len(taken) == 0 {
			break
		}
		l := taken[0]
		m.hadBlock = true
		grants = append(grants, protocol.Grant{Lease: l.id, Block: l.block, Payload: c.payloads[l.block]})
		bytes += len(c.payloads[l.block])
	}
	if last == 1 && c.schedule.lastTry.len() == 0 {
		c.polls.wake(math.MaxInt) // other workers had to wait for this last try
	}
	return grants
}

func (c *Coordinator) handleHeartbeat(w http.ResponseWriter, r *http.Request, k *connection) (any, *refused) {
	q, no := read[protocol.Heartbeat](c, w, r)
	if no != nil {
		return nil, no
	}
	// At most one heartbeat interval: a worker that waits for its answer sends nothing.
	timer := time.NewTimer(milliseconds(q.Wait, c.times.Heartbeat))
	defer timer.Stop()
	if no := c.dropLeases(k, q); no != nil {
		return nil, no
	}
	var answer protocol.HeartbeatAnswer
	for waiting, first := q.Wait > 0, true; ; first = false {
		m, news, no := c.heartbeatUpdate(k, q.Worker, first, &answer)
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

// heartbeatUpdate fills in the answer to a heartbeat. first: the message has just arrived.
func (c *Coordinator) heartbeatUpdate(k *connection, worker int, first bool, answer *protocol.HeartbeatAnswer) (
	m *member, news bool, no *refused) {
	c.mu.Lock()
	defer c.mu.Unlock()
	m, no = c.member(k, worker)
	if no != nil {
		if !first && no.code == "lost" {
			c.refused.Lost-- // the message was not refused: it was waiting when the worker was lost
		}
		return nil, false, no
	}
	answer.Superseded, news = c.schedule.supersededLeases(m.number)
	if c.blocksOver() {
		answer.End = c.endName()
	}
	return m, news || c.blocksOver(), nil
}

// dropLeases ends the leases that a worker has dropped.
func (c *Coordinator) dropLeases(k *connection, q protocol.Heartbeat) (no *refused) {
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
		c.polls.wakeOne(m.turn)
	}()
	c.release(released)
	return no
}

func (c *Coordinator) handleError(w http.ResponseWriter, r *http.Request, k *connection) (any, *refused) {
	q, no := read[protocol.ErrorReport](c, w, r)
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
		switch c.schedule.classify(m.number, q.Lease, q.Block) {
		case accept:
		case noBlock:
			c.refused.Block++
			return nil, refuse(http.StatusNotFound, "block", "the run has no block %d", q.Block)
		case superseded, duplicate: // the lease is returned with the next lease request
			return nil, refuse(http.StatusConflict, "superseded", "block %d is done", q.Block)
		default:
			c.refused.Lease++
			return nil, refuse(http.StatusConflict, "lease", "the worker has no lease %d of block %d", q.Lease, q.Block)
		}
	}
	c.endLocked(&worker.Failure{Kind: m.kind, Worker: m.name, Host: m.host, Block: q.Block, Message: q.Message,
		Stack: q.Stack,
		Code:  q.Code})
	return struct{}{}, nil
}

func (c *Coordinator) handleLeave(w http.ResponseWriter, r *http.Request, k *connection) (any, *refused) {
	if n := min(r.ContentLength, c.o.MaxBytes); n > protocol.MaxMessage && c.o.MaxValue > 0 {
		if !c.acquire(r.Context(), n) {
			return nil, c.disconnectRefusal()
		}
		defer c.memory.Release(n)
	}
	limit := int64(protocol.MaxMessage)
	if c.o.MaxValue > 0 && r.ContentLength >= 0 {
		limit = protocol.MaxLeave(c.o.MaxValue)
	}
	q, no := readUpTo[protocol.Leave](c, w, r, limit)
	if no != nil {
		return nil, no
	}
	if size := int64(len(q.Value)); size > c.o.MaxValue {
		c.count(func(f *worker.Refused) { f.Size++ })
		return nil, refuse(http.StatusRequestEntityTooLarge, "size",
			"the value has %d bytes, at most %d are allowed", size, c.o.MaxValue)
	}
	released, no := c.memberLeft(k, q)
	c.release(released)
	return struct{}{}, no
}

func (c *Coordinator) memberLeft(k *connection, q protocol.Leave) (released []int, no *refused) {
	c.mu.Lock()
	defer c.mu.Unlock()
	m, no := c.member(k, q.Worker)
	if no != nil {
		return nil, no
	}
	if q.Message != "" {
		c.closeFailed(&worker.Failure{Kind: m.kind, Worker: m.name, Host: m.host, Block: -1, Message: q.Message,
			Stack: q.Stack, Code: q.Code})
	}
	m.state = worker.StateLeft
	m.wakeHeartbeat()
	l := c.removeWorker(m, false)
	c.addReplacement(c.expected[m.name], m.hadBlock, 0)
	c.takeValue(m, &q)
	if !c.ended {
		c.log.Info("worker left", "worker", m.name, "host", m.host, "blocks", m.done)
	}
	c.updateQuorum(time.Now())
	return l.released, nil
}

// closeFailed ends the run with f, even if all blocks are done.
func (c *Coordinator) closeFailed(f *worker.Failure) {
	if c.ended && c.cause == nil {
		c.cause = f
		return
	}
	c.endLocked(f)
}

// accept calls Options.Accept. A panic ends the run, not only the connection.
func (c *Coordinator) accept(ctx context.Context, r *Result) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	return c.o.Accept(ctx, r)
}

// milliseconds converts a requested wait, limited to longest.
func milliseconds(ms int64, longest time.Duration) time.Duration {
	return time.Duration(min(ms, int64(longest/time.Millisecond))) * time.Millisecond
}
