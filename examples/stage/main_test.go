package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestRun builds and runs it as its reader would.
func TestRun(t *testing.T) {
	dir := t.TempDir()
	program := filepath.Join(dir, "stage")
	if out, err := exec.Command("go", "build", "-o", program, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	temp := filepath.Join(dir, "temp")
	if err := os.Mkdir(temp, 0o700); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program)
	cmd.Env = append(os.Environ(), "TMPDIR="+temp)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	// An image has each byte value 16 times.
	if want := "3 epochs by 4 processes: 1200 samples used, 400 fetched from the store, mean 127.500\n"; string(out) != want {
		t.Errorf("%q, expected %q", out, want)
	}
	left, err := os.ReadDir(temp)
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// TestGuideShowsLoader compares the guide with the example.
func TestGuideShowsLoader(t *testing.T) {
	guide, err := os.ReadFile("../../docs/guide/stage.md")
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile("main.go")
	if err != nil {
		t.Fatal(err)
	}
	from := strings.Index(string(text), "// loader loads")
	to := strings.Index(string(text), "// decode is")
	if from < 0 || to < from || !strings.Contains(string(guide), strings.TrimSpace(string(text[from:to]))) {
		t.Error("docs/guide/stage.md does not contain the loader of main.go as it is")
	}
}
