package main

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"time"

	"leat/apply/outcome"
	"leat/internal/report"
	"leat/timing"
)

// remedies are the stages of a run, and what to do about one that limits it.
var remedies = []report.Remedy{
	{Stage: "reading", Role: report.Work, Do: "inputs in zstd, or not compressed, decode faster than deflate or LZW"},
	{Stage: "computing", Role: report.Work,
		Do: "the cores are busy with your function, as they should be: only more cores (-j) or a cheaper function would help", PerBlock: true},
	{Stage: "encoding", Role: report.Work, Do: "--co COMPRESS=ZSTD writes faster at about the same size, --co COMPRESS=NONE fastest of all"},
	{Stage: "statistics", Role: report.Work, Do: "leave them out if nobody needs them"},
	{Stage: "overviews", Role: report.Work,
		Do: "leave them out if this file is only an intermediate one, and add them later"},
	{Stage: "spooling", Role: report.Work, Do: "the disk takes encoded blocks more slowly than the cores make them, so give --tmpdir on a faster one"},
	{Stage: "laying out", Role: report.Serial,
		Do: "the last step copies the file on disk, which a faster disk or a smaller file (stronger compression) would shorten"},
	{Stage: "writing by GDAL", Role: report.Serial,
		Do: "GDAL makes files of this format at the end, on one core: options of the format (--co), such as less compression, or a GeoTIFF would shorten that"},
	{Stage: "waiting to read", Role: report.Wait},
	{Stage: "waiting for input", Role: report.Wait,
		Do: "the blocks did not come in fast enough, so use more readers (--readers) or bring the inputs to a faster disk"},
}

// userRemedies returns the remedies by the names of stageName.
func userRemedies() []report.Remedy {
	list := slices.Clone(remedies)
	for i := range list {
		list[i].Stage = stageName(list[i].Stage)
	}
	return list
}

// minAdvice is how long a run must take for advice to be worth reading.
const minAdvice = 2 * time.Second

// advice returns one sentence on what limited the run; "" for a short one. Of workers in other
// processes only the stages are known, not the time of their processors.
func advice(s timing.Summary, p *outcome.Plan) string {
	if p.Kind == "" {
		return report.Advice(inUserWords(s), userRemedies(), min(p.Workers, runtime.GOMAXPROCS(0)))
	}
	if s.Wall < minAdvice {
		return ""
	}
	var all, most time.Duration
	for _, st := range s.Stages {
		if !strings.HasPrefix(st.Stage, "waiting") {
			all, most = all+st.Total, max(most, st.Total)
		}
	}
	if all == 0 {
		return ""
	}
	return fmt.Sprintf("Most of the work, %d %% of it, was %s.", 100*most/all, stageName(bottleneck(s)))
}

// bottleneck is the stage with most of the working time so far.
func bottleneck(s timing.Summary) string {
	most, name := time.Duration(0), ""
	for _, st := range s.Stages {
		if !strings.HasPrefix(st.Stage, "waiting") && st.Total > most {
			most, name = st.Total, st.Stage
		}
	}
	return name
}
