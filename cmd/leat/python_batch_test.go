//go:build !nocloud

package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"leat/internal/worker/batchtest"
)

// Workers of AWS Batch get a function's source from the run, and find Python in their own $PATH:
// their containers have none of the run's files.
func TestPythonFunctionOnBatch(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: starts jobs of the stand-in for AWS Batch")
	}
	const python = "/usr/bin/python3" // in the $PATH of the stand-in's containers
	if exec.Command(python, "-c", "import numpy").Run() != nil {
		t.Skip("no NumPy for " + python + " (Debian: apt-get install python3-numpy)")
	}
	leat, err := exec.LookPath("leat")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if out, err := exec.CommandContext(t.Context(), leat, "demo", "--size=256", dir).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	function, executable := filepath.Join(dir, "f.py"), filepath.Join(dir, "python3")
	source := `import numpy as np

def ndvi(b):
    red, nir = b.red.astype("f4"), b.nir.astype("f4")
    with np.errstate(all="ignore"):
        out = (nir - red) / (nir + red)
    out[np.isnan(red) | np.isnan(nir)] = np.nan
    b.out = out

def raises(b):
    raise ValueError("no luck")  # in a line of the source
`
	var remove sync.Once
	s := batchtest.New(t, batchtest.Settings{Before: func(operation string) *batchtest.Error {
		if operation == "SubmitJob" {
			remove.Do(func() { _, _ = os.Remove(function), os.Remove(executable) })
		}
		return nil
	}})
	run := func(out string, args ...string) ([]byte, error) {
		args = append([]string{"apply", "-q", "--unscale", "--window", "128", "--nodata", "nan", "-i", "red=" + filepath.Join(dir, "B04.tif"),
			"-i", "nir=" + filepath.Join(dir, "B08.tif"), "-o", "out=" + filepath.Join(dir, out)}, args...)
		return exec.CommandContext(t.Context(), leat, args...).CombinedOutput()
	}
	batch := func(name string) []string {
		remove = sync.Once{}
		if err := os.WriteFile(function, []byte(source), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(python, executable); err != nil {
			t.Fatal(err)
		}
		return []string{"--python", function + ":" + name, "--python-executable", executable, "--on", "awsbatch",
			"--workers", "2", "--listen", "127.0.0.1", "--aws-queue", batchtest.Queue, "--aws-definition", batchtest.Definition,
			"--aws-secret", "secretsmanager:" + batchtest.Secret, "--aws-program", leat, "--aws-endpoint", s.URL}
	}
	if out, err := run("e.tif", "-e", "(nir - red) / (nir + red)"); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if out, err := run("p.tif", batch("ndvi")...); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	want, err := os.ReadFile(filepath.Join(dir, "e.tif"))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(filepath.Join(dir, "p.tif")); err != nil || !bytes.Equal(got, want) {
		t.Errorf("other bytes than those of the expression, %v", err)
	}
	out, err := run("r.tif", batch("raises")...)
	if err == nil || !bytes.Contains(out, []byte("ValueError: no luck")) ||
		!bytes.Contains(out, []byte(`raise ValueError("no luck")  # in a line of the source`)) {
		t.Errorf("%v\n%s", err, out)
	}
	if left := s.Left(); len(left) > 0 {
		t.Errorf("the jobs %v are left", left)
	}
}
