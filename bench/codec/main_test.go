package codec

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"leat/bench/runner"
)

// TestTheBenchmarkRuns runs all of it, small, and ignores its numbers.
func TestTheBenchmarkRuns(t *testing.T) {
	if os.Getenv("LEAT_TEST_DIST") == "" {
		t.Skip("LEAT_TEST_DIST is not set (make test-all sets it): builds leat and takes half a minute")
	}
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	var out bytes.Buffer
	err := runner.Run(t.Context(), Part, []string{"-quick", "-data", filepath.Join(temp, "data")}, &out)
	if errors.Is(err, errNoPeer) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	for _, line := range []string{"| uint16, demo, predictor 2 | 256 | leat |", "| mask, uint8, predictor 1 | 256 | zlib |"} {
		if !strings.Contains(out.String(), line) {
			t.Errorf("%q is missing in\n%s", line, out.String())
		}
	}
}
