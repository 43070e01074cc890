package slurm

import (
	"strings"
	"testing"

	"leat/internal/worker/slurmtest"
	"leat/internal/worker/workertest"
	"leat/worker"
)

func TestConformance(t *testing.T) {
	c := slurmtest.Start(t)
	c.Setenv(t)
	workertest.Launcher(t, workertest.Setup{
		Launcher: func(t *testing.T) worker.Launcher { return New(nil) },
		Dir:      true,
		Left: func(t *testing.T, _ worker.Launcher) []string {
			return strings.FieldsFunc(c.Jobs(t), func(r rune) bool { return r == '\n' })
		},
		MaxWorkers: slurmtest.CPUs,
	})
}
