//go:build unix

package namespace

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"
)

// Namespace is this process's membership in a job. Its methods may be used by several goroutines.
type Namespace struct {
	spec  Spec
	world Ranks

	mu  sync.Mutex    // over all below; held while regions and mutexes are made, never while waiting
	reg *registration // members, mutexes
	// claims, number and the folder of shared things: reg, but after the runtime folder was removed
	// and made anew
	borrowed *registration
	shared   map[string]*thing
	locks    map[string]chan struct{}
	err      error // why the job's claims no longer hold
	closed   bool

	stop       context.CancelFunc
	watched    chan struct{} // closed when the watcher has ended
	leaderGone chan struct{}
	lost       chan struct{}
}

// Join makes this process a member of the job that spec names, and returns when it is registered
// with the same directories as the one that leads. It waits for that one, or for a killed holder of
// a claim to be gone, until ctx ends or spec.Wait is over.
//
// Errors: *ClaimedError where another job uses one of the directories; ErrMismatch where this
// process and its leader name different ones; ErrInUse where another run leads the same job;
// ErrNoLeader where nobody registered it in time. Close ends the membership; so does any end of the
// process. The caller must not change its slices in spec afterwards.
func Join(ctx context.Context, spec Spec) (*Namespace, error) {
	if err := spec.validate(); err != nil {
		return nil, err
	}
	var world Ranks
	if spec.Ranks != nil {
		world = spec.Ranks.filled()
		if err := world.validate(); err != nil {
			return nil, err
		}
	} else {
		var err error
		if world, err = WorldFromEnv(os.Getenv); err != nil {
			return nil, err
		}
	}
	source := "Spec.Key"
	if spec.Key == "" {
		spec.Key, source = KeyFromEnv(os.Getenv)
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
	n := &Namespace{spec: spec, world: world, shared: map[string]*thing{}, locks: map[string]chan struct{}{},
		leaderGone: make(chan struct{}), lost: make(chan struct{}), watched: make(chan struct{})}
	reg, err := openRegistration(&n.spec, nil)
	if err != nil {
		return nil, err
	}
	many := world.LocalRanks > 1 || world.Workers > 1
	leads := world.LocalRank == 0 && world.Worker == 0
	within, cancel := context.WithTimeoutCause(ctx, spec.Wait, fmt.Errorf("waited %v", spec.Wait))
	err = reg.register(within, &n.spec, world, spec.MustLead || leads || !many, !spec.MustLead && (!leads || !many))
	cancel()
	if err != nil {
		return nil, errors.Join(nobody(err), reg.close(false))
	}
	n.reg, n.borrowed = reg, reg
	watch, stop := context.WithCancel(context.Background())
	n.stop = stop
	go n.watch(watch)
	return n, nil
}

// RandomKey returns a key that no other job has.
func RandomKey() string { return rand.Text() }

// Key is the job's.
func (n *Namespace) Key() string { return n.spec.Key }

// Ranks says which process of the job this is.
func (n *Namespace) Ranks() Ranks { return n.world }

// Leader reports whether this process registered the job.
func (n *Namespace) Leader() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return !n.closed && n.reg.leader
}

// Number returns the job's number, from 500000 to 999999. No other job of this user that lives on
// this machine has it; later ones may.
func (n *Namespace) Number() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.reg.record.Number
}

// Prefix returns the number as six digits.
func (n *Namespace) Prefix() string { return prefixOf(n.Number()) }

// Name returns a name for something outside the namespace that no other job of any user on this
// machine has: the job's number, the user's id and what, as in "500012_1000_cache". what has 1 to
// 23 letters, digits, '.', '_' and '-', so the name has at most 41 bytes.
func (n *Namespace) Name(what string) (string, error) {
	if err := checkWhat(what); err != nil {
		return "", err
	}
	return fmt.Sprintf("%s_%d_%s", n.Prefix(), os.Geteuid(), what), nil
}

// Environ is what to add to a child's environment so that it joins the same job.
func (n *Namespace) Environ() []string { return []string{"LEAT_JOB=" + n.spec.Key} }

// Members lists the processes of the job that have not left, dead ones included.
func (n *Namespace) Members() ([]Member, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		return nil, ErrClosed
	}
	return n.reg.table.members(n.reg.slot)
}

// LeaderGone is closed when the process that leads ends, in whichever way. In that process itself
// it never is.
func (n *Namespace) LeaderGone() <-chan struct{} { return n.leaderGone }

// Lost is closed when the job's claims no longer hold, which is when someone removed the runtime
// folder and another job took them before this one could register anew. Err then says more. Nothing
// may be written to the job's directories any longer.
func (n *Namespace) Lost() <-chan struct{} { return n.lost }

// Err tells why the claims were lost.
func (n *Namespace) Err() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.err
}

// Close leaves the job: this process's claims, names and regions end. The last one out removes what
// the members shared. Memory of regions must not be touched any more. A second Close does nothing.
func (n *Namespace) Close() error {
	n.mu.Lock()
	if n.closed {
		n.mu.Unlock()
		return nil
	}
	n.closed = true
	n.mu.Unlock()
	n.stop()
	<-n.watched
	n.mu.Lock()
	defer n.mu.Unlock()
	var err error
	for _, t := range n.shared {
		err = errors.Join(err, t.close())
	}
	n.shared = nil
	if n.borrowed != n.reg {
		err = errors.Join(err, n.borrowed.close(true))
	}
	return errors.Join(err, n.reg.close(true))
}

// How often the watcher looks: a dead leader is noticed within leaderLook, a removed runtime folder
// within rootLook. A look is one or a few system calls of a microsecond.
const (
	leaderLook = 20 * time.Millisecond
	rootLook   = time.Second
)

// watch tells of the leader's end, and registers anew when the runtime folder was removed.
func (n *Namespace) watch(ctx context.Context) {
	defer close(n.watched)
	leader := n.Leader()
	every := leaderLook
	if leader {
		every = rootLook
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	lastRoot := time.Now()
	told, lost, tries := leader, false, 0
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if !told {
			n.mu.Lock()
			alive, err := n.reg.table.leaderAlive()
			n.mu.Unlock()
			if err == nil && !alive {
				told = true
				close(n.leaderGone)
			}
		}
		if !lost && time.Since(lastRoot) >= rootLook {
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
				n.lose(err)
			}
		}
	}
}

// lose tells that the claims are gone for good.
func (n *Namespace) lose(err error) {
	err = fmt.Errorf("the claims of job %s were lost: %w", n.spec.Key, err)
	n.mu.Lock()
	n.err = err
	n.mu.Unlock()
	close(n.lost)
	n.spec.warn(err)
}

// renew registers the job again in a new runtime folder if someone removed the old one. The members
// keep to their old table and what they have mapped, which stays shared among them; no process can
// join them any more. After an error, again tells whether it may help to try once more in a moment.
func (n *Namespace) renew(ctx context.Context) (again bool, err error) {
	n.mu.Lock()
	some, whole := n.borrowed.gone()
	old := n.borrowed
	n.mu.Unlock()
	if !some {
		return false, nil
	}
	if !whole {
		// The removal may be going on. What is left of it is this job's own, and would stand in its
		// way.
		return true, fmt.Errorf("a part of %s was removed while the job was running", old.root.Path())
	}
	n.spec.warn(fmt.Errorf("%s was removed while job %s was running: registering its claims anew",
		old.root.Path(), n.spec.Key))
	// The directories are those that are open: their paths may lead elsewhere by now.
	reg, err := openRegistration(&n.spec, old.places)
	if err != nil {
		return errors.Is(err, os.ErrNotExist), err // where the removal goes on
	}
	reg.record, reg.renewing = old.record, true
	reg.record.Renewed = true
	within, cancel := context.WithTimeout(ctx, n.spec.Wait)
	err = reg.register(within, &n.spec, n.world, true, true)
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
			n.spec.warn(err)
		}
	}
	return false, nil
}

// nobody words the end of a wait for a leader that never came.
func nobody(err error) error {
	if errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("%w: the process with local rank 0 has not registered it (%w)", ErrNoLeader, err)
	}
	return err
}
