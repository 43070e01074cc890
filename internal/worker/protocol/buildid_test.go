package protocol

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// TestBuildIDMatchesGoCommand compares build IDs with those that the go command prints.
func TestBuildIDMatchesGoCommand(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: builds a program")
	}
	folder := t.TempDir()
	// go tool would compile it, and the standard library for it, without the flags of this test.
	tool := filepath.Join(folder, "buildid")
	if out, err := exec.Command("go", "build", "-buildvcs=false", "-o", tool, "cmd/buildid").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	source := filepath.Join(folder, "main.go")
	if err := os.WriteFile(source, []byte("package main\n\nfunc main() {}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	systems := []string{runtime.GOOS + "/" + runtime.GOARCH}
	if os.Getenv("LEAT_TEST_DIST") != "" { // make test-all sets it: compiles the runtime for each
		systems = []string{"linux/amd64", "linux/arm64", "darwin/arm64"}
	}
	for _, system := range systems {
		for _, flags := range []string{"", "-s -w"} {
			goos, arch, _ := strings.Cut(system, "/")
			program := filepath.Join(folder, goos+arch)
			cmd := exec.Command("go", "build", "-buildvcs=false", "-ldflags="+flags, "-o", program, source)
			cmd.Env = append(os.Environ(), "GOOS="+goos, "GOARCH="+arch, "CGO_ENABLED=0")
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			want, err := exec.Command(tool, program).Output()
			if err != nil {
				t.Fatal(err)
			}
			f, err := os.Open(program)
			if err != nil {
				t.Fatal(err)
			}
			got, err := buildID(f)
			_ = f.Close()
			if err != nil || got != "go:"+strings.TrimSpace(string(want)) {
				t.Errorf("%s %s: %q, %v; expected %q", system, flags, got, err, want)
			}
		}
	}
}

func TestBuildIDFallsBackToHash(t *testing.T) {
	path := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	sum := sha256.Sum256([]byte("#!/bin/sh\n"))
	if got, err := buildID(f); err != nil || got != "sha256:"+hex.EncodeToString(sum[:]) {
		t.Errorf("%q, %v", got, err)
	}
}

func TestOwnBuildID(t *testing.T) {
	a, err := BuildID()
	if err != nil || a == "" || len(a) > maxBuild {
		t.Fatalf("%q, %v", a, err)
	}
	if b, err := BuildID(); a != b || err != nil {
		t.Errorf("%q, then %q, %v", a, b, err)
	}
}

func BenchmarkBuildID(b *testing.B) {
	for b.Loop() {
		if _, err := BuildID(); err != nil {
			b.Fatal(err)
		}
	}
}
