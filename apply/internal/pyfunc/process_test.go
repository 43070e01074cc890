package pyfunc

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"leat/apply/outcome"
	"leat/internal/pytest"
	"leat/python"
)

// loadFunction is newFunction, Begin and Await.
func loadFunction(t *testing.T, source string, out *lineWriter) (*Function, error) {
	t.Helper()
	f := Begin(t.Context(), newFunction(t, source, out).spec, Options{Output: out})
	_, err := f.Await()
	if err != nil {
		f.Close()
	}
	return f, err
}

// A process uses the modules of an installed package, which Python compiles once, if they are the
// same.
func TestModulesOfInstalledPackage(t *testing.T) {
	pytest.Python(t, "numpy")
	modules, err := python.Modules()
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "leat")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name+".py"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range modules {
		write(name, text)
	}
	write("__init__", "raise ValueError('the package is not imported')\n")
	t.Setenv("PYTHONPATH", filepath.Dir(dir))
	t.Setenv("PYTHONDONTWRITEBYTECODE", "")
	check := func(want string) {
		t.Helper()
		var out lineWriter
		f, err := loadFunction(t, `
import sys

print(sys.modules["_leat._worker"].__file__, flush=True)

def f(b):
    pass
`, &out)
		if err != nil {
			t.Fatal(err)
		}
		f.Close()
		if got := out.lines(); !slices.Equal(got, []string{filepath.Join(want, "_worker.py")}) {
			t.Errorf("%v, expected a module in %s", got, want)
		}
		// Its own frames are not in tracebacks, wherever its modules are.
		_, err = loadFunction(t, "def f(b):\n    pass\n\nf.missing\n", &out)
		if e := (*outcome.PythonError)(nil); !errors.As(err, &e) || strings.Contains(e.Traceback, "_load.py") ||
			!strings.Contains(e.Traceback, "f.missing") {
			t.Errorf("%v", err)
		}
	}
	check(dir)
	compiled, err := filepath.Glob(filepath.Join(dir, "__pycache__", "_convert.*.pyc"))
	if err != nil || len(compiled) != 1 {
		t.Fatalf("%v, %v, expected one compiled module", compiled, err)
	}
	const header = 16
	if err := os.Truncate(compiled[0], header+100); err != nil {
		t.Fatal(err)
	}
	check("<leat>")
	if err := os.Remove(compiled[0]); err != nil {
		t.Fatal(err)
	}
	check(dir)
	write("_load", modules["_load"]+"# another version\n")
	check("<leat>")
}

// A run goes on while its processes end. Close waits for them.
func TestCloseWaitsForProcesses(t *testing.T) {
	var out lineWriter
	f, err := loadFunction(t, `
import atexit
import time

def end():
    time.sleep(0.3)
    print("ended", flush=True)

atexit.register(end)

def f(b):
    pass
`, &out)
	if err != nil {
		t.Fatal(err)
	}
	p := f.takeLoaded()
	if _, err := p.conn.call(t.Context(), closeMessage{Type: "close"}, "closed"); err != nil {
		t.Fatal(err)
	}
	f.end(p)
	f.Close()
	if !p.hasEnded() || server(f) != nil || !slices.Equal(out.lines(), []string{"ended"}) {
		t.Errorf("ended %v, fork server %v, output %v", p.hasEnded(), server(f), out.lines())
	}
}
