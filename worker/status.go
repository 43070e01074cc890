package worker

import "time"

// State of a worker, as the run sees it.
type State string

const (
	StateStarting State = "starting" // it was asked for, and has not joined
	StateJoined   State = "joined"
	StateLost     State = "lost" // silent, or its connection ended: its blocks were given out again, and its results are refused
	StateLeft     State = "left" // it said farewell
	StateGone     State = "gone" // its kind said that it is no more
)

// Status is what a run knows of its workers at one moment.
type Status struct {
	Workers []WorkerStatus
	// Blocks of the run, and those that are done (of earlier runs too), held by workers, and waiting to be given out.
	Blocks, Done, Held, Waiting int
	// LostWorkers were lost; Reissued blocks were given out again for that; Copies of blocks were given to idle workers; Superseded results came
	// after those of another worker.
	LostWorkers, Reissued, Copies, Superseded int64
	Refused                                   Refused
	// Strangers are connections that have shown no token yet; Polls are workers that wait for blocks; BodyBytes are taken by results in memory.
	Strangers, Polls int
	BodyBytes        int64
	// Ended tells how the run has ended: "" not yet, "done", or "failed".
	Ended string
}

// Refused counts messages that were refused.
type Refused struct {
	Token     int64 // no token, or a wrong one
	Build     int64 // a worker of another build, architecture or version
	Malformed int64 // a message that is not what the protocol says, or too large
	Lost      int64 // of a worker that was given up, or is not known
	Lease     int64 // a result without a lease of its block
	Block     int64 // a block that the run does not have
	Size      int64 // a result larger than results are
	Checksum  int64
	Slow      int64 // a body that made no progress
	Crowded   int64 // a connection without a token that made room for others
}

// WorkerStatus is what a run knows of one worker.
type WorkerStatus struct {
	Name, Kind, Host, Arch string
	Number                 int // in the order of joining; -1: it has not joined
	PID, Cores, Slots      int
	State                  State
	Joined, Heard          time.Time // zero: never
	Held                   []int     // blocks, in no order
	Done                   int       // blocks whose results were taken from it
	Bytes                  int64     // of those results
}
