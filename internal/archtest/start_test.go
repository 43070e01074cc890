package archtest

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// slowToStart are packages whose initialization takes a noticeable part of the program's start,
// which each worker pays too, and what to use instead.
var slowToStart = map[string]string{"github.com/prometheus/client_golang/prometheus": "leat/internal/metric"}

func TestProgramStartsQuickly(t *testing.T) {
	cmd := exec.Command("go", "list", "-deps", "leat/cmd/leat")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	for p := range strings.Lines(string(out)) {
		p = strings.TrimSpace(p)
		if instead, ok := slowToStart[p]; ok {
			t.Errorf("leat imports %s, use %s", p, instead)
		}
	}
}
