package main

import (
	"errors"
	"log/slog"
	"strings"
	"testing"
)

func TestWarningText(t *testing.T) {
	var b strings.Builder
	l := slog.New(&peopleHandler{w: &b}).With("worker", "slurm-0")
	for want, attrs := range map[string][]any{
		"leat: warning: it ended, worker slurm-0, job 16_0: exit status 3\n": {"job", "job 16_0", "error",
			errors.New("exit status 3")},
		"leat: warning: it ended, worker slurm-0, process 4711: killed by SIGKILL\n": {"job", "process 4711", "error",
			errors.New("killed by SIGKILL")},
		"leat: warning: it ended, worker slurm-0, jobs 17 18, workers 2, reason Down\n": {"jobs", "jobs 17 18", "workers", 2,
			"reason", "Down"},
		"leat: warning: it ended, worker slurm-0, job 17.server\n": {"job", "17.server"},
	} {
		b.Reset()
		l.Info("of no interest")
		l.Warn("it ended", attrs...)
		if b.String() != want {
			t.Errorf("%q, not %q", b.String(), want)
		}
	}
}

func TestLostWorkerWarning(t *testing.T) {
	for want, blocks := range map[string][]int{
		"it had no block": nil, "1 block (7) will be computed again": {7},
		"5 blocks (7, 8, 9, 10, ...) will be computed again": {7, 8, 9, 10, 11},
	} {
		var b strings.Builder
		slog.New(&peopleHandler{w: &b}).Warn("worker lost", "worker", "slurm-0", "host", "node3", "why",
			"its connection ended", "blocks", blocks)
		want = "leat: warning: worker slurm-0 on node3 was lost (its connection ended): " + want + "; nothing needs to be done unless an error follows\n"
		if b.String() != want {
			t.Errorf("%q, not %q", b.String(), want)
		}
	}
}
