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
	program := filepath.Join(dir, "cache")
	if out, err := exec.Command("go", "build", "-o", program, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	home := filepath.Join(dir, "home")
	cmd := exec.Command(program)
	cmd.Env = append(os.Environ(), "LEAT_CACHE_DIR="+home)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	// An image has each byte value 16 times.
	if want := "3 epochs by 4 processes: 1200 samples given, 400 read from the source, mean 127.500\n"; string(out) != want {
		t.Errorf("%q, expected %q", out, want)
	}
	left, err := os.ReadDir(home)
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// TestGuideShowsExample keeps the guide true.
func TestGuideShowsExample(t *testing.T) {
	guide, err := os.ReadFile("../../docs/guide/cache.md")
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile("main.go")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(guide), string(text)) {
		t.Error("docs/guide/cache.md does not hold main.go as it is")
	}
}
