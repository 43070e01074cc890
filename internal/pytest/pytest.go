// Package pytest runs Python scripts in tests, as the outside truth: NumPy, GDAL, rasterio.
package pytest

import (
	"encoding/json"
	"errors"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// packages are Debian's names of what provides a module.
var packages = map[string]string{"numpy": "python3-numpy", "scipy.ndimage": "python3-scipy",
	"osgeo.gdal": "python3-gdal", "osgeo": "python3-gdal",
	"rasterio": "python3-rasterio", "pyproj": "python3-pyproj", "joblib": "python3-joblib", "sklearn": "python3-sklearn", "torch": "python3-torch", "cryptography": "python3-cryptography"}

var found sync.Map // modules to interpreter

// Python returns an interpreter that imports all of the modules, or skips the test, saying what to
// install.
func Python(t testing.TB, modules ...string) string {
	t.Helper()
	if py, ok := Find(modules...); ok {
		return py
	}
	var install []string
	for _, m := range modules {
		if p, ok := packages[m]; ok {
			install = append(install, p)
		}
	}
	t.Skipf("no python3 that imports %s (Debian: apt-get install %s)", strings.Join(modules, ", "),
		strings.Join(install, " "))
	return ""
}

// Find returns an interpreter that imports all of the modules, and false if there is none.
func Find(modules ...string) (string, bool) {
	list := strings.Join(modules, ", ")
	if py, ok := found.Load(list); ok {
		return py.(string), true
	}
	for _, py := range []string{"python3", "/usr/bin/python3"} {
		if exec.Command(py, "-c", "import "+list).Run() == nil {
			found.Store(list, py)
			return py, true
		}
	}
	return "", false
}

// Run runs a script that reads one JSON value, in, from standard input (with json.load(sys.stdin))
// and prints one to standard output, which goes to out; out may be nil. NaN and infinities are not
// JSON: scripts give them as text. The test ends when the script fails. Each script has a process
// of its own, forked from one that has imported the modules.
func Run(t testing.TB, modules []string, script string, in, out any) {
	t.Helper()
	text, err := json.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	python := Python(t, modules...)
	s, err := serverOf(python)
	if err != nil {
		t.Fatal(err)
	}
	result, stderr, err := s.run(modules, script, text)
	if errors.Is(err, syscall.ECONNREFUSED) {
		t.Logf("the Python server ended: %v; another one starts", s.forget(python))
		if s, err = serverOf(python); err != nil {
			t.Fatal(err)
		}
		result, stderr, err = s.run(modules, script, text)
	}
	if err != nil {
		t.Fatalf("python: %v\n%s", err, stderr)
	}
	if out == nil {
		return
	}
	if err := json.Unmarshal(result, out); err != nil {
		t.Fatalf("python printed no JSON (%v):\n%s%s", err, result, stderr)
	}
}
