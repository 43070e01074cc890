package subprocess

import (
	"testing"
	"time"

	"leat/internal/worker/workertest"
	"leat/worker"
)

func TestConformance(t *testing.T) {
	workertest.Launcher(t, workertest.Setup{
		Launcher: func(*testing.T) worker.Launcher { return New(&Options{Grace: 50 * time.Millisecond}) },
		Left:     func(t *testing.T, _ worker.Launcher) []string { return childrenOf(t) },
	})
}
