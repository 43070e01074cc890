package report

import (
	"fmt"
	"time"

	"leat/timing"
)

// Role is how a stage uses the machine.
type Role uint8

const (
	Work   Role = iota // keeps a core busy, on all cores at once
	Serial             // runs alone while the other cores are idle
	Wait               // is waiting, not work
)

// Remedy is what to do about a stage that limits a run.
type Remedy struct {
	Stage string
	Role  Role
	// Do follows a colon and has no full stop: "Encoding took 61 % of the cores' time: …". Waiting
	// without a remedy is not reported.
	Do string
	// PerBlock is true if the stage has one interval for each block.
	PerBlock bool
}

// Thresholds below which advice is not worth reading.
const (
	adviceMinWall   = 2 * time.Second
	adviceSerial    = 0.25 // of the wall clock
	adviceIdle      = 0.35 // of cores x wall clock
	adviceIdleShare = 0.5  // of the idle time that one kind of waiting must explain
	adviceBlocks    = 4    // blocks for each core, from which on they are not too few
)

// Advice returns one sentence that names what limited the run and what to do about it. It returns
// "" for a run below two seconds. A stage that is not in the table counts as Work; cores is the
// number of cores that the run could use.
//
// An interval continues while another process has the core or while it waits for a disk. So
// intervals show when there was work to do, and processor time shows how much of it was done.
func Advice(s timing.Summary, table []Remedy, cores int) string {
	wall := s.Wall.Seconds()
	if s.Wall < adviceMinWall {
		return ""
	}
	known := map[string]Remedy{}
	for _, r := range table {
		known[r.Stage] = r
	}
	var lanes float64 // time in intervals of work
	var blocks int64
	var work, serial, wait timing.StageSummary // the largest of each role
	for _, st := range s.Stages {
		largest := &work
		switch known[st.Stage].Role {
		case Wait:
			largest = &wait
			if known[st.Stage].Do == "" { // the stage is faster than the next one
				continue
			}
		case Serial:
			largest = &serial
			lanes += st.Total.Seconds()
		case Work:
			lanes += st.Total.Seconds()
		}
		if st.Total > largest.Total {
			*largest = st
		}
		if known[st.Stage].PerBlock {
			blocks = st.N
		}
	}
	if lanes == 0 {
		return "No stage was timed, so nothing can be said about what limits the run."
	}
	cores = max(1, cores)
	all := wall * float64(cores)
	if share := serial.Total.Seconds() / wall; share >= adviceSerial {
		return sentence(serial.Stage, "took", share, "of the wall clock", known[serial.Stage].Do)
	}
	if idle := 1 - lanes/all; idle >= adviceIdle {
		if w := wait.Total.Seconds() / all; w >= idle*adviceIdleShare {
			return sentence(wait.Stage, "took", w, "of the cores' time", known[wait.Stage].Do)
		}
		text := fmt.Sprintf("For %.0f %% of the cores' time there was nothing to do: ", 100*idle)
		if blocks > 0 && blocks < adviceBlocks*int64(cores) {
			return text + fmt.Sprintf("%d blocks are too few for %d cores, so smaller blocks would help.", blocks, cores)
		}
		return text + "one stage held the others up, which its lane in the trace shows."
	}
	if unused := 1 - s.CPU.Seconds()/all; s.CPU > 0 && unused >= adviceIdle {
		if w := wait.Total.Seconds() / all; w >= unused*adviceIdleShare {
			return sentence(wait.Stage, "took", w, "of the cores' time",
				known[wait.Stage].Do+", unless other processes had the cores")
		}
		return fmt.Sprintf("There was always something to do, but the run got only %.0f %% of the cores' time: other processes had the rest, or %s, its longest stage, waited for a disk or the network.", 100*(1-unused), work.Stage)
	}
	return sentence(work.Stage, "took", work.Total.Seconds()/lanes, "of the time of all work", known[work.Stage].Do)
}

func sentence(stage, verb string, share float64, of, do string) string {
	if stage != "" && stage[0] >= 'a' && stage[0] <= 'z' {
		stage = string(stage[0]-'a'+'A') + stage[1:]
	}
	text := fmt.Sprintf("%s %s %.0f %% %s", stage, verb, 100*min(1, share), of)
	if do != "" {
		text += ": " + do
	}
	return text + "."
}
