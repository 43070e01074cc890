package shm

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"leat/bench/runner"
)

// TestMain lets the benchmark start this binary in its roles.
func TestMain(m *testing.M) {
	runner.ServeRole(Part)
	os.Exit(m.Run())
}

// TestTheBenchmarkRuns runs all of it, small.
func TestTheBenchmarkRuns(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: takes seconds")
	}
	var b bytes.Buffer
	if err := runner.Run(t.Context(), Part, []string{"-quick"}, &b); err != nil {
		t.Fatal(err)
	}
	out := b.String()
	for _, row := range []string{"| put 100 MB", "| attach 1 MB, known to the process",
		"| 1000 tasks on an array of 80 bytes"} {
		if !strings.Contains(out, row) {
			t.Errorf("no %q in\n%s", row, out)
		}
	}
}
