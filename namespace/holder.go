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

// Holder is a job that holds a claim.
type Holder struct {
	PID     int // a live process of the job
	Host    string
	Since   time.Time
	Command string
	Key     string
	Name    string
}

// shownCommand bounds the characters of a command line in a message.
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

// ClaimedError is returned if a directory or file of this job is, contains or lies inside one that
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
	return fmt.Sprintf("%s %s %s by %s", kind, e.Path, what, e.Holder)
}

// found is a job file that was read.
type found struct {
	record  record
	file    string
	members []Member // those that have not left
}

// alive returns a member that is alive and not ending. A process of another PID namespace counts as
// alive while it holds its lock.
func (f *found) alive() (Member, bool) {
	for _, m := range f.members {
		if m.Alive && !m.ending() {
			return m, true
		}
	}
	return Member{}, false
}

// led reports whether the leader of the job is alive.
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

// lookUp reads a job's file without a lock, since a lock would disturb sweeps and last members.
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

// eachJob reads all job files. It skips damaged and foreign ones and returns an error for each.
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

// longestUnknown limits the retries after a collision with a process without a record, which is
// registering or ending.
const longestUnknown = 2 * time.Second

// seen measures how long something was observed. The time between two observations counts up to
// maxBetween, since no process makes progress while the machine is suspended.
type seen struct {
	last time.Time
	sum  time.Duration
}

const maxBetween = 20 * time.Millisecond

// at adds an observation and returns the time so far.
func (s *seen) at(now time.Time) time.Duration {
	if !s.last.IsZero() {
		s.sum += min(now.Sub(s.last), maxBetween)
	}
	s.last = now
	return s.sum
}

// explainCollision returns an error that names the holder of a claim. Only this path reads the
// records of all jobs.
func (r *registration) explainCollision(at *wanted, spec *Spec, mayFollow bool) error {
	list, problems := eachJob(r.jobs)
	for _, err := range problems {
		r.warn(spec, "skipping job file", err)
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

// collision returns how a claim of ours and a recorded one collide, "" if they do not. The parents
// of theirs are found by its path, if that still leads to it.
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

// explainExisting returns ErrInUse if the job's file belongs to a live run.
func (r *registration) explainExisting(name string, mayFollow bool) error {
	f, err := lookUp(r.jobs, name)
	if errors.Is(err, unix.ENOENT) {
		return retryError{err}
	}
	if errors.Is(err, errRecord) {
		return retryError{err} // it is swept once it is not locked
	}
	if err != nil {
		return err
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

// surelyAlive is how long a process must be observed before it counts as alive. For an instant, the
// kernel shows neither a SIGKILL nor the exit of a process. A process that is preempted in that
// instant waits for time slices of other processes, each of 3 ms or more.
const surelyAlive = 50 * time.Millisecond

// refuse returns err, as a retryError until the process m was observed long enough.
func (r *registration) refuse(m Member, err error) error {
	if r.refuser.PID != m.PID || r.refuser.start != m.start {
		r.refuser, r.refused = m, seen{}
	}
	if r.refused.at(time.Now()) < surelyAlive {
		return retryError{err}
	}
	return err
}

// tidyNumber returns a random number whose leftovers to sweep, among those likely to be in use.
func tidyNumber(mine int) int { return firstNumber + rand.IntN(2*max(mine-firstNumber, 0)+16) }

// avoidStreaming returns a *ClaimedError for a directory of ours that a live job of MosaicML
// streaming uses. Its records are not locks: if no process that maps one is visible, it only warns.
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
		r.warn(spec, "skipping record of streaming", err)
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
	// Searching all processes takes milliseconds, so it is done only when needed.
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
			text += "; that job was killed"
		} else {
			text += "; that job may be alive in another PID namespace or as another user"
		}
		r.warn(spec, "directory named by streaming", errors.New(text))
	}
	return nil
}

// collideStreaming returns the directory of ours that collides with one in a streaming job's
// record. A relative one is relative to the working directory of that job's processes.
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
			continue // missing or not visible
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
