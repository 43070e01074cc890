package slurm

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"leat/internal/worker/slurmtest"
	"leat/worker"
	"leat/worker/internal/batch"
)

// TestCluster is on a real Slurm, one for all its parts.
func TestCluster(t *testing.T) {
	c := slurmtest.Start(t)
	c.Setenv(t)
	for _, sub := range []struct {
		name string
		run  func(*testing.T, *slurmtest.Cluster)
	}{
		{"a worker knows its name, its slots and its run", workerEnvironment},
		{"exits have the reason and the last lines", endings},
		{"a directory with blanks and percent signs in its name", oddDir},
		{"a directory that the node does not have", missingDir},
		{"without a directory the secret is in the environment and nowhere else", secretInEnvironment},
		{"with a directory the secret is in a file and nowhere else", secretInFile},
		{"a directory of the options is used and removed", ownDir},
		{"stop ends what runs and what waits", stopEndsAll},
		{"what others cancel is gone", cancelled},
		{"a wrong option's refusal is in the error", refusedBySlurm},
		{"an array larger than the system allows is several", severalArrays},
		{"the launcher's options win over the user's", directives},
		{"invalid directives are refused by sbatch", invalidDirectives},
		{"a throttled array never runs more", throttled},
		{"variables of the user that hide jobs do no harm", hidingVariables},
		{"a run that is in a job itself gives its own CPUs to nobody", withinJob},
		{"reasons for pending workers are logged", neverStart},
		{"initial commands, prefix and suffix stand around the worker", aroundTheWorker},
		{"a cancelled start leaves nothing", cancelledStart},
	} {
		t.Run(sub.name, func(t *testing.T) {
			t.Cleanup(func() { // after what the part itself cleans up
				if left := c.Jobs(t); left != "" {
					t.Errorf("jobs are left:\n%s", left)
				}
			})
			sub.run(t, c)
		})
	}
}

// long leaves a part out of short tests: each start waits for the scheduler's next second.
func long(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: takes seconds")
	}
}

func workerEnvironment(t *testing.T, c *slurmtest.Cluster) {
	k := quick(&Options{CPUs: 2})
	if err := k.Check(t.Context()); err != nil {
		t.Fatal(err)
	}
	s := prepare(t, 3, `echo "$LEAT_WORKER_NAME $LEAT_WORKER_SLOTS $GOMAXPROCS $(cat "$LEAT_WORKER_FILE")" >"$1/$LEAT_WORKER_NAME"`)
	t.Setenv("GOMAXPROCS", "")
	s.o.First = 9
	s.start(k)
	text, err := endpoint.MarshalText()
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range s.gone(3) {
		if e.Err != nil || !strings.HasPrefix(e.Job, s.fleet.Jobs()+"_") {
			t.Errorf("%s, %s of %s ended with %v: %s", e.Name, e.Job, s.fleet.Jobs(), e.Err, e.Log)
		}
		if got, want := await(t, filepath.Join(s.o.Dir, e.Name)), e.Name+" 2 2 "+string(text)+"\n"; got != want {
			t.Errorf("%s had %q, not %q", e.Name, got, want)
		}
	}
	for _, n := range []string{"slurm-9", "slurm-10", "slurm-11"} {
		if _, err := os.Stat(filepath.Join(s.o.Dir, n)); err != nil {
			t.Error(err)
		}
	}
}

func endings(t *testing.T, c *slurmtest.Cluster) {
	s := begin(t, quick(nil), 5, `echo "I am $LEAT_WORKER_NAME"
		case $LEAT_WORKER_NAME in
		slurm-0) exit 0;;
		slurm-1) echo "no such band" >&2; exit 3;;
		slurm-2) kill -9 $$;;
		slurm-3) kill -9 $PPID;;
		slurm-4) seq 1 10000; echo the end; exit 1;;
		esac`)
	exits := s.gone(5)
	for i, want := range []struct{ err, log string }{
		{"", "I am slurm-0"},
		{"FAILED: exit status 3", "I am slurm-1\nno such band"},
		{"FAILED: exit status 137, which shells return for signal 9", `Killed`},
		{"FAILED: killed by signal 9", "I am slurm-3"},
		{"FAILED: exit status 1", "9999\n10000\nthe end"},
	} {
		e := exits[i]
		text := ""
		if e.Err != nil {
			text = e.Err.Error()
		}
		if text != want.err || !strings.Contains(e.Log, want.log) || strings.HasSuffix(e.Log, "\n") {
			t.Errorf("%s ended with %q and %q, not with %q and %q", e.Name, text, e.Log, want.err, want.log)
		}
	}
	if n := len(exits[4].Log); n < batch.EndOfLog/2 || n > batch.EndOfLog {
		t.Errorf("the end of a long log has %d bytes", n)
	}
	s.stop()
	s.stop()
	if s.log.String() != "" {
		t.Errorf("it was said: %s", s.log.String())
	}
}

func oddDir(t *testing.T, c *slurmtest.Cluster) {
	s := prepare(t, 1, `echo "from $1"; exit 2`)
	s.o.Dir = filepath.Join(s.o.Dir, `a%A 100%% it's "here" $HOME`)
	if err := os.Mkdir(s.o.Dir, 0o700); err != nil {
		t.Fatal(err)
	}
	s.o.Command[len(s.o.Command)-1] = s.o.Dir
	s.start(quick(nil))
	if e := s.gone(1)[0]; e.Log != "from "+s.o.Dir {
		t.Errorf("ended with %v and %q", e.Err, e.Log)
	}
}

func missingDir(t *testing.T, c *slurmtest.Cluster) {
	s := prepare(t, 1, "exit 0")
	s.o.Dir = filepath.Join(s.o.Dir, "here")
	if err := os.Mkdir(s.o.Dir, 0o700); err != nil {
		t.Fatal(err)
	}
	k := quick(&Options{Directives: []string{"--hold"}})
	s.start(k)
	if err := os.RemoveAll(s.o.Dir); err != nil {
		t.Fatal(err)
	}
	c.Run(t, "scontrol", "release", strings.TrimPrefix(s.fleet.Jobs(), "job "))
	if e := s.gone(1)[0]; e.Err == nil || !strings.Contains(e.Err.Error(), "could not open its log in "+s.o.Dir) {
		t.Errorf("ended with %v", e.Err)
	}
}

// publicly is what any user can learn of a job, and what the script holds.
func publicly(t *testing.T, c *slurmtest.Cluster, jobs string) string {
	id := strings.TrimPrefix(jobs, "job ")
	out := c.Run(t, "scontrol", "--details", "show", "job", id) + c.Run(t, "scontrol", "write", "batch_script", id+"_0",
		"-") + c.Run(t, "squeue", "--json")
	ps, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range ps {
		b, _ := os.ReadFile(p) // it may have ended
		out += strings.ReplaceAll(string(b), "\x00", " ") + "\n"
	}
	return out
}

func secretInEnvironment(t *testing.T, c *slurmtest.Cluster) {
	dir := t.TempDir()
	k := quick(nil)
	s := prepare(t, 1, `printf '%s\n' "$LEAT_WORKER" >"$1/it"; exec sleep 600`)
	s.o.Dir = ""
	s.o.Command[len(s.o.Command)-1] = dir
	s.start(k)
	var i worker.Endpoint
	if err := i.UnmarshalText([]byte(await(t, filepath.Join(dir, "it")))); err != nil || !cmp.Equal(i, endpoint) {
		t.Errorf("the worker was given another endpoint: %v", err)
	}
	if text := publicly(t, c, s.fleet.Jobs()); strings.Contains(text, endpoint.Token) || !strings.Contains(text,
		"leat-test") {
		t.Errorf("the secret is in:\n%s", text)
	}
	// Files of Slurm that do hold it are for its own user alone.
	holds := 0
	err := filepath.WalkDir(c.Dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return nil // a job's files come and go
		}
		b, err := os.ReadFile(path)
		if err != nil || !strings.Contains(string(b), endpoint.Token) {
			return nil
		}
		holds++
		closed := false
		for p := path; p != c.Dir; p = filepath.Dir(p) {
			i, err := os.Stat(p)
			if err != nil {
				return err
			}
			closed = closed || i.Mode().Perm()&0o077 == 0
		}
		if !closed {
			t.Errorf("others can read the secret in %s", path)
		}
		return nil
	})
	if err != nil || holds == 0 {
		t.Errorf("looked at the files of Slurm: %d hold the secret, %v", holds, err)
	}
}

func secretInFile(t *testing.T, c *slurmtest.Cluster) {
	s := prepare(t, 1, `stat -c '%a %F' "$LEAT_WORKER_FILE" >"$1/mode"; env >"$1/env"; echo >>"$1/env"; exec sleep 600`)
	s.o.Endpoint.Token = "a-token-of-this-test-alone" // Slurm keeps the environments of earlier jobs for some time
	s.start(quick(nil))
	if got := await(t, filepath.Join(s.o.Dir, "mode")); got != "600 regular file\n" {
		t.Errorf("the secret's file is a %q", got)
	}
	text := publicly(t, c, s.fleet.Jobs()) + await(t, filepath.Join(s.o.Dir, "env"))
	if strings.Contains(text, s.o.Endpoint.Token) {
		t.Errorf("the secret is in:\n%s", text)
	}
	_ = filepath.WalkDir(c.Dir, func(path string, d os.DirEntry, err error) error {
		if b, err := os.ReadFile(path); err == nil && strings.Contains(string(b), s.o.Endpoint.Token) {
			t.Errorf("the secret is in %s", path)
		}
		return nil
	})
	s.stop()
	if left := list(t, s.o.Dir, "*endpoint*"); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

func ownDir(t *testing.T, c *slurmtest.Cluster) {
	parent := t.TempDir()
	s := prepare(t, 1, `dirname "$LEAT_WORKER_FILE"; stat -c %a "$(dirname "$LEAT_WORKER_FILE")"; exit 1`)
	s.o.Dir = ""
	s.start(quick(&Options{Dir: parent}))
	e := s.gone(1)[0]
	dir, mode, _ := strings.Cut(e.Log, "\n")
	if filepath.Dir(dir) != parent || mode != "700" {
		t.Errorf("the directory was %q of mode %s", dir, mode)
	}
	s.stop()
	if left := list(t, parent, "*"); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

// stopEndsAll has more workers than the cluster runs at once.
func stopEndsAll(t *testing.T, c *slurmtest.Cluster) {
	s := begin(t, quick(nil), 2*slurmtest.CPUs, `echo >"$1/$LEAT_WORKER_NAME"; exec sleep 600`)
	await(t, filepath.Join(s.o.Dir, "slurm-0"))
	s.stop()
	if left := c.Jobs(t); left != "" {
		t.Errorf("left:\n%s", left)
	}
	s.stop()
	if n := len(s.exits); n > 0 {
		t.Errorf("OnExit was called for %d stopped workers", n)
	}
	if s.log.String() != "" {
		t.Errorf("it was said: %s", s.log.String())
	}
}

func cancelled(t *testing.T, c *slurmtest.Cluster) {
	s := begin(t, quick(nil), 2, `echo before; echo >"$1/$LEAT_WORKER_NAME"; exec sleep 600`)
	await(t, filepath.Join(s.o.Dir, "slurm-1"))
	c.Run(t, "scancel", strings.TrimPrefix(s.fleet.Jobs(), "job ")+"_1")
	if e := s.gone(1)[0]; e.Name != "slurm-1" || e.Err == nil || e.Err.Error() != "CANCELLED" ||
		!strings.HasPrefix(e.Log, "before") {
		t.Errorf("gone: %s", texts([]worker.Exit{e}))
	}
	s.stop()
}

func refusedBySlurm(t *testing.T, c *slurmtest.Cluster) {
	s := prepare(t, 1, "exit 0")
	_, err := quick(&Options{Directives: []string{"-p nosuch"}}).Start(t.Context(), s.o)
	if err == nil || !strings.Contains(err.Error(), "sbatch: error: invalid partition specified: nosuch") {
		t.Errorf("Start: %v", err)
	}
	if left := list(t, s.o.Dir, "*"); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

func directives(t *testing.T, c *slurmtest.Cluster) {
	k := quick(&Options{CPUs: 2, Directives: []string{
		`--comment "it's a \#1" -p short --time=0:30`,
		"--array=0-99 -J mine -o /none/o --error=/none/e -i /none/i --export=NONE --requeue --parsable -c 5",
	}})
	s := prepare(t, 2, `echo "$LEAT_TEST_OF_USER $LEAT_WORKER_SLOTS"; cat; echo >"$1/$LEAT_WORKER_NAME"; exec sleep 600`)
	t.Setenv("LEAT_TEST_OF_USER", "passed")
	s.start(k)
	await(t, filepath.Join(s.o.Dir, "slurm-0"))
	await(t, filepath.Join(s.o.Dir, "slurm-1"))
	job := strings.TrimPrefix(s.fleet.Jobs(), "job ")
	text := c.Run(t, "scontrol", "show", "job", job)
	for _, want := range []string{"Comment=it's a #1", "Partition=short", "TimeLimit=00:01:00", "JobName=leat-test-",
		"Requeue=0", "CPUs/Task=2", "StdErr=" + s.o.Dir} {
		if strings.Count(text, want) != 2 {
			t.Errorf("%s is not of both tasks of job %s:\n%s", want, job, text)
		}
	}
	c.Run(t, "scancel", job)
	for _, e := range s.gone(2) {
		if !strings.HasPrefix(e.Log, "passed 2\n") {
			t.Errorf("%s: %v, log %q", e.Name, e.Err, e.Log)
		}
	}
}

func invalidDirectives(t *testing.T, c *slurmtest.Cluster) {
	for d, want := range map[string]string{"-p short script.sh": "script.sh", "-N": "requires an argument",
		"--nonesuch": "unrecognized option", `--comment "a`: "Unmatched"} {
		_, err := quick(&Options{Directives: []string{d}}).Start(t.Context(), prepare(t, 1, "exit 0").o)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", d, err)
		}
	}
}

func severalArrays(t *testing.T, c *slurmtest.Cluster) {
	long(t)
	if n, err := quick(nil).arrayLimit(t.Context()); n != 1001 || err != nil {
		t.Errorf("Slurm's own limit is %d, %v", n, err)
	}
	s := begin(t, quick(&Options{MaxArray: 2}), 5, `exit ${LEAT_WORKER_NAME#slurm-}`)
	if !regexp.MustCompile(`^jobs \d+, \d+, \d+$`).MatchString(s.fleet.Jobs()) {
		t.Errorf("Jobs: %s", s.fleet.Jobs())
	}
	for i, e := range s.gone(5) {
		if want := worker.WorkerName(launcherName,
			i); e.Name != want || (e.Err == nil) != (i == 0) || i > 0 && e.Err.Error() != "FAILED: exit status "+
			want[6:] {
			t.Errorf("worker %d: %s, %s: %v", i, e.Name, e.Job, e.Err)
		}
	}
	// The largest array that there is, and one more: taken and cancelled.
	s = begin(t, quick(&Options{Directives: []string{"--hold"}}), 1002, "exit 0")
	s.stop()
}

func throttled(t *testing.T, c *slurmtest.Cluster) {
	long(t)
	s := begin(t, quick(&Options{MaxArray: 3, Throttle: 3}), 6,
		`echo >"$1/run-$LEAT_WORKER_NAME"; ls "$1"/run-* | wc -l; sleep 0.3; rm "$1/run-$LEAT_WORKER_NAME"`)
	for _, e := range s.gone(6) {
		if e.Err != nil || !slices.Contains([]string{"1", "2", "3"}, e.Log) {
			t.Errorf("%s ended with %v; at once there ran %s", e.Name, e.Err, e.Log)
		}
	}
}

func hidingVariables(t *testing.T, c *slurmtest.Cluster) {
	for _, e := range []string{"SQUEUE_PARTITION=down", "SQUEUE_STATES=PENDING", "SQUEUE_FORMAT=%u",
		"SCANCEL_PARTITION=down", "SCANCEL_INTERACTIVE=1",
		"SBATCH_WAIT=1", "SBATCH_EXPORT=NONE", "SBATCH_ERROR=/nonexistent/y", "SBATCH_INPUT=/nonexistent/z",
		"SBATCH_REQUEUE=1", "SBATCH_OPEN_MODE=truncate", "SBATCH_ARRAY_INX=7-9", "SBATCH_OUTPUT=/nonexistent/x",
		"SBATCH_JOB_NAME=mine"} {
		name, value, _ := strings.Cut(e, "=")
		t.Setenv(name, value)
	}
	s := begin(t, quick(nil), 2, `echo >"$1/$LEAT_WORKER_NAME"; [ $LEAT_WORKER_NAME = slurm-1 ] || exec sleep 600`)
	if e := s.gone(1)[0]; e.Name != "slurm-1" || e.Err != nil {
		t.Errorf("gone: %s", texts([]worker.Exit{e}))
	}
	s.stop()
}

func withinJob(t *testing.T, c *slurmtest.Cluster) {
	for _, e := range []string{"SLURM_JOB_ID=99", "SLURM_CPUS_PER_TASK=7", "SLURM_CPUS_ON_NODE=7",
		"SLURM_ARRAY_TASK_ID=5", "LEAT_WORKER_SLOTS=9", "LEAT_WORKER=theirs"} {
		name, value, _ := strings.Cut(e, "=")
		t.Setenv(name, value)
	}
	s := begin(t, quick(nil), 1, `echo "$LEAT_WORKER_NAME $LEAT_WORKER_SLOTS ${SLURM_CPUS_PER_TASK-none} ${LEAT_WORKER-none}"`)
	if e := s.gone(1)[0]; e.Log != "slurm-0 1 none none" {
		t.Errorf("the worker had %q", e.Log)
	}
}

func neverStart(t *testing.T, c *slurmtest.Cluster) {
	long(t)
	for _, x := range []struct{ extra, reason, text string }{
		{"--partition=short --time=10", "PartitionTimeLimit", "more time than its partition allows"},
		{"--ntasks=100", "PartitionConfig", "more nodes or processors than its partition has"},
		{"--hold", "JobHeldUser", "it is held"},
	} {
		s := begin(t, quick(&Options{Directives: []string{x.extra}}), 3, "exit 0")
		for range 600 {
			if strings.Contains(s.log.String(), x.reason) {
				break
			}
			time.Sleep(100 * time.Millisecond)
		}
		s.stop()
		text := s.log.String()
		if strings.Count(text, "reason="+x.reason) != 1 || !strings.Contains(text, x.text) || !strings.Contains(text,
			"workers=3") {
			t.Errorf("with %s it was said: %s", x.extra, text)
		}
	}
}

func aroundTheWorker(t *testing.T, c *slurmtest.Cluster) {
	t.Setenv("LEAT_TEST_OF_USER", "passed on")
	k := quick(&Options{
		Init: []string{"#SBATCH --array=0-99 --job-name=other", "greet() { echo \"hello $1\"; }",
			"if greet init\nthen cd /; fi", "false"},
		Prefix: []string{"env", `A="$(pwd) $LEAT_TEST_OF_USER"`}, Suffix: []string{"it\\'s", "2>&1"},
	})
	s := prepare(t, 1, `echo "$A, $2, $3"; pwd`)
	s.o.Command = append(s.o.Command, `a 'b' $HOME`)
	s.start(k)
	if e := s.gone(1)[0]; e.Err != nil || e.Log != "hello init\n/ passed on, a 'b' $HOME, it's\n/" {
		t.Errorf("ended with %v and %q", e.Err, e.Log)
	}
}

// cancelledStart ends the start while sbatch is on its way, at several moments.
func cancelledStart(t *testing.T, c *slurmtest.Cluster) {
	long(t)
	sbatch, err := exec.LookPath("sbatch")
	if err != nil {
		t.Fatal(err)
	}
	for _, wait := range []string{"sleep 0.3; exec SBATCH \"$@\"", "SBATCH \"$@\"; sleep 600",
		"SBATCH \"$@\" >/dev/null; sleep 600"} {
		slow := filepath.Join(t.TempDir(), "sbatch")
		if err := os.WriteFile(slow, []byte("#!/bin/sh\n"+strings.ReplaceAll(wait, "SBATCH", sbatch)+"\n"),
			0o700); err != nil {
			t.Fatal(err)
		}
		s := prepare(t, 2, "exec sleep 600")
		ctx, cancel := context.WithCancelCause(t.Context())
		why := errors.New("the user has had enough")
		time.AfterFunc(100*time.Millisecond, func() { cancel(why) })
		f, err := quick(&Options{Sbatch: slow, MaxArray: 1}).Start(ctx, s.o)
		if f != nil || !errors.Is(err, why) {
			t.Errorf("%s: Start returned %v, %v", wait, f, err)
		}
		if left := c.Jobs(t); left != "" {
			t.Errorf("%s: left:\n%s", wait, left)
		}
		if left := list(t, s.o.Dir, "*endpoint*"); len(left) > 0 {
			t.Errorf("%s: left: %v", wait, left)
		}
	}
}
