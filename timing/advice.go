package timing

import (
	"fmt"
	"runtime"
	"time"
)

// Role says how a stage uses the machine, for advice.
type Role uint8

const (
	Work   Role = iota // keeps a core busy, many at once
	Serial             // runs alone while the other cores stand idle
	Wait               // is waiting, not work
)

// Remedy says what to do where a stage is what limits a run.
type Remedy struct {
	Stage string
	Role  Role
	// Do follows a colon: "Encoding took 61 % of the cores' time: " and then this, without full stop.
	// For a stage of Role Wait it is the remedy for too much of that waiting.
	Do string
}

// Remedies returns what leat knows of its own stages. Programs with other stages give [Summary.AdviceFrom] a table
// of their own.
func Remedies() []Remedy {
	return []Remedy{
		{"reading", Work, "inputs in zstd, or not compressed, decode faster than deflate or LZW"},
		{"computing", Work, "the cores do your function's work, which is as it should be; more cores (-j) or a cheaper function are what would help"},
		{"encoding", Work, "--co COMPRESS=ZSTD writes faster at about the same size, --co COMPRESS=NONE fastest of all"},
		{"statistics", Work, "leave them out where nobody needs them"},
		{"overviews", Work, "leave them out and add them later where this file is only an intermediate one"},
		{"spooling", Work, "the disk takes encoded blocks more slowly than the cores make them, so give --tmpdir on a faster one"},
		{"laying out", Serial, "the last step copies the file on disk, which a faster disk or a smaller file (stronger compression) would shorten"},
		{"writing by GDAL", Serial, "GDAL makes files of this format at the end, on one core: options of the format (--co), such as less compression, or a GeoTIFF would shorten that"},
		{"waiting to read", Wait, ""},
		{"waiting for input", Wait, "the blocks did not come in fast enough, so use more readers (--readers) or bring the inputs to a faster disk"},
	}
}

// Advice returns one sentence that names what limited the run and says what to do about it, from leat's
// own stages. cores is how many the run could use, by default all of the machine.
func (s Summary) Advice(cores ...int) string {
	n := runtime.NumCPU()
	if len(cores) > 0 && cores[0] > 0 {
		n = cores[0]
	}
	return s.AdviceFrom(Remedies(), n)
}

// Thresholds below which no advice is worth a person's time.
const (
	adviceMinWall   = 50 * time.Millisecond
	adviceSerial    = 0.25 // of the wall clock
	adviceIdle      = 0.35 // of cores x wall clock
	adviceIdleShare = 0.5  // of the idle time that one kind of waiting must explain
)

// AdviceFrom is Advice for stages of any program. A stage that is not in the table counts as Work.
func (s Summary) AdviceFrom(table []Remedy, cores int) string {
	wall := s.Wall.Seconds()
	if s.Wall < adviceMinWall {
		return fmt.Sprintf("It took %s, too short to say what limits it.", FormatDuration(s.Wall))
	}
	known := map[string]Remedy{}
	for _, r := range table {
		known[r.Stage] = r
	}
	var busy float64
	var work, serial, wait StageSummary // the largest of each role
	for _, st := range s.Stages {
		largest := &work
		switch known[st.Stage].Role {
		case Wait:
			largest = &wait
			// Waiting that has no remedy is that of a stage which is faster than the next one: no news.
			if known[st.Stage].Do == "" {
				continue
			}
		case Serial:
			largest = &serial
			busy += st.Total.Seconds()
		case Work:
			busy += st.Total.Seconds()
		}
		if st.Total > largest.Total {
			*largest = st
		}
	}
	if busy == 0 {
		return "No stage was timed, so nothing can be said about what limits the run."
	}
	all := wall * float64(max(1, cores))
	// Intervals also run while another goroutine has the core: processor time is the better measure
	// where the kernel gives it.
	used := busy
	if s.CPU > 0 {
		used = min(busy, s.CPU.Seconds())
	}
	idle := max(0, 1-used/all)

	if share := serial.Total.Seconds() / wall; share >= adviceSerial {
		return sentence(serial.Stage, "took", share, "of the wall clock", known[serial.Stage].Do)
	}
	if idle >= adviceIdle {
		if w := wait.Total.Seconds() / all; w >= idle*adviceIdleShare {
			return sentence(wait.Stage, "took", w, "of the cores' time", known[wait.Stage].Do)
		}
		return fmt.Sprintf("%.0f %% of the cores' time went unused: there were too few blocks for %d cores, or one stage held the others up; try a smaller --window, or look at the lanes in --report.", 100*idle, cores)
	}
	return sentence(work.Stage, "took", work.Total.Seconds()/busy, "of the cores' time", known[work.Stage].Do)
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
