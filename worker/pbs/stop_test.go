package pbs

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"leat/internal/worker/pbstest"
	"leat/internal/worker/workertest"
)

// scripts makes stand-ins of which each is a line of shell, and notes its arguments in the file of
// its name with .calls.
func scripts(t *testing.T, programs map[string]string) (dir string, o *Options) {
	t.Helper()
	dir = t.TempDir()
	for _, name := range []string{"qsub", "qstat", "qdel", "qselect"} {
		body := fmt.Sprintf("#!/bin/sh\necho \"$*\" >>'%s/%s.calls'\n%s\n", dir, name, programs[name])
		if err := os.WriteFile(filepath.Join(dir, name), []byte(body), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	return dir, &Options{Qsub: filepath.Join(dir, "qsub"), Qstat: filepath.Join(dir, "qstat"),
		Qdel: filepath.Join(dir, "qdel"), MaxArray: 100}
}

func calls(t *testing.T, dir, program string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, program+".calls"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	return string(b)
}

const takes = "cat >/dev/null; echo '17[].s'"

func TestMalformedListingEndsNoWorker(t *testing.T) {
	for name, text := range map[string]string{
		"nothing":            "",
		"a banner":           "Server is in failover, try later\n",
		"other JSON":         "{}\n",
		"cut off, one line":  `{"timestamp":1,"Jobs":{"17[].s":{"job_sta`,
		"cut off, job ended": "{\n\t\"timestamp\":\t1,\n\t\"Jobs\":\t{\n\t\t\"17[].pbstest\":\t{\n\t\t\t\"job_state\":\t\"F\"\n\t\t}\n",
	} {
		t.Run(name, func(t *testing.T) {
			s := pbstest.New(t, pbstest.Settings{})
			r := newRun(t, nil, 2, "exec sleep 600")
			var looks atomic.Int32
			s.Set(func(set *pbstest.Settings) {
				set.Before = func(program string, args []string) *pbstest.Answer {
					if _, server := option(args, "-B"); program != "qstat" || server || looks.Add(1) > 6 {
						return nil
					}
					return &pbstest.Answer{Stdout: strings.ReplaceAll(text, "17[]", "100[]")}
				}
			})
			f := r.start()
			workertest.Eventually(t, "qstat is not asked on", func() bool { return looks.Load() > 7 })
			if exited := r.Exits(); len(exited) > 0 {
				t.Errorf("exited: %v", exited)
			}
			r.Stop(f)
			if left := s.Left(); len(left) > 0 {
				t.Errorf("%v are left", left)
			}
		})
	}
}

func TestJobEndsAfterTwoUnknownAnswers(t *testing.T) {
	dir, o := scripts(t, map[string]string{"qsub": takes, "qstat": "echo 'qstat: Unknown Job Id 17[].s' >&2; exit 153"})
	r := newRun(t, o, 2, "exit 0")
	f := newFleet(r.kind, r.Options)
	if err := f.submitAll(t.Context(), environment()); err != nil {
		t.Fatal(err)
	}
	for _, want := range []int{2, 0} {
		if ended, left, err := f.Query(t.Context()); left != want || len(ended) != 2-want || err != nil {
			t.Errorf("%v, %d, %v; %d should be left", ended, left, err, want)
		}
	}
	r.Stop(f)
	r.Stop(f)
	if got := calls(t, dir, "qdel"); got != "17[].s\n" {
		t.Errorf("qdel was called with %q, expected one call", got)
	}
}

// Without job history OpenPBS answers qstat -x with a listing of no jobs and status 0, whatever
// runs.
func TestEmptyListingEndsNoWorker(t *testing.T) {
	for name, says := range map[string]string{
		"no history":  "qstat: PBS is not configured to maintain job history 17[].s",
		"no reason":   "",
		"another job": "qstat: Unknown Job Id 18[].s",
	} {
		t.Run(name, func(t *testing.T) {
			_, o := scripts(t, map[string]string{
				"qsub":  takes,
				"qstat": `echo '{"timestamp":1,"pbs_version":"23.06.06","pbs_server":"s"}'; echo "` + says + `" >&2`,
			})
			r := newRun(t, o, 2, "exit 0")
			f := newFleet(r.kind, r.Options)
			if err := f.submitAll(t.Context(), environment()); err != nil {
				t.Fatal(err)
			}
			for range 4 {
				if ended, left, err := f.Query(t.Context()); left != 2 || len(ended) > 0 || err == nil {
					t.Errorf("%v ended, %d left, error %v", ended, left, err)
				}
			}
		})
	}
}

func TestStopTimeoutWithHangingQdel(t *testing.T) {
	pid := filepath.Join(t.TempDir(), "pid")
	_, o := scripts(t, map[string]string{
		"qsub":  takes,
		"qstat": `echo '{"Jobs":{"17[].s":{"job_state":"B"},"17[0].s":{"job_state":"R"},"17[1].s":{"job_state":"R"}}}'`,
		"qdel":  "echo $$ >" + pid + "; exec sleep 600",
	})
	r := newRun(t, o, 2, "exit 0")
	r.kind.times.command, r.kind.times.grace = time.Hour, time.Hour
	f, err := r.kind.Start(t.Context(), r.Options)
	if err != nil {
		t.Fatal(err)
	}
	// The time may be too short to begin a qdel: the next try has longer.
	for d := 250 * time.Millisecond; !exists(pid); d *= 2 {
		if d > patience {
			t.Fatal("qdel was not run")
		}
		ctx, stop := context.WithTimeout(t.Context(), d)
		err := workertest.Within(t, "it", func() error { return f.Stop(ctx) })
		workertest.WantError(t, err, "17[].s may be left", "deadline")
		workertest.WantCommands(t, err, "qdel '17[].s'")
		stop()
	}
}

func TestCanceledStartSharesOneGrace(t *testing.T) {
	dir, o := scripts(t, map[string]string{
		"qsub": "cat >/dev/null; echo >\"$0.begun\"; exec sleep 600", "qstat": "exec sleep 600",
		"qdel": "exec sleep 600", "qselect": "echo '17[].s'",
	})
	r := newRun(t, o, 2, "exit 0")
	r.kind.times.command, r.kind.times.grace = time.Hour, time.Second
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("enough")
	go func() {
		for !exists(filepath.Join(dir, "qsub.begun")) && t.Context().Err() == nil {
			time.Sleep(2 * time.Millisecond)
		}
		cancel(why)
	}()
	err := workertest.Within(t, "it", func() error {
		_, err := r.kind.Start(ctx, r.Options)
		return err
	})
	if !errors.Is(err, why) {
		t.Error(err)
	}
	workertest.WantCommands(t, err, "qdel $(qselect -N leat-test-1 -u ")
	if got := calls(t, dir, "qdel"); got != "17[].s\n" {
		t.Errorf("qdel was called with %q: qsub should leave time for it", got)
	}
}

func TestDeleteJobWithoutIdentifier(t *testing.T) {
	for name, after := range map[string]pbstest.Answer{
		"a banner": {Stdout: "Welcome\n"}, "nothing": {}, "killed": {Kill: true},
	} {
		t.Run(name, func(t *testing.T) {
			s := pbstest.New(t, pbstest.Settings{})
			s.Set(func(set *pbstest.Settings) {
				set.After = func(program string, a pbstest.Answer) pbstest.Answer {
					// The first is reported, the second is not.
					if program == "qsub" && !strings.HasPrefix(a.Stdout, "100") {
						return after
					}
					return a
				}
			})
			// A job of another start of the same run is to stay.
			other := newRun(t, nil, 1, "exec sleep 600")
			other.Options.First = 4
			kept := other.start()
			r := newRun(t, nil, 3, "exec sleep 600")
			_, err := r.kind.Start(t.Context(), r.Options)
			workertest.WantError(t, err, errLost.Error())
			if err != nil && strings.Contains(err.Error(), "may be left") {
				t.Error(err)
			}
			if n := len(s.Submitted()); n != 2 {
				t.Errorf("%d were submitted", n)
			}
			if left := strings.Join(s.Left(), " "); "job "+left != kept.Jobs() {
				t.Errorf("%s are left; %s should be", left, kept.Jobs())
			}
		})
	}
}

func TestKilledQsubIsNoRefusal(t *testing.T) {
	dir, o := scripts(t, map[string]string{
		"qsub":    "cat >/dev/null; echo '17[].s' >\"$0.taken\"; kill -KILL $$",
		"qselect": "cat \"$(dirname \"$0\")/qsub.taken\"",
		"qstat":   "echo '{\"Jobs\":{\"17[].s\":{\"job_state\":\"F\"}}}'",
	})
	r := newRun(t, o, 2, "exit 0")
	_, err := r.kind.Start(t.Context(), r.Options)
	workertest.WantError(t, err, "before it was killed", "killed")
	if got := calls(t, dir, "qdel"); got != "17[].s\n" {
		t.Errorf("qdel was called with %q", got)
	}
}

func TestProgramsRunInOwnSession(t *testing.T) {
	// What the terminal does on ^C: the signal goes to the whole group.
	_, o := scripts(t, map[string]string{
		"qsub":  "trap '' INT; kill -INT 0; cat >/dev/null; sleep 0.1; echo '17[].s'",
		"qstat": "echo '{\"Jobs\":{\"17[].s\":{\"job_state\":\"F\"}}}'",
	})
	c := make(chan os.Signal, 1)
	signal.Notify(c, os.Interrupt)
	defer signal.Stop(c)
	r := newRun(t, o, 2, "exit 0")
	r.start()
	r.Await(2)
	if len(c) > 0 {
		t.Error("qsub is in the group of this process")
	}
}

func TestKillWrapperWithItsProgram(t *testing.T) {
	dir, o := scripts(t, map[string]string{"qdel": "sleep 600 & echo $! >\"$0.tmp\" && mv \"$0.tmp\" \"$0.pid\"; wait"})
	pid := filepath.Join(dir, "qdel.pid")
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		for !exists(pid) && t.Context().Err() == nil {
			time.Sleep(2 * time.Millisecond)
		}
		cancel()
	}()
	k := newLauncher(o)
	k.times = quick
	if r := k.run(ctx, "qdel", "17.s"); !errors.Is(r.Err, context.Canceled) || !r.Lost {
		t.Errorf("%+v", r)
	}
	n, err := strconv.Atoi(strings.TrimSpace(read(t, pid)))
	if err != nil {
		t.Fatal(err)
	}
	workertest.Eventually(t, "what qdel started is left", func() bool { return !workertest.Alive(n) })
}
