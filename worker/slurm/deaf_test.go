package slurm

import (
	"context"
	"errors"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"leat/internal/worker/workertest"
	"leat/worker"
)

const deaf = "exec sleep 600"

// within fails the test when something does not return long after it should have.
func within(t *testing.T, what string, do func() error) error {
	t.Helper()
	end := make(chan error, 1)
	go func() { end <- do() }()
	select {
	case err := <-end:
		return err
	case <-time.After(time.Minute):
		t.Fatalf("%s has not returned after a minute", what)
		return nil
	}
}

func wants(t *testing.T, err error, parts ...string) {
	t.Helper()
	for _, p := range parts {
		if err == nil || !strings.Contains(err.Error(), p) {
			t.Errorf("error %v, which should have in it: %s", err, p)
		}
	}
}

func TestCanceledStartWithHangingSlurm(t *testing.T) {
	// The grace may be too short to begin a scancel: the next try has longer.
	for grace := 500 * time.Millisecond; ; grace *= 4 {
		notes := standIns(t, map[string]string{"sbatch": deaf, "squeue": deaf, "scancel": deaf})
		k := quick(nil)
		k.times.command, k.times.answer, k.times.grace = time.Hour, 50*time.Millisecond, grace
		ctx, cancel := context.WithCancelCause(t.Context())
		why := errors.New("enough")
		onceThere(t, filepath.Join(notes, "sbatch"), func() { cancel(why) })
		s := prepare(t, 1, "exit 0")
		err := within(t, "Start", func() error {
			_, err := k.Start(ctx, s.o)
			return err
		})
		wants(t, err, "enough", "may be left")
		workertest.WantCommands(t, err, "scancel --name=leat-test-", "--user="+userID())
		if left := list(t, s.o.Dir, "*"); len(left) > 0 {
			t.Errorf("left: %v", left)
		}
		got := noted(t, notes, "scancel")
		if got == "" && grace < 20*time.Second {
			continue
		}
		if !strings.Contains(got, "--name=leat-test-") {
			t.Errorf("scancel was called with %q", got)
		}
		return
	}
}

func TestStopTimeoutWithHangingSlurm(t *testing.T) {
	standIns(t, map[string]string{"squeue": deaf, "scancel": deaf})
	k := quick(nil)
	k.times.command, k.times.grace = time.Hour, time.Hour
	s := prepare(t, 1, "exit 0")
	f, err := k.Start(t.Context(), s.o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer stop()
	err = within(t, "Stop", func() error { return f.Stop(ctx) })
	wants(t, err, "job 17 may be left")
	workertest.WantCommands(t, err, "scancel 17")
}

func TestStartCancelsOnlyItsJobs(t *testing.T) {
	notes := standIns(t, map[string]string{"sbatch": "exit 1"})
	s := prepare(t, 1, "exit 0")
	for range 2 {
		if _, err := quick(nil).Start(t.Context(), s.o); err == nil {
			t.Fatal("no error")
		}
	}
	names := func(program, option string) map[string]bool {
		found := map[string]bool{}
		for _, m := range regexp.MustCompile(option+`=(leat-test-[a-z0-9]{8}) `).FindAllStringSubmatch(noted(t, notes,
			program), -1) {
			found[m[1]] = true
		}
		return found
	}
	submitted, cancelled := names("sbatch", "--job-name"), names("scancel", "--name")
	if len(submitted) != 2 || len(cancelled) != 2 {
		t.Fatalf("two starts submitted %v and cancelled %v", submitted, cancelled)
	}
	for n := range cancelled {
		if !submitted[n] {
			t.Errorf("%s was cancelled, and %v submitted", n, submitted)
		}
	}
}

func TestOtherSqueueLinesAreSkipped(t *testing.T) {
	standIns(t, map[string]string{"squeue": "echo 'Welcome to the cluster'; echo '17_0|COMPLETED|None'; echo; echo 'Maintenance at 17:00'"})
	s := begin(t, quick(nil), 1, "exit 0")
	if e := s.gone(1)[0]; e.Err != nil {
		t.Errorf("gone: %s", texts([]worker.Exit{e}))
	}
	if _, _, err := parseQueue("17|RUNNING|None"); err == nil {
		t.Error("a line that is no task's passes for one")
	}
}
