package batch

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"leat/worker"
)

func program(t *testing.T, script string) Program {
	path := filepath.Join(t.TempDir(), "qthing")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+script), 0o700); err != nil {
		t.Fatal(err)
	}
	return Program{Path: path, Env: os.Environ()}
}

func TestProgramOutputAndError(t *testing.T) {
	for _, c := range []struct {
		script, stdout, stderr, err string
		lost                        bool
	}{
		{script: "cat; echo warned >&2", stdout: "in", stderr: "warned"},
		{script: "echo 'qthing: no such job' >&2; exit 3", stderr: "qthing: no such job",
			err: "qthing: no such job (exit status 3)"},
		{script: "echo refused; exit 1", stdout: "refused\n", err: "qthing: refused (exit status 1)"},
		{script: "exit 7", err: "qthing: exit status 7"},
		{script: "kill -9 $$", err: "qthing: signal: killed", lost: true},
		{script: "sleep 100 & exit 0"}, // keeps our pipes
	} {
		p := program(t, c.script)
		p.Stdin = "in"
		a := p.Run(t.Context(), time.Minute)
		got := ""
		if a.Err != nil {
			got = a.Err.Error()
		}
		if string(a.Stdout) != c.stdout || a.Stderr != c.stderr || got != c.err || a.Lost != c.lost {
			t.Errorf("%s: %q %q %q %v", c.script, a.Stdout, a.Stderr, got, a.Lost)
		}
	}
}

func TestProgramTimeoutKillsChildren(t *testing.T) {
	p := program(t, "sleep 100 & echo $!; wait")
	a := p.Run(t.Context(), 300*time.Millisecond)
	if !a.Lost || a.Err == nil || !strings.Contains(a.Err.Error(), "qthing: no answer for 300ms") {
		t.Fatalf("%+v", a)
	}
	child := strings.TrimSpace(string(a.Stdout))
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(time.Millisecond) {
		data, err := os.ReadFile("/proc/" + child + "/stat")
		if err != nil || strings.Contains(string(data), ") Z ") {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("its child %s lives: %s", child, data)
		}
	}
	missing := Program{Path: filepath.Join(t.TempDir(), "none")}.Run(t.Context(), time.Minute)
	if !errors.Is(missing.Err, os.ErrNotExist) || missing.Lost {
		t.Errorf("%+v", missing)
	}
}

func TestCanceledProgramMayFinish(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	extended, stop := Extend(ctx, 10*time.Millisecond)
	defer stop()
	why := errors.New("why")
	cancel(why)
	if extended.Err() != nil {
		t.Error("it ends at once")
	}
	<-extended.Done()
	if context.Cause(extended) != why {
		t.Error(context.Cause(extended))
	}
}

func TestLogTailHasWholeLines(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	line := strings.Repeat("x", 99) + "\n"
	if err := os.WriteFile(path, []byte(strings.Repeat(line, 100)+"end \xff\n\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	got := End(path)
	if len(got) > EndOfLog || len(got) < EndOfLog-len(line)-2 || !strings.HasPrefix(got,
		line) || !strings.HasSuffix(got, "\nend ?") {
		t.Errorf("%d bytes, %q", len(got), got[len(got)-20:])
	}
	if End(path+"none") != "" || End(filepath.Dir(path)) != "" {
		t.Error("the end of what is not a file")
	}
	if got := Tail("a line of many letters", 7); got != "letters" {
		t.Errorf("%q", got)
	}
}

// fakeSystem answers from functions.
type fakeSystem struct {
	query  func() (ended []worker.Exit, left int, err error)
	cancel func() (Left, error)
	clean  int
}

func (s *fakeSystem) Jobs() string { return "job 17" }

func (s *fakeSystem) Query(context.Context) ([]worker.Exit, int, error) { return s.query() }

func (s *fakeSystem) Cancel(context.Context) (Left, error) { return s.cancel() }

func (s *fakeSystem) Commands() []string { return []string{"cancel 17"} }

func (s *fakeSystem) Cleanup() error {
	s.clean++
	return nil
}

func TestWatchUntilNoJobIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		queries := 0
		s := &fakeSystem{cancel: func() (Left, error) { return Nothing, nil }}
		s.query = func() ([]worker.Exit, int, error) {
			queries++
			switch queries {
			case 1, 2, 5:
				return nil, 2, errors.New("busy")
			case 3:
				return []worker.Exit{{Name: "a"}}, 1, nil
			case 6:
				return []worker.Exit{{Name: "b"}}, 0, nil
			}
			return nil, 1, nil
		}
		var log bytes.Buffer
		var gone []string
		failed := 0
		f := NewFleet(s, &worker.StartOptions{
			OnExit: func(e worker.Exit) { gone = append(gone, e.Name) },
			OnQuery: func(err error) {
				if err != nil {
					failed++
				}
			},
			Logger: slog.New(slog.NewTextHandler(&log, nil)),
		}, Pace{time.Second, time.Minute}, time.Second)
		f.Watch()
		time.Sleep(time.Hour)
		synctest.Wait()
		warned := strings.Count(log.String(), "job query failed")
		if queries != 6 || failed != 3 || warned != 2 || strings.Join(gone, " ") != "a b" {
			t.Errorf("%d queries, %d failed, %d logged, %q ended", queries, failed, warned, gone)
		}
		if err := errors.Join(f.Stop(t.Context()), f.Stop(t.Context())); err != nil || s.clean != 2 {
			t.Errorf("Stop: %v, %d cleanups", err, s.clean)
		}
	})
}

func TestStopUntilNothingIsLeft(t *testing.T) {
	refused := errors.New("refused")
	for _, c := range []struct {
		name  string
		left  []Left
		err   error // of all but the last Cancel
		calls int
		want  string
	}{
		{"at once", []Left{Nothing}, nil, 1, ""},
		{"after a refusal", []Left{Running, Running, Nothing}, refused, 3, ""},
		{"nothing with an error", []Left{Nothing, Nothing}, refused, 2, ""},
		{"ending", []Left{Ending}, nil, 0, ""},
		{"running", []Left{Running}, nil, 0, "job 17 may be left: context deadline exceeded"},
	} {
		synctest.Test(t, func(t *testing.T) {
			calls := 0
			f := NewFleet(&fakeSystem{cancel: func() (Left, error) {
				calls++
				if calls >= len(c.left) {
					return c.left[len(c.left)-1], nil
				}
				return c.left[calls-1], c.err
			}}, &worker.StartOptions{}, Pace{time.Second, time.Second}, time.Second)
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			got := ""
			if err := f.Stop(ctx); err != nil {
				got = err.Error()
			}
			if got != c.want || c.calls > 0 && calls != c.calls {
				t.Errorf("%s: %q after %d calls, expected %q after %d", c.name, got, calls, c.want, c.calls)
			}
		})
	}
}
