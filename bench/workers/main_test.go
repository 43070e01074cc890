package workers

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"leat/bench/runner"
)

// TestMain lets the benchmark start this binary in its roles.
func TestMain(m *testing.M) {
	runner.ServeRole(Part)
	os.Exit(m.Run())
}

// TestBenchmarkRuns runs all of it, small. That it works is looked at, not how quick it was.
func TestBenchmarkRuns(t *testing.T) {
	if os.Getenv("LEAT_TEST_DIST") == "" {
		t.Skip("LEAT_TEST_DIST is not set (make test-all sets it): builds leat and takes half a minute")
	}
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	var out bytes.Buffer
	if err := runner.Run(t.Context(), Part, []string{"-quick", "-data", filepath.Join(temp, "data")}, &out); err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	report := out.String()
	lines := map[string][]string{}
	for line := range strings.Lines(report) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		lines[cells[0]] = cells[1:]
	}
	want := []string{"`leat worker` until it has joined the run",
		"the same: its first block, without work, is accepted",
		"the channel alone, results of 0 bytes, over inherited connections",
		"the channel alone, results of 1 MiB, by TLS over loopback",
		"a whole run of `leat apply` with a subprocess that reads", "in one process", "2 subprocesses",
		"2 subprocesses, which read", "as it comes, 2 subprocesses",
		"2 workers, undisturbed", "2 workers, one killed at half", "2 workers, which read, one killed at half", "1",
		"8", "start of a worker < 20 ms"}
	if !strings.Contains(report, "Slurm was left out: ") {
		want = append(want, "its first block, without work, is accepted",
			"a whole run of `leat apply --on slurm --workers 1`, 600 x 600 pixels", slurmTarget)
	}
	for _, what := range want {
		if cells := lines[what]; len(cells) == 0 || cells[0] == "" {
			t.Errorf("%q: %q", what, cells)
		}
	}
	for _, n := range []string{"1", "8"} {
		if cells := lines[n]; len(cells) > 0 && cells[len(cells)-1] != "0" {
			t.Errorf("of %s workers %s were lost", n, cells[len(cells)-1])
		}
	}
	if left, err := os.ReadDir(temp); err != nil || len(left) != 1 { // the inputs
		t.Errorf("left: %v, %v", left, err)
	}
	if t.Failed() {
		t.Log(report)
	}
}

func TestChildren(t *testing.T) {
	cmd := exec.Command("cat")
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if all, err := children(os.Getpid()); err != nil || len(all) != 1 || all[0] != cmd.Process.Pid {
		t.Errorf("children of this process: %v, %v, not %d", all, err, cmd.Process.Pid)
	}
	_ = stdin.Close()
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	if all, err := children(os.Getpid()); err != nil || len(all) != 0 {
		t.Errorf("children of this process: %v, %v, none is left", all, err)
	}
}

func TestParseLostWorkerLine(t *testing.T) {
	for text, want := range map[string]string{
		`level=WARN msg="worker lost" worker=subprocess-0 host=vm why="its connection ended" blocks=[102]`: "102",
		`level=WARN msg="worker lost" worker=subprocess-1 host=vm why=x blocks="[101 102]"`:                "101 102",
		`leat: worker lost, worker subprocess-0, host vm, why its connection ended, blocks [61 63]`:        "61 63",
		`level=WARN msg="worker lost" worker=subprocess-1 host=vm why=x blocks=[]`:                         "",
	} {
		m := lostWorker.FindStringSubmatch(text)
		if len(m) != 2 || m[1] != want {
			t.Errorf("%s: %q", text, m)
		}
	}
	if lostWorker.MatchString(`level=WARN msg="worker ended before joining" blocks=[1]`) {
		t.Error("another message was taken for it")
	}
}

func TestInvalidOptions(t *testing.T) {
	for _, args := range [][]string{{"-runs", "0"}, {"-only", "("}, {"more"}} {
		if err := runner.Run(t.Context(), Part, args, &bytes.Buffer{}); err == nil {
			t.Errorf("%q were taken", args)
		}
	}
}
