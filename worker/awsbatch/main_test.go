//go:build !nocloud

package awsbatch

import (
	"testing"
	"time"

	"go.uber.org/goleak"

	"leat/internal/worker/batchtest"
	"leat/internal/worker/workertest"
	"leat/worker"
)

func TestMain(m *testing.M) {
	workertest.Main(Fetch())
	goleak.VerifyTestMain(m)
}

const patience = workertest.Patience

var quick = times{first: 5 * time.Millisecond, longest: 40 * time.Millisecond, answer: patience, grace: patience,
	clean: patience, backoff: 10 * time.Millisecond}

// run is a start under test.
type run struct {
	*workertest.Start
	s    *batchtest.Server
	kind *launcher
}

// newRun prepares n workers that run a line of shell, with a stand-in of AWS.
func newRun(t *testing.T, set batchtest.Settings, n int, shell string) *run {
	r := &run{Start: workertest.NewStart(t, n, shell), s: batchtest.New(t, set)}
	r.kind = newLauncher(&Options{Queue: batchtest.Queue, Definition: batchtest.Definition,
		Secret: "secretsmanager:" + batchtest.Secret, Endpoint: r.s.URL})
	r.kind.times = quick
	return r
}

func (r *run) start() worker.Fleet { return r.Start.Start(r.kind) }
