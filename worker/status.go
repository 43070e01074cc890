package worker

import "time"

// State is the state of a worker as the coordinator knows it.
type State string

const (
	StateStarting State = "starting" // requested, not joined
	StateJoined   State = "joined"
	// silent, disconnected or ended: its blocks are leased again, and its results are refused
	StateLost State = "lost"
	StateLeft State = "left" // it reported that it was leaving
	StateGone State = "gone" // its launcher reported its end
)

// Status is a snapshot of a run.
type Status struct {
	Workers []WorkerStatus
	// Jobs names the jobs of the batch system, or the processes, that were started: "job 17".
	Jobs []string
	// Blocks counts all blocks, Done those that are done (earlier runs included), Held those held
	// by workers, and Waiting those to be leased.
	Blocks, Done, Held, Waiting int
	// LostWorkers counts lost workers, Reissued blocks leased again after a loss, Copies blocks
	// leased a second time to idle workers, and Superseded results that arrived after another
	// worker's.
	LostWorkers, Reissued, Copies, Superseded int64
	// ReplacedWorkers counts workers started in place of others.
	ReplacedWorkers int64
	Refused         Refused
	// Unauthenticated counts connections that have not sent the token, Polls workers that wait for
	// blocks, and BodyBytes the memory of results.
	Unauthenticated, Polls int
	BodyBytes              int64
	// Ended is how the run has ended: "done" or "failed"; "" while it runs.
	Ended string
}

// Refused counts refused messages.
type Refused struct {
	Token     int64 // missing or wrong token
	Build     int64 // worker of another build, architecture or protocol version
	Malformed int64 // message that violates the protocol, or too large
	Lost      int64 // from a lost or unknown worker
	Lease     int64 // result without a lease of its block
	Block     int64 // block that the run does not have
	Size      int64 // result or value larger than allowed
	Checksum  int64
	Slow      int64 // body without progress
}

// WorkerStatus is a snapshot of one worker.
type WorkerStatus struct {
	Name, Kind, Host, Arch string
	Number                 int // in order of joining; -1: not joined
	PID, Cores, Slots      int
	State                  State
	Joined, Heard          time.Time // zero: never
	Held                   []int     // blocks, unordered
	Done                   int       // blocks whose results were accepted from it
	Bytes                  int64     // of those results, as received; without data in shared memory
}
