package zonal

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"leat/bench/runner"
	"leat/internal/gdal"
)

// TestTheBenchmarkRuns runs all of it, small, and ignores its numbers.
func TestTheBenchmarkRuns(t *testing.T) {
	if os.Getenv("LEAT_TEST_DIST") == "" {
		t.Skip("LEAT_TEST_DIST is not set (make test-all sets it): builds leat and takes half a minute")
	}
	if err := gdal.Available(); err != nil {
		t.Skip(err)
	}
	if _, err := findPython(t.Context()); err != nil {
		t.Skip(err)
	}
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	var out bytes.Buffer
	if err := runner.Run(t.Context(), Part, []string{"-quick", "-data", filepath.Join(temp, "data")}, &out); err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	for _, line := range []string{"| leat, mean by centre |", "100 polygons over 1000 x 1000 pixels"} {
		if !strings.Contains(out.String(), line) {
			t.Errorf("%q is missing in\n%s", line, out.String())
		}
	}
}
