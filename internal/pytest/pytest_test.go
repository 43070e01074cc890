package pytest

import (
	"errors"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestScriptsHaveTheirOwnProcess(t *testing.T) {
	t.Setenv("LEAT_PYTEST", "set later")
	t.Chdir(t.TempDir())
	dir, _ := os.Getwd()
	script := `
import json, os, sys, subprocess
given = json.load(sys.stdin)
subprocess.run(["sh", "-c", "true"], check=True)
print(json.dumps([given, os.getcwd(), os.environ["LEAT_PYTEST"], __name__, os.getpid(), "kept" in dir(sys)]))
sys.kept = 1
`
	var pids []any
	for range 2 {
		var out []any
		Run(t, []string{"struct"}, script, "ä", &out)
		if len(out) != 6 || out[0] != "ä" || out[1] != dir || out[2] != "set later" || out[3] != "__main__" || out[5] != false {
			t.Errorf("the script saw %v", out)
		}
		pids = append(pids, out[4])
	}
	if pids[0] == pids[1] {
		t.Error("two scripts share a process")
	}
}

func TestFailingScripts(t *testing.T) {
	s, err := serverOf(Python(t, "struct"))
	if err != nil {
		t.Fatal(err)
	}
	for script, want := range map[string]string{"1 / 0": "ZeroDivisionError", "import no_such_module": "ModuleNotFoundError",
		"import sys; sys.exit('why')": "why", "assert False": "AssertionError", "a b": "SyntaxError"} {
		if _, stderr, err := s.run([]string{"no_such_module"}, script, nil); err == nil || !strings.Contains(stderr, want) {
			t.Errorf("%s: %v, %q", script, err, stderr)
		}
	}
	if _, _, err := s.run(nil, "import os; os.abort()", nil); err == nil {
		t.Error("a script that crashes succeeds")
	}
	if out, _, err := s.run(nil, "print('printed'); raise SystemExit", nil); err != nil || string(out) != "printed\n" {
		t.Errorf("%q, %v", out, err)
	}
}

func TestAnotherServerAfterKill(t *testing.T) {
	s, err := serverOf(Python(t, "struct"))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.process.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	for { // until its socket is gone
		c, err := net.Dial("unix", s.address)
		if errors.Is(err, syscall.ECONNREFUSED) {
			break
		}
		if err == nil {
			c.Close()
		}
		time.Sleep(time.Millisecond)
	}
	var out string
	if Run(t, []string{"struct"}, `print('"again"')`, nil, &out); out != "again" {
		t.Errorf("the script printed %q", out)
	}
}
