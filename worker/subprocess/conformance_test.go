package subprocess

import (
	"testing"

	"leat/internal/worker/workertest"
	"leat/worker"
)

func TestConformance(t *testing.T) {
	workertest.Launcher(t, workertest.Setup{
		Launcher: func(*testing.T) worker.Launcher { return New(nil) },
		Left:     func(t *testing.T, _ worker.Launcher) []string { return childrenOf(t) },
	})
}
