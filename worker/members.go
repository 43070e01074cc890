package worker

import (
	"fmt"
	"math"
	"runtime/debug"
	"slices"
	"strings"
	"time"
)

// member is a worker that has joined. The channel's lock guards it.
type member struct {
	said                   joinMessage
	number                 int
	name, kind, host, arch string
	pid, cores, slots      int
	local                  bool // over inherited connections: one that ends is not made again
	state                  State
	joined, heard          time.Time
	conns                  int
	apart                  time.Time // since when it has no connection
	had                    bool      // it was given a block
	done                   int
	bytes                  int64
	poll                   chan struct{} // closed when another poll takes the place of the one under way
	turn                   chan struct{} // of its poll, where that waits
	push                   chan struct{} // there is something that a waiting heartbeat should tell
}

// nudge has a heartbeat that waits be answered.
func (m *member) nudge() {
	select {
	case m.push <- struct{}{}:
	default:
	}
}

// expected is a worker that was asked for, or that its kind has told of.
type expected struct {
	name, kind string
	joined     bool
	latest     *member // who has joined by this name
	exit       *Exit
}

// failing is an end that waits for word of the kind about workers that were lost.
type failing struct {
	err     *LostError
	workers []int // numbers of members
	by      time.Time
}

// expect tells the channel of workers that are being started.
func (c *Channel) expect(kind string, first, n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.announced = true
	for i := first; i < first+n; i++ {
		c.expectLocked(WorkerName(kind, i), kind)
	}
}

func (c *Channel) expectLocked(name, kind string) *expected {
	e := c.expected[name]
	if e == nil {
		e = &expected{name: name, kind: kind}
		c.expected[name] = e
		c.order = append(c.order, e)
	}
	return e
}

// Gone tells the channel that a worker is no more: what it holds is given out again.
func (c *Channel) Gone(x Exit) { c.release(c.gone(x)) }

func (c *Channel) gone(x Exit) (released []int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.expectLocked(x.Name, "")
	if e.exit == nil {
		e.exit = &x
		if !e.joined && !c.ended {
			c.barren++
			c.log.Warn("a worker ended before it joined", "worker", x.Name, "job", x.Job, "error", x.Err)
		}
	}
	for _, m := range c.members {
		if m.name != x.Name {
			continue
		}
		switch m.state {
		case StateJoined:
			released = append(released, c.lose(m, "its "+kindWord(m.kind)+" is no more: "+exitWord(x), time.Now()).released...)
		case StateLeft:
			m.state = StateGone
			x.Log = "" // which nobody asks for: it has said all
		}
	}
	c.settle(time.Now())
	return released
}

func kindWord(kind string) string {
	if kind == "subprocess" {
		return "process"
	}
	return "job"
}

func exitWord(x Exit) string {
	if x.Err != nil {
		return x.Err.Error()
	}
	return "ended"
}

// join makes a member of a worker, or finds the one that it is already: then the answer to its first message was lost.
func (c *Channel) join(j joinMessage, local bool, now time.Time) *member {
	e := c.expectLocked(j.Name, j.Kind)
	if m := e.latest; m != nil && m.state == StateJoined && !m.had && m.said == j {
		m.heard = now
		return m
	}
	e.joined, e.exit = true, nil // a job that its system has started anew
	m := &member{
		said: j, number: len(c.members), name: j.Name, kind: j.Kind, host: j.Host, arch: j.Arch, pid: j.PID, cores: j.Cores, slots: j.Slots,
		local: local, state: StateJoined, joined: now, heard: now, apart: now, push: make(chan struct{}, 1),
	}
	if c.o.Single {
		m.slots = 1
	}
	c.members = append(c.members, m)
	e.latest = m
	c.schedule.join(m.number, m.slots, c.o.Single)
	if !c.open && c.alive() >= c.o.Workers {
		c.open = true
		c.polls.wake(math.MaxInt)
	}
	c.log.Info("a worker has joined", "worker", m.name, "host", m.host, "pid", m.pid, "slots", m.slots)
	return m
}

func (c *Channel) alive() (n int) {
	for _, m := range c.members {
		if m.state == StateJoined {
			n++
		}
	}
	return n
}

// pending workers may still join.
func (c *Channel) pending() (n int) {
	for _, e := range c.order {
		if !e.joined && e.exit == nil {
			n++
		}
	}
	if !c.announced { // workers that are started by hand
		n += max(0, c.o.Workers-len(c.order))
	}
	return n
}

// lose gives up a member. The caller settles, and releases what is released after it has given up the lock.
func (c *Channel) lose(m *member, why string, now time.Time) loss {
	m.state = StateLost
	m.nudge()
	l := c.depart(m, true)
	if !c.ended {
		c.lost++
		c.log.Warn("a worker is lost", "worker", m.name, "host", m.host, "why", why, "blocks", l.again)
	}
	if len(l.tooOften) > 0 && c.failing == nil && !c.ended {
		b := l.tooOften[0]
		losers := c.schedule.losers[b]
		reason := fmt.Sprintf("block %d: its worker %s was lost (%s)", b, m.name, why)
		switch {
		case len(losers) > 1:
			reason = fmt.Sprintf("block %d was given out %d times, and each time its worker was lost; the last time worker %s on %s, which had no other block (%s)", b, len(losers), m.name, m.host, why)
		case len(l.tooOften) > 1:
			reason += fmt.Sprintf("; it had other blocks too, which may be the cause: %v", l.tooOften[1:])
		}
		c.failing = &failing{err: &LostError{Block: b, Reason: reason}, workers: losers, by: now.Add(c.times.Word)}
	}
	return l
}

// depart takes a worker's leases away.
func (c *Channel) depart(m *member, lost bool) loss {
	if m.poll != nil {
		close(m.poll)
		m.poll = nil
	}
	if !m.had && !c.ended {
		c.barren++
	}
	l := c.schedule.leave(m.number, lost)
	// One that waits for each block that may be given out now, or be copied.
	c.wake(m.slots + 1)
	return l
}

// wake lets n requests for blocks look again, or all when a block waits for a worker that has no other.
func (c *Channel) wake(n int) {
	if n > 0 && c.schedule.lastTry.len() > 0 {
		n = math.MaxInt
	}
	c.polls.wake(n)
}

// settle ends the run if its workers are all gone, or if there can't be enough.
func (c *Channel) settle(now time.Time) {
	if c.ended {
		return
	}
	alive, pending := c.alive(), c.pending()
	if f := c.failing; f == nil || f.err.Block < 0 {
		var reason string
		replaced := c.o.Single && c.starting
		switch {
		case c.schedule.undone == c.schedule.claims: // all results are there, and need nobody any more
		case !c.open && alive+pending < c.o.Workers:
			reason = fmt.Sprintf("%d workers were to join before the first block is given out, and only %d can", c.o.Workers, alive+pending)
		case replaced && c.barren > c.o.Reissues+c.o.Workers/16:
			reason = fmt.Sprintf("%d workers ended before they took a block", c.barren)
		case alive+pending == 0 && !replaced:
			reason = c.allGone()
		}
		switch {
		case reason == "":
			c.failing = nil // another worker has come meanwhile
		case f == nil:
			c.failing = &failing{err: &LostError{Block: -1, Reason: reason}, workers: c.culprits(), by: now.Add(c.times.Word)}
		}
	}
	if f := c.failing; f != nil && (now.After(f.by) || c.told(f)) {
		f.err.Exits = c.exits(f)
		c.endLocked(f.err)
		return
	}
	c.ask()
}

// culprits are the workers whose ends may be the reason why there are too few: those that were lost, or where there are none those that have left, as workers do that
// their system ends.
func (c *Channel) culprits() (lost []int) {
	var left []int
	for _, m := range c.members {
		switch m.state {
		case StateLost:
			lost = append(lost, m.number)
		case StateLeft, StateGone:
			left = append(left, m.number)
		}
	}
	if len(lost) == 0 && !c.o.Single {
		return left
	}
	return lost
}

func (c *Channel) allGone() string {
	left := 0
	for _, m := range c.members {
		if m.state == StateLeft || m.state == StateGone {
			left++
		}
	}
	switch n := len(c.members); {
	case n == 0:
		return fmt.Sprintf("all %d workers ended before they joined the run", len(c.order))
	case left == n:
		return fmt.Sprintf("all %d workers have left, with %d of %d blocks undone", n, c.schedule.undone, c.o.Blocks)
	default:
		text := fmt.Sprintf("all workers are lost, with %d of %d blocks undone", c.schedule.undone, c.o.Blocks)
		if blocks, losers := c.schedule.mostLost(); losers > 1 && len(blocks) <= maxSuspects {
			text += fmt.Sprintf("; %d of them had %s", losers, blockWords(blocks))
		}
		return text
	}
}

// maxSuspects bounds the blocks that are named as what may have ended all workers.
const maxSuspects = 4

func blockWords(blocks []int) string {
	if len(blocks) == 1 {
		return fmt.Sprintf("block %d, which may be the cause", blocks[0])
	}
	return fmt.Sprintf("blocks %s, one of which may be the cause", strings.Trim(fmt.Sprint(blocks), "[]"))
}

// told tells whether the kind has said how each worker of f has ended.
func (c *Channel) told(f *failing) bool {
	return !slices.ContainsFunc(f.workers, func(n int) bool { return c.expected[c.members[n].name].exit == nil })
}

const maxExits = 8

// exits of the workers of f, and for an end of all also of those that never joined; the latest last.
func (c *Channel) exits(f *failing) (exits []Exit) {
	seen := map[string]bool{}
	add := func(e *expected) {
		if e.exit != nil && !seen[e.name] {
			seen[e.name] = true
			exits = append(exits, *e.exit)
		}
	}
	if f.err.Block < 0 {
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

// ask tells Run when workers for one block each are too few for the blocks that are left.
func (c *Channel) ask() {
	if c.starting && c.wanting() > 0 {
		select {
		case c.more <- struct{}{}:
		default:
		}
	}
}

// wanting is how many workers more are wanted (Single): one for each block that is not claimed, less those that may still take one.
func (c *Channel) wanting() int {
	if c.ended || c.failing != nil {
		return 0
	}
	need := c.schedule.undone
	for _, m := range c.members {
		if h := c.schedule.holders[m.number]; m.state == StateJoined && h != nil && !h.served {
			need--
		}
	}
	need -= c.pending()
	// Claimed blocks are as good as done.
	return need - c.schedule.claims
}

// release tells of blocks whose arrays may be used again.
func (c *Channel) release(blocks []int) {
	if c.o.Released == nil {
		return
	}
	defer func() {
		if p := recover(); p != nil { // net/http would go on, and the run wait for ever
			c.end(fmt.Errorf("worker: Released: panic: %v\n%s", p, debug.Stack()))
		}
	}()
	for _, b := range blocks {
		c.o.Released(b)
	}
}

// watch looks after workers that fall silent.
func (c *Channel) watch() {
	pause := max(min(c.times.Rejoin, c.times.Silence, c.times.Word)/8, time.Millisecond)
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
		// When this process was stopped, or got no processor, its workers could not be heard: the silence was ours.
		pauseOfOurs := now.Sub(last)
		if pauseOfOurs < c.times.Silence/4 || pauseOfOurs < 4*pause {
			pauseOfOurs = 0
		}
		last = now
		c.look(now, pauseOfOurs)
	}
}

func (c *Channel) look(now time.Time, excused time.Duration) { c.release(c.missed(now, excused)) }

// missed gives up the workers that are silent, or have no connection; excused is how long nobody could be heard.
func (c *Channel) missed(now time.Time, excused time.Duration) (released []int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, m := range c.members {
		if m.state != StateJoined {
			continue
		}
		if excused > 0 {
			m.heard, m.apart = earlier(m.heard.Add(excused), now), earlier(m.apart.Add(excused), now)
		}
		switch {
		case now.Sub(m.heard) > c.times.Silence:
			released = append(released, c.lose(m, fmt.Sprintf("it was silent for %v", c.times.Silence), now).released...)
		case m.conns == 0 && now.Sub(m.apart) > c.times.Rejoin:
			released = append(released, c.lose(m, "its connection ended", now).released...)
		}
	}
	if !c.open && !c.barrier.IsZero() && now.After(c.barrier) && !c.ended {
		c.endLocked(&LostError{Block: -1, Reason: fmt.Sprintf("%d of %d workers had joined after %v, when all were to be there", c.alive(), c.o.Workers, c.o.Barrier)})
	}
	c.settle(now)
	return released
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// polls are requests for blocks that wait for one, in order of arrival.
type polls struct {
	waiting []chan struct{}
}

func (p *polls) add() chan struct{} {
	ch := p.aside()
	p.waiting = append(p.waiting, ch)
	return ch
}

// aside is for a request that can't be given what others wait for: only wakeThis wakes it.
func (p *polls) aside() chan struct{} { return make(chan struct{}, 1) }

// wake lets the n that have waited longest look again.
func (p *polls) wake(n int) {
	n = min(n, len(p.waiting))
	for _, ch := range p.waiting[:n] {
		ch <- struct{}{}
	}
	p.waiting = slices.Delete(p.waiting, 0, n)
}

// wakeThis wakes one, wherever it stands.
func (p *polls) wakeThis(ch chan struct{}) {
	p.remove(ch)
	select {
	case ch <- struct{}{}:
	default: // it was woken, or there is none
	}
}

// remove takes one out; false: it was woken.
func (p *polls) remove(ch chan struct{}) bool {
	i := slices.Index(p.waiting, ch)
	if i < 0 {
		return false
	}
	p.waiting = slices.Delete(p.waiting, i, i+1)
	return true
}
