package main

import (
	"time"

	"leat/apply"
	"leat/internal/report"
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
	for ended := false; !ended; {
		select {
		case <-r.Done():
			ended = true
		case <-tick.C:
		}
		s := r.Status()
		if s.Resumed > resumed {
			resumed = s.Resumed
			bar.from(s.Done, len(s.Blocks), s.Pixels)
		}
		if now := time.Now(); now.Sub(asked) > 500*time.Millisecond {
			asked, stage = now, bottleneck(rec.Summary())
		}
		shown := stage
		if s.Stage != "blocks" && s.Stage != "done" {
			shown = s.Stage
		}
		rec.Gauge(report.PixelsDone, s.Pixels)
		bar.update(s.Done, len(s.Blocks), s.Pixels, shown)
	}
}
