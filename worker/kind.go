package worker

import (
	"context"
	"log/slog"
	"os"
)

// Kind starts workers of one kind: as processes of this machine, or as jobs of a batch system. Its methods may be called by
// several goroutines at once. Packages worker/subprocess, worker/slurm, worker/pbs and worker/awsbatch have one each.
type Kind interface {
	// Name is what users call the kind: "subprocess", "slurm".
	Name() string
	// Facts are what a run has to know before it is planned.
	Facts() Facts
	// Check returns why no worker of this kind can be started here: a program that is missing, options that can't be. It is called
	// before anything is read, takes seconds at most, and starts nothing.
	Check(ctx context.Context) error
	// Start starts o.Workers workers, and returns when the system has taken them, which need not be running yet. ctx bounds the starting alone. An error
	// means that none is left.
	Start(ctx context.Context, o StartOptions) (Fleet, error)
}

// Facts tell how workers of a kind live.
type Facts struct {
	// Local workers are children of this process, on this machine: they are given connections (StartOptions.Connect) and block arrays in shared memory.
	// Others find the channel by its address and read their inputs themselves.
	Local bool
	// Single tells whether workers may be started for one block each.
	Single bool
	// SharedFolder tells that workers can only be started with StartOptions.Folder.
	SharedFolder bool
	// Apart tells that no folder of this machine is theirs too unless somebody has seen to it: they live in containers, say.
	Apart bool
}

// StartOptions say what to start.
type StartOptions struct {
	Workers int
	// First is the number of the first of these workers: a run may start some more later. Worker i is called WorkerName(kind, i).
	First int
	// Command is the program of a worker and its arguments: without secrets, its path absolute.
	Command []string
	// Run is a word that tells this run from others, for names of jobs: letters, digits and dashes, at most 32 bytes.
	Run string
	// Invitation is what leads a worker to the channel. Its text is a secret: it goes by a file of mode 0600, by the environment where
	// only this user can read that, never by a command line. Zero for local kinds.
	Invitation Invitation
	// Folder is a folder of this run, of mode 0700, that all its workers can reach; "": there is none. Secrets and logs of workers may be kept in it; the
	// run removes it.
	Folder string
	// Connect makes a connection for a child: the file is the child's end, which the kind closes once the child has it. Only for local kinds.
	Connect func() (*os.File, error)
	// Gone is told of each worker that has ended, or will never start, once, as soon as the kind knows: at once for children, at the next
	// look of a batch system. It is not told of those that Fleet.Stop ends.
	Gone func(Exit)
	// Failed may be told why Start fails before it ends the workers that it has started, so that their end is not taken for a cause. nil: nobody is told.
	Failed func(error)
	Logger *slog.Logger
}

// Exit tells of a worker that is no more.
type Exit struct {
	Name string // as WorkerName gave it
	Job  string // how the system calls it: "process 4711", "job 17_3"
	Err  error  // how it ended; nil: well
	Log  string // the end of what it wrote, without a line break at its end; "" where there is nothing
}

// Fleet are workers that were started together.
type Fleet interface {
	// Jobs names what the system was given, for messages: "job 17".
	Jobs() string
	// Stop ends all that is left of the workers, and returns when the system has none of them any more, or when ctx ends, with an error that says what
	// may be left and how to end it by hand. It may be called several times; after it, no goroutine of the fleet is left.
	Stop(ctx context.Context) error
}
