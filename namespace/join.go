//go:build unix

package namespace

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"
)

// Namespace is the membership of this process in a job. Its methods may be called concurrently.
type Namespace struct {
	spec  Spec
	ranks Ranks

	mu  sync.Mutex    // guards the fields below; never held while waiting
	reg *registration // members, mutexes
	// claims, number and the directory of shared objects: reg, unless the runtime directory was
	// removed and made again
	borrowed *registration
	shared   map[string]*mapped
	locks    map[string]chan struct{}
	err      error // why the job's claims no longer hold
	closed   bool

	stop       context.CancelFunc
	closeOnce  sync.Once
	closing    chan struct{} // closed when Close begins
	watched    chan struct{} // closed when the watcher has ended
	leaderGone chan struct{}
	lost       chan struct{}
}

// Join makes this process a member of the job that spec names, and returns when it is registered
// with the same directories as the leader. It waits for the leader, or for a killed holder of a
// claim to end, until ctx is done or spec.Wait has passed.
//
// Errors: *ClaimedError if another job uses one of the directories; ErrInUse if another run leads
// the same job; ErrNoLeader if nobody registered it in time. It is also an error if this process
// and its leader name different directories. The membership lasts until Close or the end of the
// process. The caller must not change its slices in spec afterwards.
func Join(ctx context.Context, spec Spec) (*Namespace, error) {
	if err := spec.validate(); err != nil {
		return nil, err
	}
	ranks, err := ranksOf(spec.Ranks)
	if err != nil {
		return nil, err
	}
	source := "Spec.Key"
	if spec.Key == "" {
		spec.Key, source = keyFromEnv(os.Getenv)
	}
	if spec.Key == "" {
		spec.Key = RandomKey()
	}
	if err := validateKey(spec.Key, source); err != nil {
		return nil, err
	}
	if spec.Wait == 0 {
		spec.Wait = defaultWait
	}
	if spec.Logger == nil {
		spec.Logger = slog.New(slog.DiscardHandler)
	}
	n := &Namespace{spec: spec, ranks: ranks, shared: map[string]*mapped{}, locks: map[string]chan struct{}{},
		closing: make(chan struct{}), watched: make(chan struct{}), leaderGone: make(chan struct{}),
		lost: make(chan struct{})}
	reg, err := openRegistration(&n.spec, nil)
	if err != nil {
		return nil, err
	}
	many := ranks.LocalRanks > 1 || ranks.Workers > 1
	leads := ranks.LocalRank == 0 && ranks.Worker == 0
	within, cancel := context.WithTimeoutCause(ctx, spec.Wait, fmt.Errorf("waited %v", spec.Wait))
	err = reg.register(within, &n.spec, ranks, spec.MustLead || leads || !many, !spec.MustLead && (!leads || !many))
	cancel()
	if err != nil {
		return nil, errors.Join(leaderError(err), reg.close(false))
	}
	n.reg, n.borrowed = reg, reg
	watch, stop := context.WithCancel(context.Background())
	n.stop = stop
	go n.watch(watch)
	return n, nil
}

// RandomKey returns a key that no other job has.
func RandomKey() string { return rand.Text() }

// Spec returns what was joined: the argument of Join with the key that the launcher set, and the
// place of this process in the job.
func (n *Namespace) Spec() Spec {
	spec := n.spec
	spec.Ranks = n.ranks
	return spec
}

// Leader reports whether this process registered the job.
func (n *Namespace) Leader() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return !n.closed && n.reg.leader
}

// Number returns the number of the job, from 500000 to 999999. No other live job of this user on
// this host has it; later ones may.
func (n *Namespace) Number() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.reg.record.Number
}

// Name returns a name that no other job of any user on this host has: the number of the job, the
// user's id and what, as in "500012_1000_cache". what has 1 to 23 letters, digits, '.', '_' and
// '-', so the name has at most 41 bytes.
func (n *Namespace) Name(what string) (string, error) {
	if err := checkWhat(what); err != nil {
		return "", err
	}
	return fmt.Sprintf("%s_%d_%s", prefixOf(n.Number()), os.Geteuid(), what), nil
}

// Environ returns the environment variables with which a child joins the same job.
func (n *Namespace) Environ() []string { return []string{"LEAT_JOB=" + n.spec.Key} }

// Members returns the processes of the job that have not left, dead ones included.
func (n *Namespace) Members() ([]Member, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		return nil, ErrClosed
	}
	return n.reg.table.members(n.reg.slot)
}

// LeaderGone returns a channel that is closed when the leader ends for any reason. In the leader
// itself it is never closed.
func (n *Namespace) LeaderGone() <-chan struct{} { return n.leaderGone }

// Lost returns a channel that is closed when the job has lost its claims: somebody removed the
// runtime directory, and another job claimed them before this one registered again. Err returns the
// cause. The job must not write to its directories any more.
func (n *Namespace) Lost() <-chan struct{} { return n.lost }

// Err returns why the claims were lost, nil if they were not.
func (n *Namespace) Err() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.err
}

// Close rejects new calls with ErrClosed and waits for running ones. Waiting calls of
// [Barrier.Wait] and [Mutex.Lock] return ErrClosed. Close then leaves the job and ends this
// process's claims, names and regions, whose memory must not be used any more. The last member
// removes what the members shared. Further calls do nothing.
func (n *Namespace) Close() (err error) {
	n.closeOnce.Do(func() { err = n.leave() })
	return err
}

func (n *Namespace) leave() error {
	n.mu.Lock()
	n.closed = true
	n.mu.Unlock()
	close(n.closing)
	n.stop()
	<-n.watched
	n.mu.Lock()
	defer n.mu.Unlock()
	var err error
	for _, t := range n.shared {
		err = errors.Join(err, t.mapping.Close())
	}
	n.shared = nil
	if n.borrowed != n.reg {
		err = errors.Join(err, n.borrowed.close(true))
	}
	return errors.Join(err, n.reg.close(true))
}

// Intervals of the watcher's checks. A check is a few system calls of a microsecond.
const (
	leaderInterval = 20 * time.Millisecond // for the end of the leader
	rootInterval   = time.Second           // for the removal of the runtime directory
)

// watch closes leaderGone when the leader ends, and registers again after somebody removed the
// runtime directory.
func (n *Namespace) watch(ctx context.Context) {
	defer close(n.watched)
	leader := n.Leader()
	every := leaderInterval
	if leader {
		every = rootInterval
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	lastRoot := time.Now()
	leaderGone, lost, tries := leader, false, 0
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if !leaderGone {
			n.mu.Lock()
			alive, err := n.reg.table.leaderAlive()
			n.mu.Unlock()
			if err == nil && !alive {
				leaderGone = true
				close(n.leaderGone)
			}
		}
		if !lost && time.Since(lastRoot) >= rootInterval {
			lastRoot = time.Now()
			again, err := n.renew(ctx)
			switch {
			case err == nil:
				tries = 0
			case ctx.Err() != nil:
				return
			case again && tries < 3:
				tries++
			default:
				lost = true
				n.markLost(err)
			}
		}
	}
}

// markLost records that the claims are lost for good.
func (n *Namespace) markLost(err error) {
	err = fmt.Errorf("the claims of job %s were lost: %w", n.spec.Key, err)
	n.mu.Lock()
	n.err = err
	n.mu.Unlock()
	close(n.lost)
	n.spec.warn("namespace claims lost", err)
}

// renew registers the job again in a new runtime directory if somebody removed the old one. The
// members keep their old table and mappings, which they continue to share; no process can join them
// any more. After an error, again reports whether another try may help.
func (n *Namespace) renew(ctx context.Context) (again bool, err error) {
	n.mu.Lock()
	some, whole := n.borrowed.gone()
	old := n.borrowed
	n.mu.Unlock()
	if !some {
		return false, nil
	}
	if !whole {
		// The removal may be in progress, and what is left of the job would collide with it.
		return true, fmt.Errorf("a part of %s was removed while the job was running", old.root.Path())
	}
	n.spec.warn("runtime directory removed, registering anew",
		fmt.Errorf("%s was removed while job %s was running", old.root.Path(), n.spec.Key))
	// It claims the open directories: their paths may lead elsewhere by now.
	reg, err := openRegistration(&n.spec, old.places)
	if err != nil {
		return errors.Is(err, os.ErrNotExist), err // the removal is in progress
	}
	reg.record, reg.renewing = old.record, true
	reg.record.Renewed = true
	within, cancel := context.WithTimeout(ctx, n.spec.Wait)
	err = reg.register(within, &n.spec, n.ranks, true, true)
	cancel()
	if err != nil {
		return reg.root.Gone(), errors.Join(err, reg.close(false))
	}
	if ctx.Err() != nil { // the namespace is being closed
		return false, errors.Join(ctx.Err(), reg.close(true))
	}
	n.mu.Lock()
	n.borrowed = reg
	n.mu.Unlock()
	if old != n.reg {
		if err := old.close(false); err != nil {
			n.spec.warn("closing old registration failed", err)
		}
	}
	return false, nil
}

// leaderError returns ErrNoLeader for the end of a wait for a leader that never registered.
func leaderError(err error) error {
	if errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("%w: the process with local rank 0 has not registered it (%w)", ErrNoLeader, err)
	}
	return err
}
