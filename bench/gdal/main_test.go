package gdal

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"leat/bench/runner"
	"leat/internal/gdal"
)

// TestTheBenchmarkRuns runs all of it, small. That it works is looked at, not how quick it was.
func TestTheBenchmarkRuns(t *testing.T) {
	if os.Getenv("LEAT_TEST_DIST") == "" {
		t.Skip("LEAT_TEST_DIST is not set (make test-all sets it): builds leat and takes half a minute")
	}
	if err := gdal.Available(); err != nil {
		t.Skip(err)
	}
	for _, program := range []string{"cc", "gdalwarp"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skip(err)
		}
	}
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	var out bytes.Buffer
	if err := runner.Run(t.Context(), Part, []string{"-quick", "-data", filepath.Join(temp, "data")}, &out); err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	for _, line := range []string{"| HFA, compressed, blocks of 512, 2 readers |",
		"| near: leat, which warps on read |", "| near: gdalwarp -et 0, then leat |"} {
		if !strings.Contains(out.String(), line) {
			t.Errorf("%q is missing in\n%s", line, out.String())
		}
	}
	if strings.Contains(out.String(), "near: leat, which warps on read (another output)") {
		t.Errorf("nearest neighbours differ from gdalwarp's\n%s", out.String())
	}
}

func TestTheMappedLibraryIsFound(t *testing.T) {
	maps := "7f1 r--p 0 fe:01 12   /usr/lib/libc.so.6\n7f2 r-xp 0 fe:01 13   /opt/a b/libgdal.so.32.3.6\n"
	if got, err := mapped(strings.NewReader(maps), "/libgdal"); err != nil || got != "/opt/a b/libgdal.so.32.3.6" {
		t.Errorf("%q, %v", got, err)
	}
	if got, err := mapped(strings.NewReader(""), "/libgdal"); err == nil {
		t.Errorf("%q was found in nothing", got)
	}
}

func TestOptionsThatCannotBeAreRefused(t *testing.T) {
	for _, args := range [][]string{{"-runs", "0"}, {"-only", "("}, {"more"}} {
		if err := runner.Run(t.Context(), Part, args, &bytes.Buffer{}); err == nil {
			t.Errorf("%q were taken", args)
		}
	}
}
