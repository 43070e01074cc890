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
	for _, row := range []string{"| put 100 MB", "| attach 1 MB, known to the process",
		"| 1000 tasks on an array of 80 bytes"} {
		if !strings.Contains(string(out), row) {
			t.Errorf("no %q in\n%s", row, out)
		}
	}
}
