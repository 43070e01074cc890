package exec

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"leat/apply/internal/output"
	"leat/apply/internal/plan"
	"leat/apply/internal/spool"
	"leat/block"
	"leat/internal/units"
	"leat/ndarray"
)

// maxResult returns the maximum size of a worker's result for a block.
func maxResult(p *plan.Plan, writers []*output.Writer, emits bool) int64 {
	w := block.Window{Width: min(p.Blocks.WindowWidth, p.Grid.Width),
		Height: min(p.Blocks.WindowHeight, p.Grid.Height)}
	n := int64(answerHead)
	for _, o := range writers {
		pixel := int64(o.Bands * o.Type.Size())
		if pixel == 0 { // unknown before the first block
			return min(maxAnswer, max(256<<20, p.BudgetBytes/2))
		}
		tiles := int64(output.RoundUp(w.Width, o.TileWidth)) * int64(output.RoundUp(w.Height, o.TileHeight))
		n += tiles*pixel*2 + w.Pixels()*pixel // tiles that no coding makes smaller, and overviews
		n += int64(o.Bands)*(1<<16)*11 + tiles/int64(o.TileWidth*o.TileHeight)*int64(o.Bands)*128
	}
	if emits {
		n += maxValues
	}
	return min(n, maxAnswer)
}

const (
	maxAnswer  = 2 << 30  // maximum size of any result
	maxValues  = 64 << 20 // maximum size of a block's encoded values
	answerHead = 1 << 20  // maximum size of a result's head
)

// answer is the head of a worker's result for a block: JSON preceded by its length in 4 bytes,
// little-endian. The records of the outputs follow it, and then, in jobs without outputs, the
// values that the block emitted.
type answer struct {
	Outputs   []answerOutput   `json:"outputs"`          // by name
	Values    []int            `json:"values,omitempty"` // the length of each
	Intervals []answerInterval `json:"intervals,omitempty"`
}

type answerOutput struct {
	Type  ndarray.DType `json:"type"`
	Bands int           `json:"bands"`
	Bytes int           `json:"bytes"` // length of its record, or of its tables if Shared is not 0
	// Shared is the length of the record's data in the worker's shared memory, at offset At. If it
	// is 0, the data follows the tables.
	Shared int `json:"shared,omitempty"`
	At     int `json:"at,omitempty"`
}

// answerInterval is the time that one stage of the work on a block took.
type answerInterval struct {
	Stage  string        `json:"stage"`
	Lane   string        `json:"lane,omitempty"` // within the worker
	Ago    time.Duration `json:"ago"`            // ns from its start to when the head was written
	Length time.Duration `json:"length"`
}

// parseAnswer splits a body into its head, the records of n outputs, and values.
func parseAnswer(body []byte, n int) (*answer, [][]byte, error) {
	t := spool.Decoder{Rest: body}
	head := t.Take(t.Uint32())
	if t.Torn || len(head) > answerHead {
		return nil, nil, errors.New("its head is cut off, or too long")
	}
	a := &answer{}
	if err := json.Unmarshal(head, a); err != nil {
		return nil, nil, fmt.Errorf("its head can't be read: %w", err)
	}
	if len(a.Outputs) != n || n > 0 && len(a.Values) > 0 {
		return nil, nil, fmt.Errorf("it has %s instead of %d", units.Count(len(a.Outputs), "output"), n)
	}
	var parts [][]byte
	for _, o := range a.Outputs {
		if o.Shared < 0 || o.At < 0 {
			return nil, nil, errors.New("an offset or length in shared memory is negative, expected at least 0")
		}
		if !o.Type.Valid() || o.Bands < 1 || o.Bands > 1<<16 {
			return nil, nil, fmt.Errorf("it has %d bands of type %d, expected at least one band of a known type", o.Bands,
				o.Type)
		}
		parts = append(parts, t.Take(o.Bytes))
	}
	for _, bytes := range a.Values {
		parts = append(parts, t.Take(bytes))
	}
	if t.Torn || len(t.Rest) > 0 {
		return nil, nil, errors.New("it is not as long as its head says")
	}
	return a, parts, nil
}
