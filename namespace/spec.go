package namespace

import (
	"errors"
	"fmt"
	"regexp"
	"time"
)

// Dir is a directory of a job on this machine.
type Dir struct {
	Dir string `json:"dir"` // made if it is missing
	// where its content comes from; with one, the job writes Dir and claims it exclusively
	Remote string `json:"remote,omitempty"`
}

// Spec says which namespace to join, and with what.
type Spec struct {
	// Key is the job's: equal in all of its processes, different in any other job. Empty: what the
	// environment says (see KeyFromEnv), else a random one, which children get through
	// Namespace.Environ.
	Key string
	// Name tells several namespaces of one job apart ("train", "validation"). May be empty.
	Name string
	// Dirs are the job's directories, in the same order in all of its processes.
	Dirs []Dir
	// Files are output files, claimed exclusively. They need not exist, their folders must.
	Files []string
	// Ranks says how many processes there are and which this is. Nil: what the environment says
	// (see WorldFromEnv). The process with LocalRank 0 and Worker 0 of a launcher's leads; without
	// a launcher (LocalRanks 0) whoever comes first.
	Ranks *Ranks
	// MustLead has this process register the job and never follow: where another has registered it,
	// that is ErrInUse or a *ClaimedError.
	MustLead bool
	// Wait is how long a process waits for the one that leads, and the one that leads for a dying
	// job's claims. 0: 30 s.
	Wait time.Duration
	// Command is how this run is named to those whom it stands in the way of. Empty: the process's
	// command line.
	Command string
	// Warn is called with what is odd but no error: torn records, a removed runtime folder (which
	// was made anew), records of MosaicML streaming with a directory of this job whose processes
	// are not to be seen. It may be called from any goroutine. Nil: slog.Default logs them.
	Warn func(error)
}

const (
	defaultWait = 30 * time.Second
	maxWhat     = 23
)

var (
	// ErrMismatch tells that this process and the one that leads its job do not mean the same
	// directories.
	ErrMismatch = errors.New("processes of one job disagree")
	// ErrInUse tells that another run has registered the same job.
	ErrInUse = errors.New("the job is registered already")
	// ErrNoLeader tells that the process that should register the job has not, or died.
	ErrNoLeader = errors.New("nobody leads the job")
	// ErrMemberDied tells that a process of the job ended without leaving.
	ErrMemberDied = errors.New("a process of the job died")
	// ErrClosed is returned by operations of a namespace that was left.
	ErrClosed = errors.New("namespace is closed")
)

var plainName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*$`)

func (s *Spec) validate() error {
	var errs []error
	if s.Name != "" && (len(s.Name) > maxKeyBytes || !plainName.MatchString(s.Name)) {
		errs = append(errs, fmt.Errorf("the name %q of the namespace must be letters, digits, '.', '_' and '-'",
			s.Name))
	}
	if s.Wait < 0 {
		errs = append(errs, fmt.Errorf("waiting for %v is not possible", s.Wait))
	}
	for i, d := range s.Dirs {
		if d.Dir == "" {
			errs = append(errs, fmt.Errorf("directory %d has no path", i+1))
		}
	}
	for i, f := range s.Files {
		if f == "" {
			errs = append(errs, fmt.Errorf("file %d has no path", i+1))
		}
	}
	return errors.Join(errs...)
}

// checkWhat checks the name of a shared thing.
func checkWhat(what string) error {
	if len(what) > maxWhat || !plainName.MatchString(what) {
		return fmt.Errorf("%q must be 1 to %d letters, digits, '.', '_' and '-': it becomes part of a file's name",
			what, maxWhat)
	}
	return nil
}
