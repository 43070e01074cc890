package subprocess

import (
	"testing"

	"leat/worker"
	"leat/worker/workertest"
)

func TestSubprocessIsAKindOfWorkers(t *testing.T) {
	workertest.Kind(t, workertest.Setup{
		Kind: func(*testing.T) worker.Kind { return New(nil) },
		Left: func(t *testing.T, _ worker.Kind) []string { return childrenOf(t) },
	})
}
