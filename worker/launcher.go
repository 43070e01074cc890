package worker

import (
	"context"
	"log/slog"
	"os"
)

// Launcher starts workers of one kind: processes on this machine, or jobs of a batch system. Its
// methods are safe for concurrent use. Packages worker/subprocess, worker/slurm, worker/pbs and
// worker/awsbatch each provide one.
type Launcher interface {
	// Name returns the launcher's name for users: "subprocess", "slurm".
	Name() string
	// Capabilities returns what a run needs to know before planning.
	Capabilities() Capabilities
	// Check returns an error if no worker can be started here, for example because a program is
	// missing or options are invalid. It takes seconds at most and starts nothing.
	Check(ctx context.Context) error
	// Start starts o.Workers workers and returns when the system has accepted them; they need not
	// be running yet. ctx bounds only the starting. After an error no worker is left, except those
	// that a LeftError in it names.
	Start(ctx context.Context, o StartOptions) (Fleet, error)
}

// Capabilities describes the workers of a launcher.
type Capabilities struct {
	// Local workers are child processes on this machine: they inherit connections
	// (StartOptions.Connect) and get block arrays in shared memory. Other workers connect to the
	// coordinator's address and read their inputs themselves.
	Local bool
	// OneBlockPerJob reports whether workers may be started for one block each.
	OneBlockPerJob bool
	// SharedDir reports whether workers need StartOptions.Dir.
	SharedDir bool
	// NoSharedFS reports whether workers normally share no directory with this machine, for example
	// because they run in containers.
	NoSharedFS bool
}

// StartOptions describes the workers to start.
type StartOptions struct {
	Workers int
	// First is the number of the first of these workers, greater than 0 for workers started later
	// in a run. Worker i is named WorkerName(kind, i).
	First int
	// Total is the number of workers of the whole run, for launchers whose workers share this
	// machine; 0: Workers.
	Total int
	// Command is the worker's program, an absolute path, and its arguments. It contains no secrets.
	Command []string
	// RunID identifies this run in names of jobs: letters, digits and dashes, at most 32 bytes.
	RunID string
	// Endpoint locates the coordinator. Its text is a secret: it is passed in a file of mode 0600,
	// or in an environment that only this user can read, never on a command line. It is zero for
	// local launchers.
	Endpoint Endpoint
	// Dir is a directory of this run, of mode 0700, that all its workers can reach; "": none. It
	// may hold secrets and logs of workers; the run removes it.
	Dir string
	// Connect creates a connection for a child and returns the child's end, which the launcher
	// closes after starting the child. Only for local launchers.
	Connect func() (*os.File, error)
	// OnExit is called once for each worker that has ended, or will never start, as soon as the
	// launcher knows: at once for child processes, after the next query of a batch system. It is
	// not called for workers that Fleet.Stop ends.
	OnExit func(Exit)
	// OnQuery is called after each query of the workers' jobs, with nil or the error of the query.
	// nil: not called. Launchers that don't query never call it.
	OnQuery func(err error)
	// OnStartError may be called with the error of Start before Start ends the workers that it has
	// started, so that their exits are not mistaken for the cause. nil: not called.
	OnStartError func(error)
	Logger       *slog.Logger
}

// Exit describes a worker that has ended.
type Exit struct {
	Name string // as returned by WorkerName
	Job  string // the system's name for it: "process 4711", "job 17_3"
	Err  error  // how it ended; nil: successfully
	Log  string // the end of its output without a final line break; "" if unknown
}

// Fleet is a group of workers that were started together.
type Fleet interface {
	// Jobs names the system's jobs for messages: "job 17".
	Jobs() string
	// Stop ends the remaining workers and returns when the system has none of them left, or when
	// ctx is done; its error then has a LeftError for what may be left. It may be called several
	// times. No goroutine of the fleet is left after it.
	Stop(ctx context.Context) error
}
