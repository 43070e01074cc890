package coordinator

import (
	"fmt"
	"math"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"leat/internal/worker/protocol"
	"leat/worker"
)

// member is a worker that has joined. Coordinator.mu guards it.
type member struct {
	request                protocol.Join
	number                 int
	name, kind, host, arch string
	pid, cores, slots      int
	local                  bool // over inherited connections, which can't be dialed again
	state                  worker.State
	joined, heard          time.Time
	conns                  int
	disconnectedAt         time.Time // since when it has no connection
	hadBlock               bool      // it has held a block
	done                   int
	bytes                  int64
	poll                   chan struct{} // closed when a newer poll replaces the current one
	turn                   chan struct{} // wakes its waiting poll
	push                   chan struct{} // wakes a waiting heartbeat that has something to report
}

// wakeHeartbeat makes a waiting heartbeat answer now.
func (m *member) wakeHeartbeat() {
	select {
	case m.push <- struct{}{}:
	default:
	}
}

// expected is a worker that was started, or whose launcher has reported it.
type expected struct {
	name, kind string
	joined     bool
	latest     *member // the last member of this name
	exit       *worker.Exit
	start      *start // its start; nil: started manually
	launched   bool   // by Run
	counted    bool   // its exit was counted for replacements
}

// start is a group of workers that were started together.
type start struct {
	workers int
	// unknown is the error of the last query of their jobs, nil if it succeeded. unknownSince is
	// when queries began to fail.
	unknownSince time.Time
	unknown      error
}

// failing is a pending end of the run that waits for the exits of lost workers.
type failing struct {
	err     *worker.LostError
	workers []int // numbers of members
	by      time.Time
	final   bool // a worker that joins can't prevent the end
}

// expect registers workers that are being started.
func (c *Coordinator) expect(kind string, first, n int) *start {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.expectStart(kind, first, n)
}

func (c *Coordinator) expectStart(kind string, first, n int) *start {
	c.announced = true
	st := &start{workers: n}
	for i := first; i < first+n; i++ {
		e := c.expectLocked(worker.WorkerName(kind, i), kind)
		e.start, e.launched = st, true
	}
	return st
}

// jobsQueried records whether the launcher could query the jobs of a start.
func (c *Coordinator) jobsQueried(st *start, err error) {
	now := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case err == nil:
		st.unknownSince, st.unknown = time.Time{}, nil
	case st.unknown == nil:
		st.unknownSince, st.unknown = now, err
	default:
		st.unknown = err
	}
}

// isUnknown reports whether the state of these workers' jobs has been unknown for at least longest.
func (st *start) isUnknown(now time.Time, longest time.Duration) bool {
	return st != nil && st.unknown != nil && now.Sub(st.unknownSince) >= longest
}

func (c *Coordinator) expectLocked(name, kind string) *expected {
	e := c.expected[name]
	if e == nil {
		e = &expected{name: name, kind: kind}
		c.expected[name] = e
		c.order = append(c.order, e)
	}
	return e
}

// Exited reports the end of a worker: its blocks are leased again.
func (c *Coordinator) Exited(x worker.Exit) { c.release(c.gone(x)) }

func (c *Coordinator) gone(x worker.Exit) (released []int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.expectLocked(x.Name, "")
	if e.exit == nil {
		e.exit = &x
		if !e.joined && !c.ended {
			c.exitedIdle++
			c.addReplacement(e, false, 0)
			c.log.Warn("worker ended before joining", "worker", x.Name, "job", x.Job, "error", x.Err)
		}
	}
	for _, m := range c.members {
		if m.name != x.Name {
			continue
		}
		switch m.state {
		case worker.StateJoined:
			released = append(released, c.markLost(m, "its "+jobNoun(m.kind)+" ended: "+exitText(x),
				time.Now()).released...)
		case worker.StateLeft:
			m.state = worker.StateGone
			x.Log = "" // not needed: the worker has reported its errors
		}
	}
	c.updateQuorum(time.Now())
	return released
}

func jobNoun(kind string) string {
	if kind == "subprocess" {
		return "process"
	}
	return "job"
}

func exitText(x worker.Exit) string {
	if x.Err != nil {
		return x.Err.Error()
	}
	return "ended"
}

// join adds a member, or returns the existing one if the same join was sent again because its
// answer was lost.
func (c *Coordinator) join(j protocol.Join, local bool, now time.Time) *member {
	e := c.expectLocked(j.Name, j.Kind)
	if m := e.latest; m != nil && m.state == worker.StateJoined && !m.hadBlock && m.request == j {
		m.heard = now
		return m
	}
	e.joined, e.exit, e.counted = true, nil, false // its system may have restarted the job
	m := &member{
		request: j, number: len(c.members), name: j.Name, kind: j.Kind, host: j.Host, arch: j.Arch, pid: j.PID,
		cores: j.Cores, slots: j.Slots,
		local: local, state: worker.StateJoined, joined: now, heard: now, disconnectedAt: now,
		push: make(chan struct{}, 1),
	}
	if c.o.OneBlockPerJob {
		m.slots = 1
	}
	c.members = append(c.members, m)
	e.latest = m
	holds := m.slots + 1
	if c.o.Holds != nil {
		holds = min(max(holds, c.o.Holds(m.slots)), protocol.MaxLeases)
	}
	c.schedule.join(m.number, m.slots, holds, c.o.OneBlockPerJob)
	if !c.open && c.alive() >= c.o.Workers {
		c.open = true
		c.polls.wake(math.MaxInt)
	}
	c.log.Info("worker joined", "worker", m.name, "host", m.host, "pid", m.pid, "slots", m.slots)
	return m
}

func (c *Coordinator) alive() (n int) {
	for _, m := range c.members {
		if m.state == worker.StateJoined {
			n++
		}
	}
	return n
}

// unknown counts the pending workers that the run no longer waits for, and returns why their jobs
// can't be queried.
func (c *Coordinator) unknown(now time.Time) (n int, why error) {
	for _, e := range c.order {
		if !e.joined && e.exit == nil && e.start.isUnknown(now, c.times.QueryFailureTimeout) {
			n++
			why = e.start.unknown
		}
	}
	return n, why
}

// pending counts the workers that may still join.
func (c *Coordinator) pending() (n int) {
	for _, e := range c.order {
		if !e.joined && e.exit == nil {
			n++
		}
	}
	if !c.announced { // workers are started manually
		n += max(0, c.o.Workers-len(c.order))
	}
	return n
}

// markLost marks a member as lost and takes its blocks away. The caller calls updateQuorum, and
// release with the released blocks after unlocking.
func (c *Coordinator) markLost(m *member, why string, now time.Time) loss {
	m.state = worker.StateLost
	m.wakeHeartbeat()
	l := c.removeWorker(m, true)
	c.addReplacement(c.expected[m.name], m.hadBlock, l.maxLost)
	if !c.ended {
		c.lost++
		c.log.Warn("worker lost", "worker", m.name, "host", m.host, "why", why, "blocks", l.again)
	}
	c.valueLost(m, why, now)
	if len(l.tooOften) > 0 && c.failing == nil && !c.ended {
		b := l.tooOften[0]
		losers := c.schedule.lostWorkers[b]
		reason := fmt.Sprintf("block %d: its worker %s was lost (%s)", b, m.name, why)
		switch {
		case len(losers) > 1:
			reason = fmt.Sprintf("block %d was leased %d times, and each time its worker was lost; the last time worker %s on %s, which had no other block (%s)", b, len(losers), m.name, m.host, why)
		case len(l.tooOften) > 1:
			reason += fmt.Sprintf("; it had other blocks too, which may be the cause: %v", l.tooOften[1:])
		}
		c.failing = &failing{err: &worker.LostError{Block: b, Reason: reason}, workers: losers,
			by: now.Add(c.times.ExitReportWait)}
	}
	return l
}

// removeWorker ends the leases of a member.
func (c *Coordinator) removeWorker(m *member, lost bool) loss {
	if m.poll != nil {
		close(m.poll)
		m.poll = nil
	}
	if !m.hadBlock && !c.ended {
		c.exitedIdle++
	}
	held := len(c.schedule.heldBy(m.number))
	l := c.schedule.leave(m.number, lost)
	// One poll for each block that may now be leased, and one for a copy.
	c.wake(max(held, m.slots) + 1)
	return l
}

// wake wakes n waiting polls, or all if a block waits for a worker without other blocks.
func (c *Coordinator) wake(n int) {
	if n > 0 && c.schedule.lastTry.len() > 0 {
		n = math.MaxInt
	}
	c.polls.wake(n)
}

// updateQuorum ends the run if all its workers are gone, or if too few can join.
func (c *Coordinator) updateQuorum(now time.Time) {
	if c.ended {
		return
	}
	alive, pending := c.alive(), c.pending()
	unknown, why := c.unknown(now)
	pending -= unknown
	if f := c.failing; f == nil || f.err.Block < 0 && !f.final {
		var reason string
		replaced := c.o.OneBlockPerJob && c.starting
		switch {
		case c.schedule.undone == c.schedule.claims: // all results have arrived
		case !c.open && alive+pending+c.replaceable(now) < c.o.Workers:
			reason = fmt.Sprintf("%d workers have to join before the first block is leased, and only %d can",
				c.o.Workers, alive+pending)
		case replaced && c.exitedIdle > c.o.Reissues+c.o.Workers/16:
			reason = fmt.Sprintf("%d workers ended before they took a block", c.exitedIdle)
		case alive+pending == 0 && !replaced && (unknown > 0 || c.replaceable(now) == 0):
			reason = c.noWorkersReason()
		}
		if reason != "" && unknown > 0 {
			reason += fmt.Sprintf("; the jobs of %[2]d workers that have not joined have been unknown for %[1]v: %[3]v", c.times.QueryFailureTimeout, unknown, why)
		}
		switch {
		case reason == "":
			c.failing = nil // another worker has joined meanwhile
		case f == nil:
			c.failing = &failing{err: &worker.LostError{Block: -1, Reason: reason}, workers: c.lostWorkers(),
				by: now.Add(c.times.ExitReportWait)}
		}
	}
	if f := c.failing; f != nil && (now.After(f.by) || c.exitsKnown(f)) {
		f.err.Exits = c.exits(f)
		c.endLocked(f.err)
		return
	}
	c.requestWorkers(now)
}

// lostWorkers returns the workers whose exits may explain why too few remain: the lost ones, or
// else those that have left, as workers do when their system ends them.
func (c *Coordinator) lostWorkers() (lost []int) {
	var left []int
	for _, m := range c.members {
		switch m.state {
		case worker.StateLost:
			lost = append(lost, m.number)
		case worker.StateLeft, worker.StateGone:
			left = append(left, m.number)
		}
	}
	if len(lost) == 0 && !c.o.OneBlockPerJob {
		return left
	}
	return lost
}

func (c *Coordinator) noWorkersReason() string {
	left := 0
	for _, m := range c.members {
		if m.state == worker.StateLeft || m.state == worker.StateGone {
			left++
		}
	}
	gone := 0
	for _, e := range c.order {
		if e.exit != nil {
			gone++
		}
	}
	switch n := len(c.members); {
	case n == 0 && gone < len(c.order):
		return "no worker has joined the run"
	case n == 0:
		return fmt.Sprintf("all %d workers ended before they joined the run", len(c.order))
	case left == n:
		return fmt.Sprintf("all %d workers have left, with %d of %d blocks undone", n, c.schedule.undone, c.o.Blocks)
	default:
		text := fmt.Sprintf("all workers are lost, with %d of %d blocks undone", c.schedule.undone, c.o.Blocks)
		if blocks, losers := c.schedule.mostLost(); losers > 1 && len(blocks) <= maxSuspects {
			text += fmt.Sprintf("; %d of them held %s", losers, suspectsText(blocks))
		}
		if r := &c.replace; r.due > 0 && r.left(time.Now()) == 0 {
			text += fmt.Sprintf("; no more of them are replaced: the limit is %d within an hour", r.most)
		}
		return text
	}
}

// maxSuspects bounds the blocks named as a possible cause.
const maxSuspects = 4

func suspectsText(blocks []int) string {
	if len(blocks) == 1 {
		return fmt.Sprintf("block %d, which may be the cause", blocks[0])
	}
	return fmt.Sprintf("blocks %s, one of which may be the cause", strings.Trim(fmt.Sprint(blocks), "[]"))
}

// exitsKnown reports whether the exit of each worker of f is known.
func (c *Coordinator) exitsKnown(f *failing) bool {
	return !slices.ContainsFunc(f.workers, func(n int) bool { return c.expected[c.members[n].name].exit == nil })
}

const maxExits = 8

// exits returns the exits of f's workers, and for the loss of all workers also of those that never
// joined. The latest are last.
func (c *Coordinator) exits(f *failing) (exits []worker.Exit) {
	seen := map[string]bool{}
	add := func(e *expected) {
		if e.exit != nil && !seen[e.name] {
			seen[e.name] = true
			exits = append(exits, *e.exit)
		}
	}
	if f.err.Block < 0 && !f.final {
		for _, e := range c.order {
			if !e.joined {
				add(e)
			}
		}
	}
	for _, n := range f.workers {
		add(c.expected[c.members[n].name])
	}
	return exits[max(0, len(exits)-maxExits):]
}

// requestWorkers signals Run to start workers: for remaining blocks with OneBlockPerJob, or as
// replacements.
func (c *Coordinator) requestWorkers(now time.Time) {
	if c.starting && (c.workersNeeded() > 0 || c.replaceable(now) > 0) {
		select {
		case c.more <- struct{}{}:
		default:
		}
	}
}

// workersNeeded returns how many more workers to start with OneBlockPerJob: one per unclaimed
// block, less those that may still take one.
func (c *Coordinator) workersNeeded() int {
	if !c.o.OneBlockPerJob || c.ended || c.failing != nil {
		return 0
	}
	need := c.schedule.undone
	for _, m := range c.members {
		if h := c.schedule.holders[m.number]; m.state == worker.StateJoined && h != nil && !h.served {
			need--
		}
	}
	need -= c.pending()
	// Claimed blocks are as good as done.
	return need - c.schedule.claims
}

// release calls Options.Released.
func (c *Coordinator) release(blocks []int) {
	if c.o.Released == nil {
		return
	}
	defer func() {
		if p := recover(); p != nil { // net/http would recover from it, and the run would hang
			c.end(fmt.Errorf("panic in Released: %v\n%s", p, debug.Stack()))
		}
	}()
	for _, b := range blocks {
		c.o.Released(b)
	}
}

// watch looks for silent members until the run ends.
func (c *Coordinator) watch() {
	pause := max(min(c.times.Rejoin, c.times.HeartbeatTimeout, c.times.ExitReportWait)/8, time.Millisecond)
	tick := time.NewTicker(pause)
	defer tick.Stop()
	last := time.Now()
	for {
		select {
		case <-c.over:
			return
		case <-tick.C:
		}
		now := time.Now()
		// While this process was paused, it could not receive heartbeats.
		ownPause := now.Sub(last)
		if ownPause < c.times.HeartbeatTimeout/4 || ownPause < 4*pause {
			ownPause = 0
		}
		last = now
		c.expireMembers(now, ownPause)
	}
}

func (c *Coordinator) expireMembers(now time.Time, excused time.Duration) {
	c.release(c.markSilent(now, excused))
}

// markSilent marks silent and disconnected members as lost; excused is how long this process could
// not receive messages.
func (c *Coordinator) markSilent(now time.Time, excused time.Duration) (released []int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, m := range c.members {
		if m.state != worker.StateJoined {
			continue
		}
		if excused > 0 {
			m.heard = earlierTime(m.heard.Add(excused), now)
			m.disconnectedAt = earlierTime(m.disconnectedAt.Add(excused), now)
		}
		switch {
		case now.Sub(m.heard) > c.times.HeartbeatTimeout:
			released = append(released, c.markLost(m, fmt.Sprintf("it was silent for %v", c.times.HeartbeatTimeout),
				now).released...)
		// With a full gate, its connection may wait behind new ones.
		case m.conns == 0 && now.Sub(m.disconnectedAt) > c.times.Rejoin && !c.gate.isFull():
			released = append(released, c.markLost(m, "its connection ended", now).released...)
		}
	}
	if !c.open && !c.barrier.IsZero() && now.After(c.barrier) && !c.ended {
		c.endLocked(&worker.LostError{Block: -1,
			Reason: fmt.Sprintf("%d of %d workers joined within %v, and all of them are required", c.alive(),
				c.o.Workers, c.o.Barrier)})
	}
	c.updateQuorum(now)
	return released
}

func earlierTime(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// polls holds the waiting requests for blocks, in order of arrival.
type polls struct {
	waiting []chan struct{}
}

func (p *polls) add() chan struct{} {
	ch := p.newTurn()
	p.waiting = append(p.waiting, ch)
	return ch
}

// newTurn returns a channel for a request whose worker can't get a block before one of its leases
// ends; only wakeOne wakes it.
func (p *polls) newTurn() chan struct{} { return make(chan struct{}, 1) }

// wake wakes the n oldest requests.
func (p *polls) wake(n int) {
	n = min(n, len(p.waiting))
	for _, ch := range p.waiting[:n] {
		ch <- struct{}{}
	}
	p.waiting = slices.Delete(p.waiting, 0, n)
}

// wakeOne wakes a particular request.
func (p *polls) wakeOne(ch chan struct{}) {
	p.remove(ch)
	select {
	case ch <- struct{}{}:
	default: // already woken, or nil
	}
}

// remove removes a request and reports false if it was woken already.
func (p *polls) remove(ch chan struct{}) bool {
	i := slices.Index(p.waiting, ch)
	if i < 0 {
		return false
	}
	p.waiting = slices.Delete(p.waiting, i, i+1)
	return true
}
