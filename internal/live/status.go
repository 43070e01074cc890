package live

import (
	"encoding/json"
	"time"

	"leat/timing"
)

// Status is the state of a run. Zero fields are not shown. In JSON, durations are integers in
// nanoseconds.
type Status struct {
	Title   string        `json:"title"`   // default: that of Options
	Command string        `json:"command"` // as typed, without secrets
	Version string        `json:"version,omitempty"`
	Started time.Time     `json:"started"`
	Elapsed time.Duration `json:"elapsed_ns"` // 0: since Started
	Phase   Phase         `json:"phase"`
	Err     string        `json:"error,omitempty"` // the cause if it failed
	Hint    string        `json:"hint,omitempty"`  // what the user can do about Err, if that is known

	Blocks   Blocks        `json:"blocks"`
	Grid     *Grid         `json:"grid"`
	Pixels   int64         `json:"pixels"`            // of finished blocks
	Rate     float64       `json:"pixels_per_s"`      // now
	MeanRate float64       `json:"mean_pixels_per_s"` // since the start
	Left     time.Duration `json:"left_ns"`           // estimate; 0: unknown

	Memory      int64 `json:"memory_bytes"`       // of this process; 0: unknown
	MemoryLimit int64 `json:"memory_limit_bytes"` // of the run; 0: unknown

	Queues     []Queue        `json:"queues"`
	Timings    timing.Summary `json:"timings"`
	Bottleneck string         `json:"bottleneck,omitempty"` // a sentence on what limits the run
	Workers    []Worker       `json:"workers"`
	Jobs       []string       `json:"jobs"` // that run the workers: "job 17"
	Outputs    []Output       `json:"outputs"`
	// Messages are in order of time. The last maxMessages are served.
	Messages []Message `json:"messages"`
}

// maxMessages is the number of messages on the page.
const maxMessages = 100

// Phase is the current step of a run. A run passes through some of them in this order.
type Phase string

// The phases. Done and Failed are final.
const (
	Staging   Phase = "staging"
	Burning   Phase = "rasterizing" // vectors
	Computing Phase = "blocks"
	LayingOut Phase = "laying out"
	Uploading Phase = "uploading"
	Done      Phase = "done"
	Failed    Phase = "failed"
)

var phases = []Phase{Staging, Burning, Computing, LayingOut, Uploading, Done, Failed}

// Blocks counts blocks. Lost, Reissued and Copies only grow.
type Blocks struct {
	Total    int `json:"total"`
	Done     int `json:"done"`
	Lost     int `json:"lost"`     // leased by a worker when it was lost
	Reissued int `json:"reissued"` // assigned again
	Copies   int `json:"copies"`   // assigned to a second worker while the first computed them
}

// BlockState is the state of a block, a letter.
type BlockState byte

// The states of a block.
const (
	BlockWaiting BlockState = '.'
	BlockRead    BlockState = 'r' // being read, or read and waiting for a worker
	BlockHeld    BlockState = 'h' // a worker computes it
	BlockCopied  BlockState = 'c' // two workers compute it
	BlockLost    BlockState = 'l' // its worker was lost, and it is not assigned again yet
	BlockFailed  BlockState = 'f'
	BlockDone    BlockState = 'd'
	BlockSkipped BlockState = ' ' // it is not computed
)

// Grid holds the state of each block.
//
// In JSON it is an object with the numbers of rows and columns of cells, the side of a cell in
// blocks, and a string with a letter for each cell, row by row. A cell of several blocks has the
// first of the letters f, l, c, h, r that any of them has; else . or d if all of them have it; else
// a digit, the tenths that are done. Skipped blocks do not count; a cell of only these is a blank.
type Grid struct {
	Columns int          // blocks in a row
	States  []BlockState // row by row
}

// maxCells limits the number of cells of a grid in JSON and on the page.
const maxCells = 4096

// MarshalJSON implements json.Marshaler.
func (g *Grid) MarshalJSON() ([]byte, error) {
	c := struct {
		Rows    int    `json:"rows"`
		Columns int    `json:"columns"`
		Side    int    `json:"side"`
		Cells   string `json:"cells"`
	}{Side: 1}
	if g != nil && g.Columns > 0 {
		rows := divideUp(len(g.States), g.Columns)
		for divideUp(rows, c.Side)*divideUp(g.Columns, c.Side) > maxCells {
			c.Side++
		}
		c.Rows, c.Columns = divideUp(rows, c.Side), divideUp(g.Columns, c.Side)
		cells := make([]byte, 0, c.Rows*c.Columns)
		for row := range c.Rows {
			for column := range c.Columns {
				cells = append(cells, g.cell(row*c.Side, column*c.Side, c.Side))
			}
		}
		c.Cells = string(cells)
	}
	return json.Marshal(c)
}

// divideUp divides and rounds up.
func divideUp(n, by int) int { return (n + by - 1) / by }

// cell returns the letter of a square of blocks, or ' ' if none of them is computed.
func (g *Grid) cell(row, column, side int) byte {
	var has [256]bool
	all, done := 0, 0
	for r := row; r < row+side; r++ {
		for c := column; c < min(column+side, g.Columns); c++ {
			if i := r*g.Columns + c; i < len(g.States) && g.States[i] != BlockSkipped {
				all++
				has[g.States[i]] = true
				if g.States[i] == BlockDone {
					done++
				}
			}
		}
	}
	for _, s := range []BlockState{BlockFailed, BlockLost, BlockCopied, BlockHeld, BlockRead} {
		if has[s] {
			return byte(s)
		}
	}
	switch done {
	case all:
		if all == 0 {
			return ' '
		}
		return byte(BlockDone)
	case 0:
		return byte(BlockWaiting)
	}
	return '0' + byte(10*done/all)
}

// Queue is a queue between two stages.
type Queue struct {
	Name  string `json:"name"`
	Depth int64  `json:"depth"`
	Limit int64  `json:"limit"` // 0: none
}

// Worker is a worker of this process or another. State is a word; the page has colours for "lost",
// "failed", "starting", "left" and "gone".
type Worker struct {
	Name  string        `json:"name"`
	Kind  string        `json:"kind"`
	Host  string        `json:"host,omitempty"`
	PID   int           `json:"pid,omitempty"`
	Cores int           `json:"cores,omitempty"`
	Slots int           `json:"slots,omitempty"` // number of blocks that it computes at once
	State string        `json:"state"`
	Done  int           `json:"done"`     // blocks
	Held  []int         `json:"held"`     // numbers of blocks
	Quiet time.Duration `json:"quiet_ns"` // since its last message; 0: unknown
}

// Output is an output of the run.
type Output struct {
	Name  string `json:"name"`
	Path  string `json:"path"`  // without secrets
	Bytes int64  `json:"bytes"` // in the spool
}

// Message is an error or a warning.
type Message struct {
	Time    time.Time `json:"time"`
	Warning bool      `json:"warning"` // otherwise an error
	Text    string    `json:"text"`
}
