//go:build unix

package namespace

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"leat/internal/lockfile"
)

// Holder is a job that has what another asks for.
type Holder struct {
	PID     int // a process of it that lives
	Host    string
	Since   time.Time
	Command string
	Key     string
	Name    string
}

// shownCommand is how much of a command line tells one run from another in a message.
const shownCommand = 80

func (h Holder) String() string {
	text := fmt.Sprintf("process %d on %s", h.PID, h.Host)
	if !h.Since.IsZero() {
		text += ", since " + h.Since.Local().Format("2006-01-02 15:04:05")
	}
	if h.Command == "" {
		return text
	}
	command := []rune(h.Command)
	if len(command) > shownCommand {
		command = append(command[:shownCommand], '…')
	}
	return text + ": " + string(command)
}

// ClaimedError tells that a directory or file of this job is, contains or lies inside one that
// another job uses.
type ClaimedError struct {
	Path   string // of this job
	File   bool   // Path is a file
	How    string // "is", "contains" or "lies inside"
	Theirs string // of the other job
	Holder Holder
}

func (e *ClaimedError) Error() string {
	what := "is in use"
	if e.How != "is" || e.Path != e.Theirs {
		what = fmt.Sprintf("%s %s, which is in use", e.How, e.Theirs)
	}
	kind := "directory"
	if e.File {
		kind = "file"
	}
	return fmt.Sprintf("%s %s (%s): wait for that to end, or use another %s", e.Path, what, e.Holder, kind)
}

// found is a job file that was read.
type found struct {
	record  record
	file    string
	members []Member // those that have not left
}

// alive returns a member that lives and is not about to end. One that can't be found, in another
// container's numbers of processes, lives if its lock does.
func (f *found) alive() (Member, bool) {
	for _, m := range f.members {
		if m.Alive && !m.ending() {
			return m, true
		}
	}
	return Member{}, false
}

// led reports whether the process that leads the job lives.
func (f *found) led() bool {
	for _, m := range f.members {
		if m.Leader && m.Alive {
			return true
		}
	}
	return false
}

func (f *found) holder(m Member) Holder {
	return Holder{PID: m.PID, Host: f.record.Host, Since: f.record.Since, Command: f.record.Command, Key: f.record.Key,
		Name: f.record.Name}
}

// lookUp reads a job's file without holding it: sweeps and last members are not disturbed.
func lookUp(jobs *lockfile.Dir, name string) (*found, error) {
	fd, err := unix.Openat(jobs.Fd(), name, unix.O_RDWR|unix.O_NOFOLLOW|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", jobs.FilePath(name), err)
	}
	defer unix.Close(fd)
	rec, offset, slots, err := readRecord(fd)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", jobs.FilePath(name), err)
	}
	locks, err := jobs.Ranges(fd, name)
	if err != nil {
		return nil, err
	}
	defer locks.Close()
	t, err := mapTable(fd, offset, slots, locks)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", jobs.FilePath(name), err)
	}
	defer t.close()
	members, err := t.members(-1)
	return &found{record: rec, file: name, members: members}, err
}

// eachJob reads all job files. Torn and foreign ones are problems, not ends.
func eachJob(jobs *lockfile.Dir) (list []*found, problems []error) {
	names, err := jobs.Names()
	if err != nil {
		return nil, []error{err}
	}
	for _, name := range names {
		f, err := lookUp(jobs, name)
		switch {
		case errors.Is(err, unix.ENOENT): // left meanwhile
		case err != nil:
			problems = append(problems, err)
		default:
			list = append(list, f)
		}
	}
	return list, problems
}

// longestUnknown is how long a collision with someone who has no record is tried again: such a one
// is registering, or gone.
const longestUnknown = 2 * time.Second

// seen is how long something was seen to be so. The time between two looks counts for no more than
// mostBetween: a machine that stood still has let nobody go on.
type seen struct {
	last time.Time
	sum  time.Duration
}

const mostBetween = 20 * time.Millisecond

// at is a look.
func (s *seen) at(now time.Time) time.Duration {
	if !s.last.IsZero() {
		s.sum += min(now.Sub(s.last), mostBetween)
	}
	s.last = now
	return s.sum
}

// explainCollision finds who stands in the way of a claim. Only this path reads the records of all
// jobs.
func (r *registration) explainCollision(at *wanted, spec *Spec, mayFollow bool) error {
	list, problems := eachJob(r.jobs)
	for _, err := range problems {
		r.warn(spec, err)
	}
	for _, f := range list {
		for _, c := range f.record.Claims {
			how := r.collision(at, c)
			if how == "" {
				continue
			}
			m, alive := f.alive()
			e := &ClaimedError{Path: at.Path, File: at.File, How: how, Theirs: c.Path, Holder: f.holder(m)}
			if alive && mayFollow && f.led() && f.record.Key == spec.Key && f.record.Name == spec.Name {
				return retryError{e} // it is the one to follow
			}
			if alive {
				return r.refuse(m, e)
			}
			for _, m := range f.members {
				if m.Alive { // it is ending
					e.Holder.PID = m.PID
					return retryError{e}
				}
			}
		}
	}
	err := fmt.Errorf("%s is in use by a process that is not registered below %s", at.Path, r.root.Path())
	if r.unknown.at(time.Now()) > longestUnknown {
		return err
	}
	return retryError{err}
}

// collision tells how a claim of ours and a recorded one collide. What theirs lies in is found by
// its path, if that still leads to it.
func (r *registration) collision(mine *wanted, theirs claim) string {
	if !mine.Exclusive && !theirs.Exclusive {
		return ""
	}
	var above []dirID
	if p, err := lookPlace(theirs.Path, theirs.File); err == nil {
		if p.ID == (dirID{theirs.Dev, theirs.Ino}) {
			above = p.Ancestors
		}
		p.Close()
	}
	return collide(mine.place, dirID{theirs.Dev, theirs.Ino}, above)
}

// explainExisting tells whether the job's file belongs to a run that goes on.
func (r *registration) explainExisting(name string, mayFollow bool) error {
	f, err := lookUp(r.jobs, name)
	if errors.Is(err, unix.ENOENT) {
		return retryError{err}
	}
	if errors.Is(err, errRecord) {
		return retryError{fmt.Errorf("%w: remove the file", err)} // it goes when nobody holds it
	}
	if err != nil {
		return fmt.Errorf("%w: remove the file", err)
	}
	m, alive := f.alive()
	if !alive {
		m.PID = f.record.PID
	}
	err = fmt.Errorf("%w: %s/%s by %s", ErrInUse, f.record.Key, f.record.Name, f.holder(m))
	if f.record.Name == "" {
		err = fmt.Errorf("%w: %s by %s", ErrInUse, f.record.Key, f.holder(m))
	}
	if !alive || mayFollow && f.led() {
		return retryError{err}
	}
	return r.refuse(m, err)
}

// surelyAlive is for how long a process must be seen to live to be believed: between the arrival of
// a SIGKILL and the first sign of exiting the kernel shows neither for an instant, in which the
// process may lose its processor, and then waits for a slice, of 3 ms or more, of each of the
// others.
const surelyAlive = 50 * time.Millisecond

// refuse is the final word that a live process m stands in the way, when it was seen to live for
// long enough.
func (r *registration) refuse(m Member, err error) error {
	if r.refuser.PID != m.PID || r.refuser.start != m.start {
		r.refuser, r.refused = m, seen{}
	}
	if r.refused.at(time.Now()) < surelyAlive {
		return retryError{err}
	}
	return err
}

// tidyNumber picks a number whose leftovers to look for: among as many as are likely to be in use.
func tidyNumber(mine int) int { return firstNumber + rand.IntN(2*max(mine-firstNumber, 0)+16) }

// avoidStreaming refuses a directory of ours that a live job of MosaicML streaming uses. Its
// records are no locks: where no process that maps one can be seen, that is worth a warning only.
func (r *registration) avoidStreaming(spec *Spec) error {
	var exclusive bool
	for _, p := range r.places {
		exclusive = exclusive || p.Exclusive && !p.File
	}
	if !exclusive {
		return nil
	}
	jobs, problems := streamingJobs(shmDir)
	for _, err := range problems {
		r.warn(spec, err)
	}
	for _, job := range jobs {
		if err := r.avoidStreamingJob(spec, job); err != nil {
			return err
		}
	}
	return nil
}

func (r *registration) avoidStreamingJob(spec *Spec, job streamingJob) error {
	var ended bool // for certain
	// Looking through all processes takes milliseconds: only once something collides, or can't be
	// compared without.
	users := sync.OnceValue(func() (pids []int) {
		pids, complete := job.mappedBy("/proc")
		ended = len(pids) == 0 && complete && seesAllProcesses("/proc")
		return pids
	})
	for _, dir := range job.Dirs {
		mine, how := r.collideStreaming(dir, users)
		text := ""
		switch {
		case mine != nil && len(users()) > 0:
			pid := users()[0]
			return &ClaimedError{Path: mine.Path, How: how, Theirs: dir,
				Holder: Holder{PID: pid, Host: "this machine", Command: procState(pid).Command, Key: job.Path}}
		case mine != nil:
			text = fmt.Sprintf("%s %s %s, which a job of MosaicML streaming uses according to %s", mine.Path, how, dir,
				job.Path)
		case !filepath.IsAbs(dir) && len(users()) == 0 && !ended:
			text = fmt.Sprintf("a job of MosaicML streaming uses %s below its working directory according to %s, which may be a directory of this job", dir, job.Path)
		default:
			continue
		}
		if ended {
			text += "; that job was killed: remove the file"
		} else {
			text += "; whether that job lives can't be checked, since it may run in another PID namespace (a container) or as another user: remove the file if it has ended"
		}
		r.warn(spec, errors.New(text))
	}
	return nil
}

// collideStreaming finds the directory of ours that collides with one that a streaming job wrote
// down. A relative one is relative to where that job's processes are.
func (r *registration) collideStreaming(dir string, users func() []int) (mine *wanted, how string) {
	paths := []string{dir}
	if !filepath.IsAbs(dir) {
		paths = nil
		for _, pid := range users() {
			paths = append(paths, fmt.Sprintf("/proc/%d/cwd/%s", pid, dir))
		}
	}
	for _, path := range paths {
		p, err := lookPlace(path, false)
		if err != nil {
			continue // it is not there (any more), or not to be seen by us
		}
		p.Close()
		for i := range r.places {
			mine := &r.places[i]
			if !mine.Exclusive || mine.File {
				continue
			}
			if how := collide(mine.place, p.ID, p.Ancestors); how != "" {
				return mine, how
			}
		}
	}
	return nil, ""
}
