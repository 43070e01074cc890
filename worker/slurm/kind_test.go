package slurm

import (
	"strings"
	"testing"

	"leat/worker"
	"leat/worker/slurm/slurmtest"
	"leat/worker/workertest"
)

func TestKind(t *testing.T) {
	c := slurmtest.Start(t)
	c.Setenv(t)
	workertest.Kind(t, workertest.Setup{
		Kind:   func(t *testing.T) worker.Kind { return New(nil) },
		Folder: true,
		Left: func(t *testing.T, _ worker.Kind) []string {
			return strings.FieldsFunc(c.Jobs(t), func(r rune) bool { return r == '\n' })
		},
		MaxWorkers: slurmtest.CPUs,
	})
}
