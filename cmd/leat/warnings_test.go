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
