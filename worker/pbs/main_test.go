package pbs

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/goleak"

	"leat/internal/worker/pbstest"
	"leat/internal/worker/workertest"
	"leat/worker"
)

func TestMain(m *testing.M) {
	pbstest.Main()
	workertest.Main()
	goleak.VerifyTestMain(m)
}

const patience = workertest.Patience

var quick = times{first: 5 * time.Millisecond, longest: 40 * time.Millisecond, command: patience, grace: patience}

// run is a start under test.
type run struct {
	*workertest.Start
	kind *launcher
	dir  string
}

// newRun prepares n workers that run a line of shell.
func newRun(t *testing.T, o *Options, n int, shell string) *run {
	r := &run{Start: workertest.NewStart(t, n, shell), kind: newLauncher(o), dir: filepath.Join(t.TempDir(), "shared directory")}
	r.kind.times = quick
	if err := os.Mkdir(r.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	r.Options.Dir = r.dir
	return r
}

func (r *run) start() worker.Fleet { return r.Start.Start(r.kind) }

func read(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// option returns the value of an option of qsub, and whether it is there.
func option(args []string, name string) (string, bool) {
	for i, a := range args {
		if a == name {
			if i+1 < len(args) {
				return args[i+1], true
			}
			return "", true
		}
	}
	return "", false
}

func names(first, n int) (s []string) {
	for i := range n {
		s = append(s, worker.WorkerName(launcherName, first+i))
	}
	return s
}
