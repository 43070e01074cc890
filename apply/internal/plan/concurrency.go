package plan

import (
	"fmt"
	"runtime"

	"leat/apply/internal/jobspec"
	"leat/apply/outcome"
	"leat/internal/units"
)

// setWorkers sets the numbers of workers and readers, before the number of blocks is known.
func (p *Plan) setWorkers(c *jobspec.Concurrency) {
	p.Workers, p.Readers = c.Counts()
	if c.On == nil {
		if cores := runtime.GOMAXPROCS(0); p.Workers > cores {
			p.note(outcome.Note{Field: "Concurrency.Workers",
				Text: fmt.Sprintf("%d workers for %s: more of them than cores take memory and save no time", p.Workers,
					units.Count(cores, "core"))})
		}
		return
	}
	p.Kind = c.On.Name()
	p.WorkersRead, p.NoCopies = c.WorkersRead(), c.NoCopies
}

// BuffersEach returns how many blocks a worker that reads holds in memory: those it computes, as
// many read ahead, and one in between.
func BuffersEach(slots int) int { return 2*slots + 1 }

// SlotsEach returns how many blocks a worker process on this machine computes at once.
func SlotsEach(workers int) int { return max(1, runtime.GOMAXPROCS(0)/max(1, workers)) }
