package main

import (
	"time"

	"leat/apply"
	"leat/internal/report"
	"leat/internal/sysmem"
	"leat/timing"
)

// progressEvery is how often the status of a run is looked at.
const progressEvery = 100 * time.Millisecond

// showProgress shows the progress of a run until it has ended.
func showProgress(r *apply.Running, rec *timing.Recorder, bar *progress) {
	tick := time.NewTicker(progressEvery)
	defer tick.Stop()
	var asked time.Time
	stage, resumed := "", 0
	used := newUsage(rec)
	for ended := false; !ended; {
		select {
		case <-r.Done():
			ended = true
		case <-tick.C:
		}
		s := r.Status()
		if s.Resumed > resumed {
			resumed = s.Resumed
			bar.from(s.Done, s.Plan.ComputedBlocks(), s.Pixels)
		}
		if now := time.Now(); now.Sub(asked) > 500*time.Millisecond {
			asked, stage = now, bottleneck(rec.Summary())
		}
		shown := stage
		if s.Stage != "blocks" && s.Stage != "done" {
			shown = s.Stage
		}
		rec.Gauge(report.PixelsDone, s.Pixels)
		used.record()
		bar.update(s.Done, s.Plan.ComputedBlocks(), s.Pixels, shown)
	}
}

// usage records the memory and the processor time of this process, for the report.
type usage struct {
	rec   *timing.Recorder
	begin int64 // ms of processor time
}

func newUsage(rec *timing.Recorder) usage {
	u := usage{rec, sysmem.ProcessorTime().Milliseconds()}
	u.record()
	return u
}

func (u usage) record() {
	u.rec.Gauge(report.Memory, sysmem.Resident())
	u.rec.Gauge(report.Processor, sysmem.ProcessorTime().Milliseconds()-u.begin)
}
