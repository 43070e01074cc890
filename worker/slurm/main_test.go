package slurm

import (
	"testing"

	"go.uber.org/goleak"

	"leat/internal/worker/workertest"
)

func TestMain(m *testing.M) {
	workertest.Main()
	goleak.VerifyTestMain(m)
}
