package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// events returns what go test -json prints of a package whose tests fail with the outputs.
func events(pkg string, outputs ...string) string {
	var b strings.Builder
	for i, out := range outputs {
		fmt.Fprintf(&b, "{\"Action\":\"run\",\"Package\":%q,\"Test\":\"Test%d\"}\n", pkg, i)
		fmt.Fprintf(&b, "{\"Action\":\"output\",\"Package\":%q,\"Test\":\"Test%d\",\"Output\":%q}\n", pkg, i, out+"\n")
		fmt.Fprintf(&b, "{\"Action\":\"fail\",\"Package\":%q,\"Test\":\"Test%d\"}\n", pkg, i)
	}
	fmt.Fprintf(&b, "{\"Action\":\"output\",\"Package\":%q,\"Output\":\"FAIL\\n\"}\n", pkg)
	fmt.Fprintf(&b, "{\"Action\":\"fail\",\"Package\":%q}\n", pkg)
	return b.String()
}

const passed = `{"Action":"run","Package":"p","Test":"Test0"}
{"Action":"pass","Package":"p","Test":"Test0"}
{"Action":"pass","Package":"p"}
`

func TestRetryOnlyFewFailedTests(t *testing.T) {
	t.Parallel()
	unfinished := "{\"Action\":\"run\",\"Package\":\"p\",\"Test\":\"TestKilled\"}\n" + events("p", "wrong")
	for _, c := range []struct {
		name, events string
		want         string // "" if the tests run again
	}{
		{"one", events("p", "wrong"), ""},
		{"three in two packages", events("p", "wrong", "wrong") + events("q", "wrong"), ""},
		{"with packages that passed", passed + events("q", "wrong"), ""},
		{"four", events("p", "wrong", "wrong") + events("q", "wrong", "wrong"), "4 failed, more than 3"},
		{"not built", events("p", "wrong") + events("q"), "q failed outside a test"},
		{"data race", events("p", "WARNING: DATA RACE"), "p crashed, or has a data race"},
		{"panic", events("p", "wrong", "panic: nil"), "p crashed"},
		{"timeout", events("p", "panic: test timed out after 30m0s"), "p crashed"},
		{"fatal error", events("p", "fatal error: concurrent map writes"), "p crashed"},
		{"killed", unfinished, "p crashed"},
		{"module not loaded", passed + `{"Action":"module","Package":"bench"}` + "\n" +
			`{"Action":"module-fail","Package":"bench"}` + "\n", "go test failed in bench"},
		{"no package", "", "0 packages"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			ran := 0
			var b strings.Builder
			ok, err := report(strings.NewReader(c.events), &b, func(f failure) (io.ReadCloser, error) {
				ran++
				return io.NopCloser(strings.NewReader(strings.NewReplacer(`"p"`, `"`+f.pkg+`"`, "Test0", f.test).
					Replace(passed))), nil
			})
			if err != nil || ok != (c.want == "") || ok != (ran > 0) || !strings.Contains(b.String(), c.want) {
				t.Errorf("%v, %v after %d tests ran again, expected %q in\n%s", ok, err, ran, c.want, b.String())
			}
			if n := strings.Count(b.String(), "failed once, passed alone: "); n != ran {
				t.Errorf("%d unstable tests listed of %d", n, ran)
			}
			if ok, err := report(strings.NewReader(c.events), io.Discard, nil); ok || err != nil {
				t.Errorf("passed without a retry: %v", err)
			}
		})
	}
}

func TestRetryFailsUnlessTestPasses(t *testing.T) {
	t.Parallel()
	for name, again := range map[string]string{
		"fails":    events("p", "wrong"),
		"skipped":  strings.ReplaceAll(passed, "pass", "skip"),
		"not run":  `{"Action":"pass","Package":"p"}` + "\n",
		"no event": "",
		"exit":     passed + events("p"),
	} {
		var b strings.Builder
		ok, err := report(strings.NewReader(events("p", "wrong")), &b, func(failure) (io.ReadCloser, error) {
			return io.NopCloser(strings.NewReader(again)), nil
		})
		if ok || err != nil || !strings.Contains(b.String(), "failed twice: p Test0") {
			t.Errorf("%s: %v, %v\n%s", name, ok, err, b.String())
		}
	}
}

// TestRetryWithGo runs go test of a package in which a test fails only the first time.
func TestRetryWithGo(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: compiles packages and runs their tests five times")
	}
	t.Parallel()
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "inner"), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"go.mod": "module retried\n",
		"inner/a_test.go": `package inner
import ("os"; "testing")
func TestOther(t *testing.T) { if os.Getenv("AGAIN") != "" { t.Fatal("runs again") } }
func TestUnstable(t *testing.T) {
	if !testing.Short() { t.Fatal("without -short") }
	if _, err := os.Stat("once"); err != nil { os.WriteFile("once", nil, 0o600); t.Fatal("the first time") }
}
func TestUnstableToo(t *testing.T) { if os.Getenv("AGAIN") != "" { t.Fatal("runs again") } }
func TestWrong(t *testing.T) { if os.Getenv("WRONG") != "" { t.Fatal("always") } }
`,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	self := filepath.Join(dir, "testreport")
	if out, err := exec.Command("go", "build", "-o", self, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, c := range []struct {
		env  string
		exit int
		want []string
	}{
		{"LEAT_TEST_RETRY=1", 0, []string{"the first time", "1 packages, 1 failed",
			"failed once, passed alone: retried/inner TestUnstable (unstable)\n"}},
		{"LEAT_TEST_RETRY=", 1, []string{"the first time", "1 packages, 1 failed"}},
		{"LEAT_TEST_RETRY=1 WRONG=1", 1, []string{"always", "failed once, passed alone: retried/inner TestUnstable ",
			"failed twice: retried/inner TestWrong"}},
	} {
		os.Remove(filepath.Join(dir, "inner", "once"))
		cmd := exec.Command("sh", "-c", `
(echo '{"Action":"module","Package":"inner"}'; cd inner && go test -short -json .) | AGAIN=1 "$0" -short`, self)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), strings.Fields(c.env)...)
		out, _ := cmd.CombinedOutput()
		if cmd.ProcessState.ExitCode() != c.exit {
			t.Errorf("%s: %v, expected exit status %d\n%s", c.env, cmd.ProcessState, c.exit, out)
		}
		for _, want := range c.want {
			if !strings.Contains(string(out), want) {
				t.Errorf("%s: no %q in\n%s", c.env, want, out)
			}
		}
		if c.env == "LEAT_TEST_RETRY=" && strings.Contains(string(out), "again") {
			t.Errorf("runs again without being asked:\n%s", out)
		}
	}
}
