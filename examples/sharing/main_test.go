package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"leat/internal/pytest"
)

// TestTheExampleRuns builds and runs it as its reader would, once with the Python reader.
func TestTheExampleRuns(t *testing.T) {
	python := pytest.Python(t, "numpy")
	dir := t.TempDir()
	program := filepath.Join(dir, "sharing")
	if out, err := exec.Command("go", "build", "-o", program, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	// The example says python3: let that be one with NumPy.
	full, err := exec.LookPath(python)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(full, filepath.Join(dir, "python3")); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program, "python", "read.py")
	cmd.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"))
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	want := "1000 rows by 2 workers, mean 0.500\nNumPy: float32 (1000, 2000), mean 0.500\n"
	if string(out) != want {
		t.Errorf("%q, expected %q", out, want)
	}
}

// TestTheGuideShowsTheExampleAsItIs keeps the guide true.
func TestTheGuideShowsTheExampleAsItIs(t *testing.T) {
	guide, err := os.ReadFile("../../docs/guide/sharing.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"main.go", "read.py"} {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(guide), string(text)) {
			t.Errorf("docs/guide/sharing.md does not hold %s as it is", name)
		}
	}
}
