package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"leat/cache"
)

func TestAPutThatWaitsForInputEndsWhenItIsInterrupted(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	leat(t, exitDone, dir, "cache", "create", "a.cache", "10")
	c, out := process(t, dir, "cache", "put", "a.cache", "3")
	in, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	for held := false; !held; time.Sleep(5 * time.Millisecond) { // it reads soon after it has opened the cache
		info, err := cache.Inspect(filepath.Join(dir, "a.cache"))
		if err != nil {
			t.Fatal(err)
		}
		held = info.Held
	}
	time.Sleep(50 * time.Millisecond)
	start := time.Now()
	if err := c.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	c.Wait()
	if d := time.Since(start); d > time.Minute {
		t.Errorf("it took %v", d)
	}
	if want := "leat: interrupted: nothing was written, and files that were there are as they were\n"; c.ProcessState.ExitCode() != exitFailed || out.String() != want {
		t.Errorf("exit code %d, %q", c.ProcessState.ExitCode(), out)
	}
	if said := leat(t, exitDone, dir, "cache", "ls", "a.cache"); said != "SLOT  BYTES\n" {
		t.Errorf("%q", said)
	}
}

func TestLongOperationsOfACacheTellHowFarTheyAre(t *testing.T) {
	t.Parallel()
	const mib = 1 << 20
	for _, c := range []struct {
		name        string
		so          time.Duration
		done, total int64
		want        string
	}{
		{"nothing is known yet", 3 * time.Second, 0, 100 * mib, "importing 1 GiB, 3 s so far"},
		{"the total is not known", 3 * time.Second, 5, 0, "importing 1 GiB, 3 s so far"},
		{"a fifth", 3 * time.Second, 20 * mib, 100 * mib, "importing 1 GiB, 3 s so far: 20.0 MiB of 100 MiB (20 %), about 12 s left"},
		{"heads of records count too", 3 * time.Second, 101 * mib, 100 * mib, "importing 1 GiB, 3 s so far: 100 MiB of 100 MiB (100 %)"},
	} {
		p := watching{what: "importing 1 GiB", done: func() (int64, int64) { return c.done, c.total }}
		if got := p.text(c.so); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

func TestATerminalShowsALineWhileACacheIsWorkedOnAndNothingAfterwards(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var b bytes.Buffer
		ended := make(chan error, 1)
		time.AfterFunc(2050*time.Millisecond, func() { ended <- nil })
		if err := (watching{w: &b, mode: progressLine, what: "checking 1 GiB"}).until(t.Context(), ended); err != nil {
			t.Error(err)
		}
		lines := strings.Split(b.String(), "\r")
		if len(lines) != 22 || lines[20] != "checking 1 GiB, 2 s so far\x1b[K" || lines[21] != "\x1b[K" {
			t.Errorf("%q", lines)
		}
	})
}

func TestALogHasALineNowAndThenWhileACacheIsWorkedOn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var b bytes.Buffer
		ended := make(chan error, 1)
		boom := errors.New("boom")
		time.AfterFunc(11*time.Second, func() { ended <- boom })
		if err := (watching{w: &b, mode: progressLines, what: "checking 1 GiB"}).until(t.Context(), ended); err != boom {
			t.Error(err)
		}
		if want := "checking 1 GiB, 5 s so far\nchecking 1 GiB, 10 s so far\n"; b.String() != want {
			t.Errorf("%q", b.String())
		}
	})
}

func TestAnInterruptedOperationOnACacheIsLeftWhenItDoesNotEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Minute, cancel)
		start := time.Now()
		err := watching{w: new(bytes.Buffer), mode: progressLine, what: "checking"}.until(ctx, make(chan error))
		if !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		if d := time.Since(start); d != time.Minute+endsWithin {
			t.Errorf("%v", d)
		}
	})
}
