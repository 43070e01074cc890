package live

import (
	"encoding/json"
	"time"

	"leat/timing"
)

// Status is what a run is doing. Fields that are left out are not shown. In JSON all durations are
// integers of nanoseconds.
type Status struct {
	Title   string        `json:"title"`   // by default that of Options
	Command string        `json:"command"` // as typed, without secrets
	Version string        `json:"version,omitempty"`
	Started time.Time     `json:"started"`
	Elapsed time.Duration `json:"elapsed_ns"` // 0: since Started
	Phase   Phase         `json:"phase"`
	Err     string        `json:"error,omitempty"` // why it failed

	Blocks   Blocks        `json:"blocks"`
	Grid     *Grid         `json:"grid"`
	Pixels   int64         `json:"pixels"`            // of finished blocks
	Rate     float64       `json:"pixels_per_s"`      // now
	MeanRate float64       `json:"mean_pixels_per_s"` // since the start
	Left     time.Duration `json:"left_ns"`           // reckoned; 0: unknown

	Queues     []Queue        `json:"queues"`
	Timings    timing.Summary `json:"timings"`
	Bottleneck string         `json:"bottleneck,omitempty"` // a sentence, such as that of Summary.Advice
	Workers    []Worker       `json:"workers"`
	Outputs    []Output       `json:"outputs"`
	// Messages are in order of time. The last MaxMessages are served.
	Messages []Message `json:"messages"`
}

// MaxMessages is how many messages a page holds.
const MaxMessages = 100

// Phase is what a run is at. A run goes through some of them in this order.
type Phase string

// The phases. After Done or Failed comes nothing more.
const (
	Staging   Phase = "staging"
	Burning   Phase = "rasterising" // vectors
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
	Lost     int `json:"lost"`     // held by a worker when it was lost
	Reissued int `json:"reissued"` // given out again
	Copies   int `json:"copies"`   // given out to a second worker while the first had them
}

// BlockState is a letter for where a block is.
type BlockState byte

// The states of a block.
const (
	BlockWaiting BlockState = '.'
	BlockRead    BlockState = 'r' // is read, or was and waits for a worker
	BlockHeld    BlockState = 'h' // a worker has it
	BlockCopied  BlockState = 'c' // two workers have it
	BlockLost    BlockState = 'l' // its worker was lost, and no other has it yet
	BlockFailed  BlockState = 'f'
	BlockDone    BlockState = 'd'
)

// Grid holds the state of each block.
//
// In JSON it is an object with rows and columns of cells, the side of a cell in blocks, and a
// string with a letter for each cell, row by row. A cell of several blocks has the letter of the
// first of f, l, c, h, r that any of them has; else . or d where that is all of them; else a digit,
// the tenths that are done.
type Grid struct {
	Columns int          // blocks in a row
	States  []BlockState // row by row
}

// MaxCells is how many cells a grid has at most in JSON and on the page.
const MaxCells = 4096

// MarshalJSON implements json.Marshaler.
func (g *Grid) MarshalJSON() ([]byte, error) {
	c := struct {
		Rows    int    `json:"rows"`
		Columns int    `json:"columns"`
		Side    int    `json:"side"`
		Cells   string `json:"cells"`
	}{Side: 1}
	if g != nil && g.Columns > 0 {
		rows := upTo(len(g.States), g.Columns)
		for upTo(rows, c.Side)*upTo(g.Columns, c.Side) > MaxCells {
			c.Side++
		}
		c.Rows, c.Columns = upTo(rows, c.Side), upTo(g.Columns, c.Side)
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

// upTo divides and rounds up.
func upTo(n, by int) int { return (n + by - 1) / by }

// cell is the letter of a square of blocks; ' ' where there is none.
func (g *Grid) cell(row, column, side int) byte {
	var has [256]bool
	all, done := 0, 0
	for r := row; r < row+side; r++ {
		for c := column; c < min(column+side, g.Columns); c++ {
			if i := r*g.Columns + c; i < len(g.States) {
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

// Queue is how much waits between two stages.
type Queue struct {
	Name  string `json:"name"`
	Depth int64  `json:"depth"`
	Limit int64  `json:"limit"` // 0: none
}

// Worker is a worker, of this process or another. State is a word: "lost" and "failed", "starting",
// "left" and "gone" have colours of their own.
type Worker struct {
	Name  string        `json:"name"`
	Kind  string        `json:"kind"`
	Host  string        `json:"host,omitempty"`
	PID   int           `json:"pid,omitempty"`
	Cores int           `json:"cores,omitempty"`
	Slots int           `json:"slots,omitempty"` // blocks it computes at once
	State string        `json:"state"`
	Done  int           `json:"done"`     // blocks
	Held  []int         `json:"held"`     // numbers of blocks
	Quiet time.Duration `json:"quiet_ns"` // since it was last heard; 0 where it isn't listened for
}

// Output is a file that the run makes.
type Output struct {
	Name  string `json:"name"`
	Path  string `json:"path"`  // without secrets
	Bytes int64  `json:"bytes"` // spooled
}

// Message is an error or a warning.
type Message struct {
	Time    time.Time `json:"time"`
	Warning bool      `json:"warning"` // else an error
	Text    string    `json:"text"`
}
