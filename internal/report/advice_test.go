package report

import (
	"strings"
	"testing"
	"time"

	"leat/timing"
)

// stages is a table for Advice.
var stages = []Remedy{
	{Stage: "computing", Role: Work, PerBlock: true},
	{Stage: "encoding", Role: Work, Do: "zstd writes faster"},
	{Stage: "laying out", Role: Serial, Do: "a faster disk would shorten it"},
	{Stage: "waiting to read", Role: Wait},
	{Stage: "waiting for input", Role: Wait, Do: "the blocks did not come in fast enough, so use more readers"},
}

func TestAdviceNamesLimit(t *testing.T) {
	sec := func(f float64) time.Duration { return time.Duration(f * 1e9) }
	st := func(name string, f float64) timing.StageSummary {
		return timing.StageSummary{Stage: name, N: 1, Total: sec(f)}
	}
	blocks := func(n int64, f float64) timing.StageSummary {
		return timing.StageSummary{Stage: "computing", N: n, Total: sec(f)}
	}
	for _, c := range []struct {
		name string
		s    timing.Summary
		want string
	}{
		{"nothing timed", timing.Summary{Wall: sec(2)}, "No stage was timed"},
		{"encoding", timing.Summary{Wall: sec(3), CPU: sec(5.7),
			Stages: []timing.StageSummary{st("reading", 1.2), st("computing", 1.2), st("encoding", 3.6),
				st("waiting to read", 2.7)}}, "Encoding took 60 % of the time of all work: zstd writes faster."},
		{"reading is slow", timing.Summary{Wall: sec(2), CPU: sec(.8),
			Stages: []timing.StageSummary{st("reading", 1.9), st("computing", .4), st("waiting for input", 3)}},
			"Waiting for input took 75 % of the cores' time: the blocks did not come in fast enough"},
		{"the last copy", timing.Summary{Wall: sec(2), CPU: sec(2.4),
			Stages: []timing.StageSummary{st("encoding", 2), st("laying out", .8)}},
			"Laying out took 40 % of the wall clock: "},
		{"a slow disk", timing.Summary{Wall: sec(10), CPU: sec(4),
			Stages: []timing.StageSummary{st("reading", 19), st("computing", 2), st("waiting for input", 16)}},
			"Waiting for input took 80 % of the cores' time: the blocks did not come in fast enough, so use more readers, unless"},
		{"too few blocks", timing.Summary{Wall: sec(2), CPU: sec(2), Stages: []timing.StageSummary{blocks(7, 2)}},
			"For 50 % of the cores' time there was nothing to do: 7 blocks are too few for 2 cores"},
		{"many blocks and idle lanes", timing.Summary{Wall: sec(10), CPU: sec(9), Stages: []timing.StageSummary{blocks(576, 9.5)}},
			"For 52 % of the cores' time there was nothing to do: one stage held the others up"},
		{"a busy machine", timing.Summary{Wall: sec(10), CPU: sec(6),
			Stages: []timing.StageSummary{st("reading", 5), blocks(576, 6), st("encoding", 8), st("waiting for input", 2)}},
			"There was always something to do, but the run got only 30 % of the cores' time: other processes had the rest, or encoding, its longest stage, waited"},
		{"no processor time known", timing.Summary{Wall: sec(10), Stages: []timing.StageSummary{blocks(576, 16), st("encoding", 8)}},
			"Computing took 67 % of the time of all work"},
		{"an unknown stage", timing.Summary{Wall: sec(2), Stages: []timing.StageSummary{st("dreaming", 4)}},
			"Dreaming took 100 % of the time of all work."},
	} {
		got := Advice(c.s, stages, 2)
		if !strings.HasPrefix(got, c.want) {
			t.Errorf("%s: %q, expected %q", c.name, got, c.want)
		}
		if strings.Count(got, ". ") != 0 || !strings.HasSuffix(got, ".") {
			t.Errorf("%s: %q is not one sentence", c.name, got)
		}
	}
}

func TestNoAdviceForShortRuns(t *testing.T) {
	times := []timing.StageSummary{{Stage: "encoding", N: 9, Total: time.Second}}
	for _, wall := range []time.Duration{0, 50 * time.Millisecond, 1999 * time.Millisecond} {
		if got := Advice(timing.Summary{Wall: wall, CPU: wall, Stages: times}, stages, 1); got != "" {
			t.Errorf("%v: %q", wall, got)
		}
	}
	if Advice(timing.Summary{Wall: 2 * time.Second, CPU: time.Second, Stages: times}, stages, 1) == "" {
		t.Error("none after two seconds either")
	}
}
