package namespace

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"leat/internal/lazyregexp"
)

// Dir is a directory of a job on this host.
type Dir struct {
	Path string // created if it is missing
	// Remote is the source of its content. With one, the job writes the directory and claims it
	// exclusively.
	Remote string
}

// Spec says which namespace to join. The zero value of a field is its default.
type Spec struct {
	// Key identifies the job: equal in all of its processes, different in any other job. The
	// default is LEAT_JOB, else what the launcher sets, else a random key, which children get
	// through Namespace.Environ. Of launchers, the innermost counts, since two in one batch job are
	// two jobs: torchrun with its run id, address and port; mpirun and srun with their step and the
	// batch job's id; else the id of a PBS, AWS Batch or Slurm job, or MASTER_ADDR and MASTER_PORT,
	// if the process has a rank.
	Key string
	// Name distinguishes several namespaces of one job ("train", "validation").
	Name string
	// Dirs are the job's directories, in the same order in all of its processes.
	Dirs []Dir
	// Files are output files, claimed exclusively. They need not exist, their directories must.
	Files []string
	// Ranks is the place of this process in the job. The default is that of the environment, by
	// torchrun (and launchers with its names), Open MPI, MPICH, Intel MPI or Slurm's srun; settings
	// that are incomplete, not numbers, or contradictory are errors. Workers and Worker may be set
	// in addition. With several processes the one with LocalRank 0 and Worker 0 leads, otherwise
	// the first to register.
	Ranks Ranks
	// MustLead makes this process register the job and never follow: if another has registered it,
	// the error is ErrInUse or a *ClaimedError.
	MustLead bool
	// Wait limits how long a process waits for its leader, and a leader for the claims of a job
	// that is ending. The default is 30 s.
	Wait time.Duration
	// Command describes this run in the errors of other jobs. The default is the command line.
	Command string
	// Logger gets warnings: damaged records, a removed runtime directory (which was made again),
	// and records of MosaicML streaming that name a directory of this job but whose processes are
	// not visible. nil discards them.
	Logger *slog.Logger
}

const (
	defaultWait = 30 * time.Second
	maxWhat     = 23
)

var (
	// errMismatch is returned if this process and its leader name different directories.
	errMismatch = errors.New("processes of one job disagree")
	// ErrInUse is returned if another run has registered the same job.
	ErrInUse = errors.New("the job is registered already")
	// ErrNoLeader is returned if the process that should register the job has not, or died.
	ErrNoLeader = errors.New("the job has no leader")
	// ErrClosed is returned by uses of a Namespace after its Close.
	ErrClosed = errors.New("namespace is closed")
)

var plainName = lazyregexp.New(`^[A-Za-z0-9][A-Za-z0-9._-]*$`)

func (s *Spec) validate() error {
	var errs []error
	if s.Name != "" && (len(s.Name) > maxKeyBytes || !plainName.MatchString(s.Name)) {
		errs = append(errs, fmt.Errorf("name %q of the namespace: expected letters, digits, '.', '_' and '-'",
			s.Name))
	}
	if s.Wait < 0 {
		errs = append(errs, fmt.Errorf("wait of %v: expected at least 0", s.Wait))
	}
	for i, d := range s.Dirs {
		if d.Path == "" {
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

// checkWhat checks the name of a shared object, which becomes part of a file name.
func checkWhat(what string) error {
	if len(what) > maxWhat || !plainName.MatchString(what) {
		return fmt.Errorf("name %q: expected 1 to %d letters, digits, '.', '_' and '-'",
			what, maxWhat)
	}
	return nil
}
