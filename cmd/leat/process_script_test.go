package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"

	"leat/internal/fault"
)

// process is leat with arguments, in a directory, not started yet. What it says goes to the buffer.
func process(t *testing.T, dir string, args ...string) (*exec.Cmd, *bytes.Buffer) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	c := exec.CommandContext(t.Context(), self)
	c.Args = append([]string{"leat"}, args...) // TestMain runs what it is called
	c.Dir, c.Stdout, c.Stderr = dir, &out, &out
	return c, &out
}

// leat runs leat, which must end with the code, and returns what it said.
func leat(t *testing.T, code int, dir string, args ...string) string {
	t.Helper()
	c, out := process(t, dir, args...)
	if err := c.Run(); err != nil && !errors.As(err, new(*exec.ExitError)) {
		t.Fatal(err)
	}
	if got := c.ProcessState.ExitCode(); got != code {
		t.Fatalf("leat %s: exit code %d, not %d\n%s", strings.Join(args, " "), got, code, out)
	}
	return out.String()
}

// names are the entries of a directory, hidden ones too.
func names(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var list []string
	for _, e := range entries {
		list = append(list, e.Name())
	}
	return list
}

// longRun is a directory with a scene, and arguments for a run of 16 blocks.
func longRun(t *testing.T) (dir string, args []string) {
	t.Helper()
	if testing.Short() {
		t.Skip("-short: takes seconds of both cores")
	}
	dir = t.TempDir()
	leat(t, exitDone, dir, "demo", "--size", "2000", ".")
	return dir, []string{"apply", "-q", "-i", "r=B04.tif", "-i", "n=B08.tif", "-o", "o=o.tif", "-e", "sin(n * r)", "--nodata",
		"nan", "--window", "512", "-j", "2"}
}

// holdVariable names a file, which leat makes when it waits.
const holdVariable = "LEAT_TEST_HOLD"

// heldMain is leat. Where holdVariable is set, it waits in the fourth block of a run for a signal,
// so that the run is not over before, however fast it is.
func heldMain() {
	if file := os.Getenv(holdVariable); file != "" {
		var blocks atomic.Int32
		fault.Set(func(point string) error {
			if point == "apply.block-done" && blocks.Add(1) == 4 {
				hold(file)
			}
			return nil
		})
	}
	main()
}

// hold makes the file and waits for a signal. Blocks that are complete wait for this one.
func hold(file string) {
	received := make(chan os.Signal, 1)
	signal.Notify(received, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGCONT)
	defer signal.Stop(received)
	if err := os.WriteFile(file, nil, 0o666); err != nil {
		panic(err)
	}
	select {
	case s := <-received:
		if s != syscall.SIGCONT {
			time.Sleep(100 * time.Millisecond) // leat takes note of the signal too
		}
	case <-time.After(time.Minute): // the test has failed
	}
}

// awaitHeld returns when leat has made the file.
func awaitHeld(t *testing.T, file string, out *bytes.Buffer) {
	t.Helper()
	for range 20_000 {
		if _, err := os.Stat(file); err == nil {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
	t.Fatalf("the run did not begin: %s", out)
}

// underWay starts a run and returns when three blocks are complete. The run waits for a signal.
func underWay(t *testing.T, dir string, args []string) (*exec.Cmd, *bytes.Buffer) {
	t.Helper()
	c, out := process(t, dir, args...)
	held := filepath.Join(t.TempDir(), "held")
	c.Env = append(os.Environ(), holdVariable+"="+held)
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	awaitHeld(t, held, out)
	return c, out
}

// checkEndedBy checks that a signal ended the process.
func checkEndedBy(t *testing.T, c *exec.Cmd, want os.Signal) {
	t.Helper()
	if w, ok := c.ProcessState.Sys().(syscall.WaitStatus); !ok || !w.Signaled() || w.Signal() != want {
		t.Errorf("the process ended with %v, not by the signal %v", c.ProcessState, want)
	}
}

// TestSignalsEndShellLoops presses ^C as a terminal does, and kills one leat.
func TestSignalsEndShellLoops(t *testing.T) {
	t.Parallel()
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("there is no bash, whose loops go on unless a signal ended the program")
	}
	if signal.Ignored(os.Interrupt) {
		t.Skip("SIGINT is ignored here")
	}
	dir, args := longRun(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	held := filepath.Join(t.TempDir(), "held")
	start := func(script string) (*exec.Cmd, *bytes.Buffer) {
		t.Helper()
		var out bytes.Buffer
		c := exec.CommandContext(t.Context(), bash,
			append([]string{"-c", "leat() { (exec -a leat " + self + " \"$@\"); }; " + script, "bash"}, args...)...)
		c.Dir, c.Stdout, c.Stderr = dir, &out, &out
		c.Env = append(os.Environ(), holdVariable+"="+held)
		c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		return c, &out
	}
	c, out := start(`for i in 1 2 3; do leat "$@"; echo "status $?"; done`)
	awaitHeld(t, held, out)
	if err := syscall.Kill(-c.Process.Pid, syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	c.Wait()
	checkEndedBy(t, c, os.Interrupt)
	if n := strings.Count(out.String(), "interrupted"); n != 1 || strings.Contains(out.String(), "status") {
		t.Errorf("the loop went on:\n%s", out)
	}
	leat(t, exitDone, dir, "apply", "-q", "--discard", ".")
	if err := os.Remove(held); err != nil {
		t.Fatal(err)
	}
	c, out = start(`exec 3< <(exec -a leat ` + self +
		` "$@"); pid=$!; until [ -e ` + held +
		` ]; do sleep 0.02; done; kill -TERM $pid; wait $pid; echo "status $?"`)
	if err := c.Wait(); err != nil || !strings.Contains(out.String(), "status 143\n") {
		t.Errorf("%v: %s", err, out)
	}
}

func TestInterruptedRunResumes(t *testing.T) {
	t.Parallel()
	dir, args := longRun(t)
	leat(t, exitDone, dir, args...)
	want, err := os.ReadFile(filepath.Join(dir, "o.tif"))
	if err != nil {
		t.Fatal(err)
	}
	// The shell finds leat as a user's does.
	bin := t.TempDir()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(self, filepath.Join(bin, "leat")); err != nil {
		t.Fatal(err)
	}
	shell := func(command string) string {
		t.Helper()
		c := exec.CommandContext(t.Context(), "/bin/sh", "-c", command)
		c.Dir, c.Env = dir, append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"))
		out, err := c.CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v\n%s", command, err, out)
		}
		return string(out)
	}
	old := []byte("the old output")
	if err := os.WriteFile(filepath.Join(dir, "o.tif"), old, 0o666); err != nil {
		t.Fatal(err)
	}
	before := names(t, dir)
	said := regexp.MustCompile(`^leat: interrupted: no output was finished, and files that were there are as they were
leat: (\d+) of 16 blocks are kept in (\S+/\.o\.tif\.leat-part) \(.*B\)
hint: use --resume to compute the rest, or discard in its place to remove them:
  (leat apply --resume -q -i r=B04.tif .*)
$`)
	for i, sig := range []os.Signal{os.Interrupt, syscall.SIGTERM, syscall.SIGHUP} {
		t.Run(sig.String(), func(t *testing.T) {
			if signal.Ignored(sig) {
				t.Skip("this signal is ignored here, as under nohup, and so by leat")
			}
			c, out := underWay(t, dir, args)
			if err := c.Process.Signal(sig); err != nil {
				t.Fatal(err)
			}
			start := time.Now()
			c.Wait()
			t.Logf("ended after %v", time.Since(start))
			if time.Since(start) > time.Minute { // it takes a fraction of a second
				t.Errorf("it took %v", time.Since(start))
			}
			checkEndedBy(t, c, sig)
			m := said.FindStringSubmatch(out.String())
			if m == nil {
				t.Fatalf("%q", out)
			}
			if got, err := os.ReadFile(filepath.Join(dir, "o.tif")); err != nil || !bytes.Equal(got, old) {
				t.Errorf("the old output is another: %v", err)
			}
			if _, err := os.Stat(m[2]); err != nil {
				t.Error(err)
			}
			switch i {
			case 0:
				if text := shell(strings.Replace(m[3], "apply --resume -q", "apply --resume --json",
					1)); !strings.Contains(text, `"resumed_blocks":`+m[1]+",") {
					t.Errorf("not %s blocks were resumed: %s", m[1], text)
				}
				if got, err := os.ReadFile(filepath.Join(dir, "o.tif")); err != nil || !bytes.Equal(got, want) {
					t.Errorf("the output is another than without an interruption: %v", err)
				}
				if err := os.WriteFile(filepath.Join(dir, "o.tif"), old, 0o666); err != nil {
					t.Fatal(err)
				}
			case 1:
				if text := shell(strings.Replace(m[3], "apply --resume -q", "apply discard",
					1)); !strings.HasPrefix(text, "output o: removed "+m[2]+" (") {
					t.Errorf("%q", text)
				}
			default:
				leat(t, exitDone, dir, "apply", "--discard", "-o", "o=o.tif")
			}
			if d := cmp.Diff(before, names(t, dir)); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestRunAfterKilledRunWritesSameFile(t *testing.T) {
	t.Parallel()
	dir, args := longRun(t)
	leat(t, exitDone, dir, args...)
	want, err := os.ReadFile(filepath.Join(dir, "o.tif"))
	if err != nil {
		t.Fatal(err)
	}
	before := names(t, dir)
	c, _ := underWay(t, dir, args)
	if err := c.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	c.Wait()
	if got, err := os.ReadFile(filepath.Join(dir, "o.tif")); err != nil || !bytes.Equal(got, want) {
		t.Errorf("the killed run changed the old output: %v", err)
	}
	if err := os.Remove(filepath.Join(dir, "o.tif")); err != nil {
		t.Fatal(err)
	}
	said := leat(t, exitDone, dir, args...)
	if !regexp.MustCompile(`^leat: warning: [1-9]\d* of 16 blocks of an earlier run in \S+/\.o\.tif\.leat-part are replaced .*\nhint: --resume would use them\n$`).MatchString(said) {
		t.Errorf("it says %q of the blocks that it replaces", said)
	}
	if got, err := os.ReadFile(filepath.Join(dir, "o.tif")); err != nil || !bytes.Equal(got, want) {
		t.Errorf("the output is another than without a killed run before it: %v", err)
	}
	if d := cmp.Diff(before, names(t, dir)); d != "" {
		t.Error(d)
	}
}

func TestSecondRunOnOneOutputIsRefused(t *testing.T) {
	t.Parallel()
	dir, args := longRun(t)
	before := names(t, dir)
	c, out := underWay(t, dir, args)
	// However slow the others are to start, it is not over before.
	if err := c.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	said := leat(t, exitFailed, dir, args...)
	if !strings.Contains(said, "o.tif is being written by another run of leat") || !strings.Contains(said,
		"hint: wait for the other run, or end it") {
		t.Errorf("%q", said)
	}
	for _, want := range []string{fmt.Sprintf("process %d on ", c.Process.Pid), "leat apply -q -i r=B04.tif"} {
		if !strings.Contains(said, want) {
			t.Errorf("the first run is not named by %q: %q", want, said)
		}
	}
	// Another name of the same file, by a directory that is a link.
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	again := slices.Clone(args)
	for i := range again {
		again[i] = strings.Replace(again[i], "o=o.tif", "o="+link+"/o.tif", 1)
	}
	if slices.Equal(again, args) {
		t.Fatalf("no output in %q", args)
	}
	if said := leat(t, exitFailed, dir, again...); !strings.Contains(said,
		"o.tif is being written by another run of leat (process ") {
		t.Errorf("%q", said)
	}
	if err := checkSentences(said); err != nil {
		t.Error(err)
	}
	if err := c.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	if err := c.Wait(); err != nil {
		t.Fatalf("the first run: %v\n%s", err, out)
	}
	if err := os.Remove(filepath.Join(dir, "o.tif")); err != nil {
		t.Error(err)
	}
	if d := cmp.Diff(before, names(t, dir)); d != "" {
		t.Error(d)
	}
}

func TestHugeExpressionIsRefusedQuickly(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	leat(t, exitDone, dir, "demo", "--size", "64", ".")
	before := names(t, dir)
	// An argument of a process may have 128 KiB, so only a caller in the same process can pass
	// millions.
	deep := strings.Repeat("(", 5_000_000) + "a" + strings.Repeat(")", 5_000_000)
	c := applyCommand()
	c.SetContext(t.Context())
	f := &applyFlags{}
	options := pflag.NewFlagSet("apply", pflag.ContinueOnError)
	f.AddFlags(options)
	if err := options.Parse([]string{"-i", "a=" + filepath.Join(dir, "B04.tif"), "-o",
		"o=" + filepath.Join(dir, "o.tif"), "-e", deep}); err != nil {
		t.Fatal(err)
	}
	err := runApply(c, f)
	if err == nil || !strings.Contains(err.Error(),
		"the expression is too long: 10000001 bytes, the limit is 65536") {
		t.Errorf("%v", err)
	}
	if len(err.Error()) > 1000 {
		t.Errorf("an error of %d bytes", len(err.Error()))
	}
	for _, n := range []int{1_000, 30_000, 60_000} { // below and above the limits of length and of depth
		said := leat(t, exitUsage, dir, "apply", "-i", "a=B04.tif", "-o", "o=o.tif", "-e",
			strings.Repeat("(", n)+"a"+strings.Repeat(")", n))
		if !strings.Contains(said, "output o: expression, column ") || len(said) > 1000 {
			t.Errorf("%d parentheses: %q", n, said)
		}
		if err := checkSentences(said); err != nil {
			t.Error(err)
		}
	}
	if d := cmp.Diff(before, names(t, dir)); d != "" {
		t.Error(d)
	}
}

func TestInfoDescribesEveryRealRaster(t *testing.T) {
	t.Parallel()
	root := sharedDir()
	if root == "" {
		t.Skip("no test data: ../shared/data is not there")
	}
	var rasters int
	for _, pattern := range []string{"*/*.tif", "*/*.jp2", "*/*.ovr", "*/*.msk"} {
		found, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range found {
			said := leat(t, exitDone, root, "info", path)
			for _, what := range []string{path, "  size ", " pixels, ", "  stored ", "  overviews ", "  nodata ",
				"  cog "} {
				if !strings.Contains(said, what) {
					t.Errorf("%s: no %q in\n%s", path, what, said)
				}
			}
			if m := goisms.FindString(said); m != "" {
				t.Errorf("%s: people would read %q", path, m)
			}
			rasters++
		}
	}
	if rasters < 30 {
		t.Errorf("only %d rasters", rasters)
	}
}
