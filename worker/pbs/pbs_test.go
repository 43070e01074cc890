package pbs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"leat/internal/worker/pbstest"
	"leat/internal/worker/workertest"
	"leat/worker"
	"leat/worker/internal/batch"
)

// The variables a worker finds, one file a worker.
const showEnvironment = `env >"$0/$LEAT_WORKER_NAME.env.tmp" && mv "$0/$LEAT_WORKER_NAME.env.tmp" "$0/$LEAT_WORKER_NAME.env"`

func TestWorkerNames(t *testing.T) {
	for _, n := range []int{1, 2, 5} {
		t.Run(fmt.Sprintf("%d", n), func(t *testing.T) {
			s := pbstest.New(t, pbstest.Settings{})
			r := newRun(t, nil, n, showEnvironment)
			r.Options.First = 7
			r.Options.Command = append(r.Options.Command, r.dir)
			f := r.start()
			for name, e := range r.Await(n) {
				if e.Err != nil {
					t.Errorf("%s: %v, log %q", name, e.Err, e.Log)
				}
			}
			for i, name := range names(7, n) {
				env := "\n" + read(t, filepath.Join(r.dir, name+".env"))
				for _, v := range []string{worker.EnvName + "=" + name, worker.EnvSlots + "=1", "GOMAXPROCS=1"} {
					if !strings.Contains(env, "\n"+v+"\n") {
						t.Errorf("%s does not find %s", name, v)
					}
				}
				want := fmt.Sprintf("job 100[%d].%s", i, pbstest.Host)
				if n == 1 {
					want = "job 100." + pbstest.Host
				}
				if got := r.Exits()[name].Job; got != want {
					t.Errorf("%s ran as %q, not %q", name, got, want)
				}
			}
			want := "job 100[]." + pbstest.Host
			if n == 1 {
				want = "job 100." + pbstest.Host
			}
			if f.Jobs() != want {
				t.Errorf("Jobs() = %q, expected %q", f.Jobs(), want)
			}
			array, ok := option(s.Submitted()[0], "-J")
			if wantArray := fmt.Sprintf("0-%d", n-1); ok != (n > 1) || ok && array != wantArray {
				t.Errorf("%d workers are submitted with -J %q", n, array)
			}
		})
	}
}

func TestArraySizeLimit(t *testing.T) {
	for _, c := range []struct {
		name    string
		o       Options
		set     pbstest.Settings
		workers int
		arrays  []string // "" is a plain job
	}{
		{"the server's limit", Options{}, pbstest.Settings{MaxArray: 4}, 10, []string{"0-3", "0-3", "0-1"}},
		{"the server's limit, one left", Options{}, pbstest.Settings{MaxArray: 4}, 9, []string{"0-3", "0-3", ""}},
		{"the server's limit, old version", Options{}, pbstest.Settings{MaxArray: 4, Old: true}, 5,
			[]string{"0-3", ""}},
		{"the user's limit", Options{MaxArray: 3}, pbstest.Settings{}, 6, []string{"0-2", "0-2"}},
		{"the queue's limit, unknown", Options{}, pbstest.Settings{QueueMaxArray: 3}, 8,
			[]string{"0-1", "0-1", "0-1", "0-1"}},
		{"no limit", Options{}, pbstest.Settings{}, 12, []string{"0-11"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := pbstest.New(t, c.set)
			r := newRun(t, &c.o, c.workers, "exit 0")
			r.Options.First = 2
			r.start()
			ends := r.Await(c.workers)
			for _, n := range names(2, c.workers) {
				if e, ok := ends[n]; !ok || e.Err != nil {
					t.Errorf("%s: %+v", n, e)
				}
			}
			var arrays []string
			for _, args := range s.Submitted() {
				a, _ := option(args, "-J")
				arrays = append(arrays, a)
			}
			if d := cmp.Diff(c.arrays, arrays); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestCPUsAndThrottle(t *testing.T) {
	s := pbstest.New(t, pbstest.Settings{})
	r := newRun(t, &Options{CPUs: 4, Throttle: 5, MaxArray: 8}, 11, "exit 0")
	r.start()
	r.Await(11)
	for i, want := range []string{"0-7%3", "0-2%1"} {
		args := s.Submitted()[i]
		if got, _ := option(args, "-J"); got != want {
			t.Errorf("-J %s, expected %s", got, want)
		}
		if got, _ := option(args, "-l"); got != "select=1:ncpus=4" {
			t.Errorf("-l %s", got)
		}
	}
}

func TestProgramsByPath(t *testing.T) {
	pbstest.New(t, pbstest.Settings{})
	bin, _, _ := strings.Cut(os.Getenv("PATH"), string(os.PathListSeparator))
	t.Setenv("PATH", "/usr/bin:/bin")
	o := &Options{Qsub: filepath.Join(bin, "qsub"), Qstat: filepath.Join(bin, "qstat"),
		Qdel: filepath.Join(bin, "qdel")}
	r := newRun(t, o, 2, "exit 0")
	if err := r.kind.Check(t.Context()); err != nil {
		t.Error(err)
	}
	r.start()
	r.Await(2)
	workertest.WantError(t, New(&Options{Qsub: o.Qsub, Qstat: o.Qstat, Qdel: "/no/such/qdel"}).Check(t.Context()),
		"/no/such/qdel: not found")
}

func TestExitStatusAndLog(t *testing.T) {
	for name, set := range map[string]pbstest.Settings{
		"history":                              {},
		"no history":                           {NoHistory: true},
		"old version":                          {Old: true},
		"old version without history":          {Old: true, NoHistory: true},
		"no Exit_status of subjobs":            {ExitStatusLost: true},
		"only the first of several is printed": {FirstOnly: true},
	} {
		t.Run(name, func(t *testing.T) {
			pbstest.New(t, set)
			// Three jobs of two workers.
			r := newRun(t, &Options{MaxArray: 2}, 6, `echo "this is $LEAT_WORKER_NAME"; case $LEAT_WORKER_NAME in
*-1) echo "went wrong" >&2; exit 3;;
*-4) exit 11;;
esac`)
			r.start()
			for name, e := range r.Await(6) {
				want := "this is " + name
				switch name {
				case "pbs-1":
					want += "\nwent wrong"
					workertest.WantError(t, e.Err, "ended with status 3")
				case "pbs-4":
					workertest.WantError(t, e.Err, "ended with status 11")
				default:
					if e.Err != nil {
						t.Errorf("%s: %v", name, e.Err)
					}
				}
				if e.Log != want {
					t.Errorf("log of %s is %q, not %q", name, e.Log, want)
				}
			}
		})
	}
}

func TestKilledWorkerIsReportedEarly(t *testing.T) {
	for name, set := range map[string]pbstest.Settings{"history": {}, "no history": {NoHistory: true},
		"old": {Old: true}, "only the first of several is printed": {FirstOnly: true}} {
		t.Run(name, func(t *testing.T) {
			s := pbstest.New(t, set)
			r := newRun(t, &Options{MaxArray: 2}, 3, `: >"$0/$LEAT_WORKER_NAME.up"; exec sleep 600`)
			r.Options.Command = append(r.Options.Command, r.dir)
			r.start()
			workertest.Eventually(t, "no worker is up", func() bool { return exists(filepath.Join(r.dir, "pbs-1.up")) })
			if !s.Kill(100, 1) {
				t.Fatal("it does not run")
			}
			ends := r.Await(1)
			if len(ends) != 1 {
				t.Errorf("%d workers have exited", len(ends))
			}
			workertest.WantError(t, ends["pbs-1"].Err, "signal 9")
		})
	}
}

func TestLongLogTail(t *testing.T) {
	pbstest.New(t, pbstest.Settings{})
	r := newRun(t, nil, 1, `i=0; while [ $i -lt 3000 ]; do echo "line $i"; i=$((i+1)); done; exit 1`)
	r.start()
	log := r.Await(1)["pbs-0"].Log
	if len(log) > batch.EndOfLog || !strings.HasPrefix(log, "line ") || !strings.HasSuffix(log, "\nline 2999") {
		t.Errorf("%d bytes: %.40q ... ", len(log), log)
	}
}

func TestJobMessagesInLog(t *testing.T) {
	const killed = "=>> PBS: job killed: walltime 61 exceeded limit 60"
	for _, n := range []int{1, 2} {
		pbstest.New(t, pbstest.Settings{MomSays: killed})
		r := newRun(t, nil, n, "echo of the worker; exit 1")
		r.start()
		for name, e := range r.Await(n) {
			if want := "of the worker\n" + killed; e.Log != want {
				t.Errorf("%s: log is %q, not %q", name, e.Log, want)
			}
		}
	}
}

func TestInitialCommandsPrefixAndSuffix(t *testing.T) {
	pbstest.New(t, pbstest.Settings{})
	r := newRun(t, &Options{
		Init:   []string{"greeting='good morning'", "export greeting", "worker() { \"$@\" && echo after; }"},
		Prefix: []string{"worker", "env inner=1"},
		Suffix: []string{"'the last word'", "$LEAT_WORKER_NAME"},
	}, 1, `echo "$greeting, $inner, $0, $1, $2"`)
	r.Options.Command = append(r.Options.Command, `it's a "word" $HOME`)
	r.start()
	e := r.Await(1)["pbs-0"]
	if want := "good morning, 1, it's a \"word\" $HOME, the last word, pbs-0\nafter"; e.Err != nil || e.Log != want {
		t.Errorf("%v, log %q, expected %q", e.Err, e.Log, want)
	}
}

// RIOS gives the secret to its workers as an argument, which everybody sees.
func TestRIOSSecretOnCommandLine(t *testing.T) {
	s := pbstest.New(t, pbstest.Settings{})
	r := newRun(t, nil, 2, `cat "$LEAT_WORKER_FILE"; stat -c %a "$LEAT_WORKER_FILE"; [ -z "$LEAT_WORKER" ]`)
	f := r.start()
	text, err := workertest.Endpoint.MarshalText()
	if err != nil {
		t.Fatal(err)
	}
	for name, e := range r.Await(2) {
		if want := string(text) + "600"; e.Err != nil || e.Log != want {
			t.Errorf("%s finds %q (%v)", name, e.Log, e.Err)
		}
	}
	all := s.Script(100)
	for _, a := range s.Submitted() {
		all += strings.Join(a, " ")
	}
	if strings.Contains(all, workertest.Endpoint.Token) {
		t.Error("the token is in the script, or among the arguments of qsub")
	}
	r.Stop(f)
	if found, _ := filepath.Glob(filepath.Join(r.dir, "*endpoint*")); len(found) != 0 {
		t.Errorf("the secret stays: %v", found)
	}
}

func TestSecretWithoutSharedDir(t *testing.T) {
	s := pbstest.New(t, pbstest.Settings{})
	r := newRun(t, nil, 2, `echo "$LEAT_WORKER"; env | grep -c "^LEAT_PBS"; exit 0`)
	r.Options.Dir = ""
	_, err := r.kind.Start(t.Context(), r.Options)
	workertest.WantError(t, err, "Dir is empty", "InsecureSecret")
	if !r.kind.Capabilities().SharedDir {
		t.Error("no shared directory is needed")
	}
	if len(s.Submitted()) > 0 {
		t.Error("it was submitted")
	}
	r.kind.o.InsecureSecret = true
	if r.kind.Capabilities().SharedDir {
		t.Error("a shared directory is needed")
	}
	out := filepath.Join(t.TempDir(), "out")
	r.kind.o.Suffix = []string{">" + out + ".$LEAT_WORKER_NAME"}
	r.start()
	r.Await(2)
	text, err := workertest.Endpoint.MarshalText()
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range names(0, 2) {
		if got, want := read(t, out+"."+n), string(text)+"\n0\n"; got != want {
			t.Errorf("%s finds %q, not %q", n, got, want)
		}
	}
	if args := strings.Join(s.Submitted()[0], " "); strings.Contains(args, workertest.Endpoint.Token) || !strings.Contains(args,
		"-v "+secretVariable) {
		t.Errorf("qsub %s", args)
	}
}

func TestSubmitterVariablesNotInherited(t *testing.T) {
	t.Setenv(worker.EnvEndpoint, "of another run")
	t.Setenv("LEAT_WORKER_OTHER", "x")
	pbstest.New(t, pbstest.Settings{})
	r := newRun(t, &Options{Directives: []string{"-V"}}, 2, showEnvironment)
	r.Options.Command = append(r.Options.Command, r.dir)
	r.start()
	r.Await(2)
	env := read(t, filepath.Join(r.dir, "pbs-1.env"))
	if strings.Contains(env, "of another run") || strings.Contains(env, "LEAT_WORKER_OTHER") {
		t.Error("they do")
	}
	if !strings.Contains(env, "PBSTEST_SOCKET") {
		t.Error("-V has no effect")
	}
}

// RIOS leaves its jobs in the queue when a run fails.
func TestRIOSJobsStay(t *testing.T) {
	for name, set := range map[string]pbstest.Settings{
		"running": {}, "some queued": {Running: 3}, "held": {Hold: true}, "no history": {NoHistory: true, Running: 1},
		"old": {Old: true}, "first only": {FirstOnly: true},
	} {
		t.Run(name, func(t *testing.T) {
			s := pbstest.New(t, set)
			// The worker ignores SIGTERM, and has a child.
			r := newRun(t, &Options{MaxArray: 3}, 7, `trap "" TERM; : >"$0/$LEAT_WORKER_NAME.up"; sleep 600; sleep 600`)
			r.Options.Command = append(r.Options.Command, r.dir)
			f := r.start()
			if !set.Hold {
				workertest.Eventually(t, "no worker is up", func() bool { return exists(filepath.Join(r.dir, "pbs-0.up")) })
			}
			if len(s.Left()) != 3 {
				t.Errorf("jobs %v", s.Left())
			}
			r.Stop(f)
			if left := s.Left(); len(left) > 0 {
				t.Errorf("%v are left", left)
			}
			r.Stop(f)
			if exited := r.Exits(); len(exited) > 0 {
				t.Errorf("OnExit was called for workers that Stop ended: %v", exited)
			}
		})
	}
}

func TestStopRetriesBusyServer(t *testing.T) {
	s := pbstest.New(t, pbstest.Settings{})
	r := newRun(t, nil, 2, "exec sleep 600")
	f := r.start()
	var refused atomic.Int32
	s.Set(func(set *pbstest.Settings) {
		set.Before = func(program string, _ []string) *pbstest.Answer {
			if refused.Add(1) <= 6 {
				return &pbstest.Answer{Stderr: program + ": Server is busy\n", Code: 1}
			}
			return nil
		}
	})
	r.Stop(f)
	if left := s.Left(); len(left) > 0 {
		t.Errorf("%v are left", left)
	}
}

func TestStopNamesRemainingJobs(t *testing.T) {
	s := pbstest.New(t, pbstest.Settings{})
	r := newRun(t, &Options{MaxArray: 2}, 3, "exec sleep 600")
	f := r.start()
	down := func(program string, _ []string) *pbstest.Answer {
		return &pbstest.Answer{Stderr: program + ": cannot connect to server pbstest (errno=15010)\n", Code: 1}
	}
	s.Set(func(set *pbstest.Settings) { set.Before = down })
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("five seconds are over"))
	err := f.Stop(ctx)
	workertest.WantError(t, err, "five seconds are over", "jobs 100[].pbstest 101.pbstest may be left")
	workertest.WantCommands(t, err, "qdel '100[].pbstest' '101.pbstest'")
	s.Set(func(set *pbstest.Settings) { set.Before = nil })
	r.Stop(f)
}

func TestStopTimeoutDuringEpilogue(t *testing.T) {
	for _, n := range []int{1, 3} {
		s := pbstest.New(t, pbstest.Settings{Exiting: true})
		r := newRun(t, nil, n, "exec sleep 600")
		f := r.start()
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		var looks atomic.Int32
		s.Set(func(set *pbstest.Settings) {
			set.Before = func(program string, _ []string) *pbstest.Answer {
				if program == "qstat" && looks.Add(1) == 30 {
					stop()
				}
				return nil
			}
		})
		if err := f.Stop(ctx); err != nil {
			t.Error(err)
		}
		if len(s.Left()) != 1 {
			t.Errorf("%v are left", s.Left())
		}
		s.Set(func(set *pbstest.Settings) { set.Before, set.Exiting = nil, false })
	}
}

func TestStopDeletesAfterTimeout(t *testing.T) {
	s := pbstest.New(t, pbstest.Settings{})
	r := newRun(t, nil, 2, "exec sleep 600")
	f := r.start()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_ = f.Stop(ctx)
	workertest.Eventually(t, "the job stays", func() bool { return len(s.Left()) == 0 })
}

func TestFailedStartLeavesNoJobs(t *testing.T) {
	t.Run("the second array is refused", func(t *testing.T) {
		s := pbstest.New(t, pbstest.Settings{})
		var calls atomic.Int32
		s.Set(func(set *pbstest.Settings) {
			set.Before = func(program string, _ []string) *pbstest.Answer {
				if program == "qsub" && calls.Add(1) == 2 {
					return &pbstest.Answer{Stderr: "qsub: would exceed queue generic's per-user limit of jobs\n",
						Code: 1}
				}
				return nil
			}
		})
		r := newRun(t, &Options{MaxArray: 2}, 4, "exec sleep 600")
		_, err := r.kind.Start(t.Context(), r.Options)
		workertest.WantError(t, err, "per-user limit", "submitting a job of 2 workers")
		if len(s.Submitted()) != 1 || len(s.Left()) > 0 {
			t.Errorf("%v are left of %d", s.Left(), len(s.Submitted()))
		}
		if left, _ := filepath.Glob(filepath.Join(r.dir, "*endpoint*")); len(left) > 0 {
			t.Errorf("%v are left", left)
		}
	})
	t.Run("the run ends while qsub is under way", func(t *testing.T) {
		s := pbstest.New(t, pbstest.Settings{})
		ctx, cancel := context.WithCancel(t.Context())
		var once sync.Once
		s.Set(func(set *pbstest.Settings) {
			set.Before = func(program string, _ []string) *pbstest.Answer {
				if program == "qsub" {
					once.Do(cancel)
					time.Sleep(20 * time.Millisecond) // qsub would be killed meanwhile
				}
				return nil
			}
		})
		r := newRun(t, &Options{MaxArray: 2}, 4, "exec sleep 600")
		_, err := r.kind.Start(ctx, r.Options)
		workertest.WantError(t, err, "canceled")
		if len(s.Submitted()) != 1 || len(s.Left()) > 0 {
			t.Errorf("%v are left of %d", s.Left(), len(s.Submitted()))
		}
	})
	t.Run("qsub prints no identifier", func(t *testing.T) {
		s := pbstest.New(t, pbstest.Settings{})
		s.Set(func(set *pbstest.Settings) {
			set.Before = func(program string, _ []string) *pbstest.Answer {
				if program == "qsub" {
					return &pbstest.Answer{Stdout: "thank you\n"}
				}
				return nil
			}
		})
		r := newRun(t, nil, 1, "exit 0")
		_, err := r.kind.Start(t.Context(), r.Options)
		workertest.WantError(t, err, "printed no job identifier", "thank you")
	})
}

func TestQsubPrintsMoreThanIdentifier(t *testing.T) {
	s := pbstest.New(t, pbstest.Settings{})
	k := newLauncher(nil)
	k.times = quick
	s.Set(func(set *pbstest.Settings) {
		set.Before = func(program string, _ []string) *pbstest.Answer {
			return &pbstest.Answer{Stdout: "Your project has 12.5 hours left.\n4711[].pbs-01.site.example\n\n"}
		}
	})
	got, err := newFleet(k, worker.StartOptions{Workers: 2, Command: []string{"/bin/true"}}).submit(t.Context(), 0, 2, nil)
	if err != nil || got != "4711[].pbs-01.site.example" {
		t.Errorf("%q, %v", got, err)
	}
}

func TestTemporaryQstatFailureEndsNoWorker(t *testing.T) {
	s := pbstest.New(t, pbstest.Settings{})
	var log bytes.Buffer
	r := newRun(t, nil, 2, `while [ ! -e "$0/end" ]; do sleep 0.01; done`)
	r.Options.Command = append(r.Options.Command, r.dir)
	r.Options.Logger = slog.New(slog.NewTextHandler(&log, nil))
	f := r.start()
	var failed atomic.Int32
	s.Set(func(set *pbstest.Settings) {
		set.Before = func(program string, _ []string) *pbstest.Answer {
			if program == "qstat" && failed.Add(1) <= 5 {
				return &pbstest.Answer{Stderr: "qstat: cannot connect to server pbstest (errno=111)\n", Code: 111}
			}
			return nil
		}
	})
	workertest.Eventually(t, "qstat is not asked on", func() bool { return failed.Load() > 6 })
	if exited := r.Exits(); len(exited) > 0 {
		t.Errorf("exited: %v", exited)
	}
	if err := os.WriteFile(filepath.Join(r.dir, "end"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, e := range r.Await(2) {
		if e.Err != nil {
			t.Errorf("%s: %v", name, e.Err)
		}
	}
	r.Stop(f)
	if n := strings.Count(log.String(), "errno=111"); n != 1 {
		t.Errorf("said %d times: %s", n, &log)
	}
}

func TestHeldJobIsLoggedOnce(t *testing.T) {
	pbstest.New(t, pbstest.Settings{Hold: true})
	var log bytes.Buffer
	r := newRun(t, nil, 2, "exit 0")
	r.Options.Logger = slog.New(slog.NewTextHandler(&log, nil))
	f := newFleet(r.kind, r.Options)
	if err := f.submitAll(t.Context(), environment()); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if ended, left, err := f.Query(t.Context()); len(ended) > 0 || left != 2 || err != nil {
			t.Errorf("%v, %d, %v", ended, left, err)
		}
	}
	r.Stop(f)
	if n := strings.Count(log.String(), "too many failed attempts"); n != 1 {
		t.Errorf("said %d times: %s", n, &log)
	}
}

func TestDeletedJobIsReported(t *testing.T) {
	for name, set := range map[string]pbstest.Settings{"history": {Running: 1},
		"no history": {Running: 1, NoHistory: true}} {
		t.Run(name, func(t *testing.T) {
			pbstest.New(t, set)
			r := newRun(t, nil, 2, "exec sleep 600")
			f := r.start()
			if res := r.kind.run(t.Context(), "qdel", strings.TrimPrefix(f.Jobs(), "job ")); res.Err != nil {
				t.Fatal(res.Err)
			}
			for name, e := range r.Await(2) {
				if e.Err == nil {
					t.Errorf("%s is said to have ended well", name)
				}
			}
		})
	}
}
