package slurm

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"leat/internal/worker/workertest"
	"leat/worker"
)

// standIns puts programs into PATH, alone but for the system's; each is the body of a shell script,
// and notes its arguments in the directory that is returned.
func standIns(t *testing.T, programs map[string]string) (notes string) {
	t.Helper()
	dir, notes := t.TempDir(), t.TempDir()
	all := map[string]string{
		"sbatch": "echo 17", "squeue": "true", "scancel": "true", "scontrol": "echo 'MaxArraySize            = 1001'",
	}
	for name, body := range programs {
		all[name] = body
	}
	for name, body := range all {
		if body == "" {
			continue
		}
		script := fmt.Sprintf("#!/bin/sh\necho \"$*\" >>%s/%s\ncat >/dev/null\n%s\n", notes, name, body)
		if err := os.WriteFile(filepath.Join(dir, name), []byte(script), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, tool := range []string{"cat", "sleep", "true", "sh", "wc"} {
		for _, bin := range []string{"/usr/bin", "/bin"} {
			if _, err := os.Stat(filepath.Join(bin, tool)); err == nil {
				if err := os.Symlink(filepath.Join(bin, tool), filepath.Join(dir, tool)); err != nil {
					t.Fatal(err)
				}
				break
			}
		}
	}
	t.Setenv("PATH", dir)
	return notes
}

// noted are the arguments a stand-in was called with, one call a line.
func noted(t *testing.T, notes, program string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(notes, program))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	return string(b)
}

func TestCheckNamesMissingPrograms(t *testing.T) {
	for _, p := range []string{"sbatch", "squeue", "scancel", "scontrol"} {
		standIns(t, map[string]string{p: ""})
		err := New(nil).Check(t.Context())
		if want := p + ": not found in PATH"; err == nil ||
			err.Error() != want {
			t.Errorf("without %s: %v", p, err)
		}
	}
	standIns(t, nil)
	if err := New(nil).Check(t.Context()); err != nil {
		t.Error(err)
	}
	if err := New(&Options{Sbatch: "/nonexistent/sbatch"}).Check(t.Context()); err == nil ||
		!strings.Contains(err.Error(), "/nonexistent/sbatch") {
		t.Errorf("with a path that does not exist: %v", err)
	}
}

func TestCheckUnreachableController(t *testing.T) {
	standIns(t, map[string]string{"scontrol": "echo 'slurm_load_ctl_conf error: Unable to contact slurm controller (connect failure)' >&2; exit 1"})
	err := New(nil).Check(t.Context())
	if err == nil || !strings.Contains(err.Error(), "controller does not answer") || !strings.Contains(err.Error(),
		"connect failure") {
		t.Errorf("Check: %v", err)
	}
	standIns(t, map[string]string{"scontrol": "sleep 600"})
	k := newLauncher(nil)
	k.times.check = 100 * time.Millisecond
	if err := k.Check(t.Context()); err == nil || !strings.Contains(err.Error(), "no answer for 100ms") {
		t.Errorf("Check: %v", err)
	}
	standIns(t, map[string]string{"scontrol": "echo 'MaxArraySize = 0'"})
	if err := New(nil).Check(t.Context()); err == nil || !strings.Contains(err.Error(), "job arrays are disabled") {
		t.Errorf("Check: %v", err)
	}
}

func TestArraySizeLimit(t *testing.T) {
	for text, want := range map[string]int{
		"MaxArraySize            = 1001\n":                         1001,
		"A = b\nMaxArraySize = 7\nMaxDBDMsgs              = 20012": 7,
		"": 1001, "MaxArraySize = lots": 1001,
	} {
		if n, err := maxArraySize(text); n != want || err != nil {
			t.Errorf("%q: %d, %v", text, n, err)
		}
	}
}

func TestErrorQuotesSbatch(t *testing.T) {
	for name, c := range map[string]struct{ sbatch, want string }{
		"an error": {"echo 'sbatch: error: Batch job submission failed: Invalid account' >&2; exit 1",
			"Invalid account"},
		"an error, mute":   {"exit 4", "exit status 4"},
		"garbage":          {"echo 'Welcome to the cluster'; echo 'mail the admins' >&2", `"Welcome to the cluster"`},
		"nothing":          {"true", `printed ""`},
		"a number, failed": {"echo 17; echo 'sbatch: error: went wrong after all' >&2; exit 1", "went wrong after all"},
	} {
		t.Run(name, func(t *testing.T) {
			notes := standIns(t, map[string]string{"sbatch": c.sbatch})
			s := prepare(t, 1, "exit 0")
			f, err := quick(nil).Start(t.Context(), s.o)
			if f != nil || err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("Start: %v, %v", f, err)
			}
			if strings.Contains(fmt.Sprint(err), endpoint.Token) {
				t.Error("the secret is in the error")
			}
			// Whatever it was that was submitted must go.
			cancelled := "--name=leat-test-"
			if name == "a number, failed" {
				cancelled = "17"
			}
			if got := noted(t, notes, "scancel"); !strings.Contains(got, cancelled) {
				t.Errorf("scancel was called with %q", got)
			}
			if left := list(t, s.o.Dir, "*"); len(left) > 0 {
				t.Errorf("left: %v", left)
			}
		})
	}
}

func TestSbatchPrintsMoreThanIdentifier(t *testing.T) {
	for out, want := range map[string]string{
		"17\n": "17 ", "17;green\n": "17 green", "Your project has 5 hours left.\n17\n": "17 ", "17 \r\n": "17 ",
	} {
		id, cluster, ok := jobNumber(out)
		if !ok || id+" "+cluster != want {
			t.Errorf("%q: %q %q %v", out, id, cluster, ok)
		}
	}
	standIns(t, map[string]string{"sbatch": "echo 'sbatch: your quota is low' >&2; echo 17",
		"squeue": "echo '17_0|COMPLETED|None'"})
	s := begin(t, quick(nil), 1, "exit 0")
	s.gone(1)
	if text := s.log.String(); !strings.Contains(text, "your quota is low") || strings.Contains(text, "WARN") {
		t.Errorf("it was said: %s", text)
	}
}

func TestOtherCluster(t *testing.T) {
	notes := standIns(t, map[string]string{"sbatch": "echo '17;green'",
		"squeue": "echo 'CLUSTER: green'; echo '17_0|FAILED|NonZeroExitCode'; echo '17_1|RUNNING|None'"})
	s := prepare(t, 2, "exit 0")
	k := quick(&Options{Directives: []string{"-M green"}})
	f, err := k.Start(t.Context(), s.o)
	if err != nil {
		t.Fatal(err)
	}
	s.fleet = f
	s.gone(1)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	onceThere(t, filepath.Join(notes, "scancel"), cancel)
	workertest.WantCommands(t, f.Stop(ctx), "scancel --clusters=green 17")
	for _, p := range []string{"squeue", "scancel", "scontrol"} {
		if got := noted(t, notes, p); !strings.Contains(got, "--clusters=green") {
			t.Errorf("%s was called with %q", p, got)
		}
	}
}

func TestUnreachableQueueLosesNoWorker(t *testing.T) {
	state := filepath.Join(t.TempDir(), "state")
	set := func(text string) { // squeue never sees a part of it
		t.Helper()
		if err := errors.Join(os.WriteFile(state+".new", []byte(text), 0o600), os.Rename(state+".new", state)); err != nil {
			t.Fatal(err)
		}
	}
	set("echo 'slurm_load_jobs error: Unable to contact slurm controller (connect failure)' >&2; exit 1")
	notes := standIns(t, map[string]string{"squeue": ". " + state})
	s := begin(t, quick(nil), 2, "exit 0")
	until := func(what string, is func() bool) {
		t.Helper()
		for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
			if is() {
				return
			}
		}
		t.Fatalf("not within a minute: %s; it was said: %s", what, s.log.String())
	}
	looks := func() int { return strings.Count(noted(t, notes, "squeue"), "\n") }
	until("one warning", func() bool { return strings.Contains(s.log.String(), "connect failure") })
	set("echo 'Scheduled maintenance at 17:00'; echo '17_0 is not here'")
	n := looks()
	until("garbage was looked at", func() bool { return looks() > n+2 })
	set("echo '17_0|RUNNING|None'; echo '17_1|PENDING|Resources'")
	n = looks()
	until("good answers were looked at", func() bool { return looks() > n+2 })
	if len(s.exits) > 0 {
		t.Fatalf("gone: %s", texts([]worker.Exit{<-s.exits}))
	}
	// A job that is not listed ends after the second query.
	hole := filepath.Join(t.TempDir(), "hole")
	set("if [ $(($(wc -l <" + filepath.Join(notes,
		"squeue") + ") % 2)) = 0 ]; then : >" + hole + "; else echo '17_0|RUNNING|None'; echo '17_1|RUNNING|None'; fi")
	n = looks()
	until("every second answer was empty", func() bool { return looks() > n+6 })
	if _, err := os.Stat(hole); err != nil || len(s.exits) > 0 {
		t.Fatalf("%d are gone that were missing once; %v", len(s.exits), err)
	}
	set("echo '17_0|RUNNING|None'")
	if e := s.gone(1)[0]; e.Name != "slurm-1" || e.Err == nil || !strings.Contains(e.Err.Error(),
		"no longer known to Slurm") {
		t.Errorf("gone: %s", texts([]worker.Exit{e}))
	}
	set("echo 'slurm_load_jobs error: Invalid job id specified' >&2; exit 1")
	if e := s.gone(1)[0]; e.Name != "slurm-0" || e.Err == nil {
		t.Errorf("gone: %s", texts([]worker.Exit{e}))
	}
	if n := strings.Count(s.log.String(), "WARN"); n != 1 {
		t.Errorf("%d warnings: %s", n, s.log.String())
	}
}

func TestStateTexts(t *testing.T) {
	lines := "17_0|TIMEOUT|TimeLimit\n17_1|OUT_OF_MEMORY|OutOfMemory\n17_2|NODE_FAIL|None\n17_3|CANCELLED by 4711|None\n17_4|FAILED|RaisedSignal:53(Real-time_signal_19)\n" +
		"17_5|PREEMPTED|None\n17_6|DEADLINE|DeadLine\n17_7|CANCELLED|DependencyNeverSatisfied\n17_8|COMPLETED|None\n17_9|BOOT_FAIL|None\n17_10|FAILED|NonZeroExitCode\n" +
		"17_11|COMPLETING|None\n17_12|REQUEUED|a|b\n"
	standIns(t, map[string]string{
		"squeue":   "printf '" + strings.ReplaceAll(lines, "\n", `\n`) + "'",
		"scontrol": `case "$*" in *config) ;; *) echo "JobId=18 ArrayJobId=17 ArrayTaskId=4 JobName=x ExitCode=0:53 WorkDir=/a b"; echo garbage;; esac`,
	})
	s := prepare(t, 13, "exit 0")
	f, err := quick(nil).Start(t.Context(), s.o)
	if err != nil {
		t.Fatal(err)
	}
	got, codes := map[string]string{}, map[string]string{}
	for _, e := range s.gone(11) {
		got[e.Name] = fmt.Sprint(e.Err)
		if batch := new(worker.BatchError); errors.As(e.Err, &batch) {
			codes[e.Name] = batch.Code
		}
	}
	for name, want := range map[string]string{"slurm-0": "TIMEOUT", "slurm-1": "OUT_OF_MEMORY", "slurm-4": "Options.Dir",
		"slurm-10": "FAILED"} {
		if codes[name] != want {
			t.Errorf("%s: the code is %q, not %q", name, codes[name], want)
		}
	}
	for name, want := range map[string]string{
		"slurm-0": "time limit reached", "slurm-1": "out of memory", "slurm-2": "node failed", "slurm-3": "CANCELLED",
		"slurm-4": "could not open its log in " + s.o.Dir,
		"slurm-5": "PREEMPTED", "slurm-6": "DEADLINE", "slurm-7": "DependencyNeverSatisfied", "slurm-8": "<nil>",
		"slurm-9": "node failed", "slurm-10": "NonZeroExitCode",
	} {
		if !strings.Contains(got[name], want) {
			t.Errorf("%s: %q, not %q", name, got[name], want)
		}
	}
	// Those that this queue never lets go of.
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if err := f.Stop(ctx); err == nil {
		t.Error("Stop has seen the end of jobs that are there")
	}
}

func TestStopNamesRemainingJobs(t *testing.T) {
	standIns(t, map[string]string{
		"squeue":  "echo '17_0|RUNNING|None'",
		"scancel": "echo 'scancel: error: Kill job error on job id 17: Access/permission denied' >&2; exit 1",
	})
	s := prepare(t, 1, "exit 0")
	f, err := quick(nil).Start(t.Context(), s.o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("the second ^C"))
	for range 2 {
		err = f.Stop(ctx)
		if err == nil {
			t.Fatal("no error")
		}
		for _, want := range []string{"job 17 may be left", "the second ^C", "permission denied"} {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%q is not in %q", want, err)
			}
		}
		workertest.WantCommands(t, err, "scancel 17")
	}
	if left := list(t, s.o.Dir, "*endpoint*"); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

func TestStopRetriesBusyController(t *testing.T) {
	done := filepath.Join(t.TempDir(), "done")
	notes := standIns(t, map[string]string{
		"squeue": "if [ -e " + done + " ]; then echo '17_0|CANCELLED|None'; else echo '17_0|RUNNING|None'; fi",
		"scancel": "if [ -e " + done + "0 ]; then : >" + done + "; else : >" + done +
			"0; echo 'scancel: error: Socket timed out' >&2; exit 1; fi",
	})
	s := begin(t, quick(nil), 1, "exit 0")
	s.stop()
	if n := strings.Count(noted(t, notes, "scancel"), "\n"); n != 2 {
		t.Errorf("scancel was called %d times", n)
	}
}

func TestCanceledStartWithHangingSbatch(t *testing.T) {
	pid := filepath.Join(t.TempDir(), "pid")
	notes := standIns(t, map[string]string{"sbatch": "sleep 600 & echo $! >" + pid + "; wait"})
	k := quick(nil)
	k.times.answer = 50 * time.Millisecond
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("enough")
	onceThere(t, pid, func() { cancel(why) })
	s := prepare(t, 1, "exit 0")
	if f, err := k.Start(ctx, s.o); f != nil || !errors.Is(err, why) || strings.Contains(err.Error(), "may be left") {
		t.Errorf("Start: %v, %v", f, err)
	}
	if got := noted(t, notes, "scancel"); !strings.Contains(got, "--name=leat-test-") {
		t.Errorf("scancel was called with %q", got)
	}
	n, err := strconv.Atoi(strings.TrimSpace(await(t, pid)))
	if err != nil {
		t.Fatal(err)
	}
	for range 600 {
		if !workertest.Alive(n) {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	t.Error("what sbatch started is left")
}

func TestProgramsRunInOwnSession(t *testing.T) {
	// What the terminal does on ^C: the signal goes to the whole group.
	standIns(t, map[string]string{"sbatch": "trap '' INT; kill -INT 0; sleep 0.1; echo 17",
		"squeue": "echo '17_0|COMPLETED|None'"})
	c := make(chan os.Signal, 1)
	signal.Notify(c, os.Interrupt)
	defer signal.Stop(c)
	s := begin(t, quick(nil), 1, "exit 0")
	s.gone(1)
	if len(c) > 0 {
		t.Error("sbatch is in the group of this process")
	}
}

func TestRefusedThrottle(t *testing.T) {
	notes := standIns(t, nil)
	s := prepare(t, 9, "exit 0")
	_, err := quick(&Options{MaxArray: 3, Throttle: 2}).Start(t.Context(), s.o)
	if err == nil || !strings.Contains(err.Error(), "Throttle is 2") || !strings.Contains(err.Error(),
		"expected 3 or more") {
		t.Errorf("Start: %v", err)
	}
	if got := noted(t, notes, "sbatch"); got != "" {
		t.Errorf("sbatch was called with %q", got)
	}
}

func TestInvalidStartOptions(t *testing.T) {
	standIns(t, nil)
	for want, change := range map[string]func(*worker.StartOptions){
		`RunID is ""`:    func(o *worker.StartOptions) { o.RunID = "" },
		`RunID is "a,b"`: func(o *worker.StartOptions) { o.RunID = "a,b" },
		"Workers is 0":   func(o *worker.StartOptions) { o.Workers = 0 },
		"First is -1":    func(o *worker.StartOptions) { o.First = -1 },
		"absolute path":  func(o *worker.StartOptions) { o.Command = []string{"leat"} },
		"zero byte":      func(o *worker.StartOptions) { o.Command = []string{"/bin/leat", "\x00"} },
		"Endpoint is":    func(o *worker.StartOptions) { o.Endpoint = worker.Endpoint{} },
		"Dir is":         func(o *worker.StartOptions) { o.Dir = "here" },
		"a backslash":    func(o *worker.StartOptions) { o.Dir += `\` },
		"no such file":   func(o *worker.StartOptions) { o.Dir += "/none" },
	} {
		s := prepare(t, 1, "exit 0")
		change(&s.o)
		if f, err := quick(nil).Start(t.Context(), s.o); f != nil || err == nil || !strings.Contains(err.Error(),
			want) {
			t.Errorf("%s: %v, %v", want, f, err)
		}
	}
}
