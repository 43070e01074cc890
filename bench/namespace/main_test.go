package main

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestTheBenchmarkRuns runs it as people do, small.
func TestTheBenchmarkRuns(t *testing.T) {
	if testing.Short() {
		t.Skip("it builds and takes seconds")
	}
	program := filepath.Join(t.TempDir(), "bench")
	if out, err := exec.Command("go", "build", "-o", program, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	cmd := exec.Command(program, "-quick")
	cmd.Dir = t.TempDir()
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, row := range []string{"| leader and 7 followers, until the last has joined, 10 live jobs",
		"failures | 0 of 10 ", "| kill -9 of 8 ranks"} {
		if !strings.Contains(string(out), row) {
			t.Errorf("no %q in\n%s", row, out)
		}
	}
}
