package python

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"leat/internal/pytest"
	"leat/internal/worker/pbstest"
)

var program struct {
	sync.Once
	dir, path string
	err       error
}

func TestMain(m *testing.M) {
	pbstest.Main()
	code := m.Run()
	if program.dir != "" {
		os.RemoveAll(program.dir)
	}
	os.Exit(code)
}

// buildLeat returns the path of a leat that is built once for all tests.
func buildLeat(t *testing.T) string {
	t.Helper()
	program.Do(func() {
		if program.dir, program.err = os.MkdirTemp("", "leat-python-"); program.err != nil {
			return
		}
		program.path = filepath.Join(program.dir, "leat")
		out, err := exec.Command("go", "build", "-ldflags=-s -w", "-o", program.path, "../cmd/leat").CombinedOutput()
		if err != nil {
			program.err = fmt.Errorf("%w\n%s", err, out)
		}
	})
	if program.err != nil {
		t.Fatal(program.err)
	}
	return program.path
}

// TestPython runs each module of python/tests by Debian's Python.
func TestPython(t *testing.T) {
	python := pytest.Python(t, "numpy")
	runModules(t, python, testing.Short())
}

// leftOutVariable is set to 1 where tests run that -short leaves out; the quick ones ran before.
const leftOutVariable = "LEAT_TEST_LEFT_OUT"

// TestPythonVersions runs the quick tests by other versions of Python that are installed: the
// oldest and the newest, and in make test-all those between.
func TestPythonVersions(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: runs the quick tests by five more versions of Python")
	}
	usual := location(t, pytest.Python(t, "numpy"))
	for _, version := range []string{"3.9", "3.10", "3.11", "3.12", "3.13"} {
		t.Run(version, func(t *testing.T) {
			if version != "3.9" && version != "3.13" && os.Getenv("LEAT_TEST_DIST") == "" {
				t.Skip("LEAT_TEST_DIST is not set (make test-all sets it): a version between others")
			}
			python := interpreter(t, version)
			if location(t, python) == usual {
				t.Skip("this is the Python of TestPython")
			}
			runModules(t, python, true)
		})
	}
}

// location returns the file that an interpreter is started from, with its modules' directory.
func location(t *testing.T, python string) string {
	t.Helper()
	out, err := exec.Command(python, "-c",
		"import os, sys, sysconfig; print(os.path.realpath(sys.executable), sysconfig.get_path('purelib'))").Output()
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// interpreter returns python3.9 on $PATH, or below pyenv's root; or it skips the test.
func interpreter(t *testing.T, version string) string {
	t.Helper()
	root := os.Getenv("PYENV_ROOT")
	if root == "" {
		root = filepath.Join(os.Getenv("HOME"), ".pyenv")
	}
	below, err := filepath.Glob(filepath.Join(root, "versions", version+".*", "bin", "python"+version))
	if err != nil {
		t.Fatal(err)
	}
	for _, python := range append([]string{"python" + version}, below...) {
		// A command of pyenv is a script that takes longer than the start of Python.
		out, err := exec.Command(python, "-c", "import sys; print(sys.executable)").Output()
		if path := strings.TrimSpace(string(out)); err == nil && path != "" {
			return path
		}
	}
	t.Skipf("no python%s here", version)
	return ""
}

// runModules runs all modules of tests by an interpreter; if short is set, only the quick tests.
func runModules(t *testing.T, python string, short bool) {
	files, err := filepath.Glob(filepath.Join("tests", "test_*.py"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%d modules of tests, %v", len(files), err)
	}
	leat := buildLeat(t)
	var tests atomic.Int64
	t.Run("modules", func(t *testing.T) {
		for _, file := range files {
			module := strings.TrimSuffix(filepath.Base(file), ".py")
			t.Run(strings.TrimPrefix(module, "test_"), func(t *testing.T) {
				t.Parallel()
				n := runModule(t, python, "tests."+module, leat, short)
				if n == 0 && (short || os.Getenv(leftOutVariable) != "1") {
					t.Errorf("%s has no tests", module)
				}
				tests.Add(int64(n))
			})
		}
	})
	if tests.Load() == 0 {
		t.Error("no test ran")
	}
}

// event is a line of tests/run.py.
type event struct {
	Event, Test, Skip string
	Failures          []string
}

// runModule runs a module of tests and returns their number. Each of its tests is a subtest.
func runModule(t *testing.T, python, module, leat string, short bool) int {
	events, theirs, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer events.Close()
	var output bytes.Buffer
	cmd := exec.CommandContext(t.Context(), python, "-B", "-m", "tests.run", module, "3")
	cmd.ExtraFiles = []*os.File{theirs}
	cmd.Stdout, cmd.Stderr = &output, &output
	cmd.Env = append(os.Environ(), "LEAT_BINARY="+leat)
	if short {
		cmd.Env = append(cmd.Env, "LEAT_TEST_SHORT=1")
	}
	err = cmd.Start()
	theirs.Close()
	if err != nil {
		t.Fatal(err)
	}
	tests, done := 0, false
	lines := bufio.NewReader(events)
	next := func() (e event, ok bool) {
		line, err := lines.ReadBytes('\n')
		if err == nil {
			err = json.Unmarshal(line, &e)
		}
		if err != nil && !errors.Is(err, io.EOF) {
			t.Error(err)
		}
		return e, err == nil
	}
	for !done {
		e, ok := next()
		if !ok {
			break
		}
		if done = e.Event == "done"; done {
			break
		}
		tests++
		end, ended := event{}, false
		read := func() { end, ended = next() }
		t.Run(e.Test, func(t *testing.T) {
			read()
			switch {
			case !ended:
				t.Error("Python ended within this test")
			case len(end.Failures) > 0:
				t.Error(strings.Join(end.Failures, "\n"))
			case end.Skip != "":
				t.Skip(end.Skip)
			}
		})
		if !ended { // -run leaves this one out
			read()
		}
	}
	if err := cmd.Wait(); err != nil || !done {
		t.Errorf("%s: %d tests, ended by itself: %v, %v", module, tests, done, err)
	}
	if t.Failed() {
		t.Logf("%s printed:\n%s", module, output.String())
	}
	return tests
}

// TestBenchmark runs the benchmark of caches on few entries, without peers but LMDB.
func TestBenchmark(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: runs a benchmark")
	}
	cmd := exec.CommandContext(t.Context(), pytest.Python(t, "zlib"), "-B", "../bench/python/cache.py", "-quick",
		"-dir", t.TempDir())
	cmd.Env = append(os.Environ(), "LEAT_PEERS=")
	out, err := cmd.CombinedOutput()
	if err != nil || strings.Count(string(out), "\n| 1 KiB | ")+strings.Count(string(out), "\n| 110 KiB | ") != 6 {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestTypes checks the types of the package by mypy.
func TestTypes(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: mypy reads the library of Python")
	}
	mypy := ""
	for _, path := range []string{"/usr/bin/mypy", "mypy"} {
		if exec.Command(path, "--version").Run() == nil {
			mypy = path
			break
		}
	}
	if mypy == "" {
		t.Skip("no mypy here (Debian: apt-get install mypy)")
	}
	cmd := exec.CommandContext(t.Context(), mypy, "--cache-dir="+t.TempDir())
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("mypy: %v\n%s", err, out)
	}
}
