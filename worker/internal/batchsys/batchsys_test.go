package batchsys

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
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
	calm, stop := Patient(ctx, 10*time.Millisecond)
	defer stop()
	why := errors.New("why")
	cancel(why)
	if calm.Err() != nil {
		t.Error("it ends at once")
	}
	<-calm.Done()
	if context.Cause(calm) != why {
		t.Error(context.Cause(calm))
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
		t.Error("the end of what is no file")
	}
	if got := Tail("a line of many letters", 7); got != "letters" {
		t.Errorf("%q", got)
	}
}

func TestWatchUntilNoJobIsLeft(t *testing.T) {
	looks, failed, told := 0, 0, 0
	var gone []string
	Pace{time.Millisecond, 2 * time.Millisecond}.Watch(t.Context(), func(context.Context) ([]worker.Exit, int, error) {
		looks++
		switch looks {
		case 1, 2, 5:
			return nil, 2, errors.New("busy")
		case 3:
			return []worker.Exit{{Name: "a"}}, 1, nil
		case 6:
			return []worker.Exit{{Name: "b"}}, 0, nil
		}
		return nil, 1, nil
	}, &worker.StartOptions{
		OnExit: func(e worker.Exit) { gone = append(gone, e.Name) },
		OnQuery: func(err error) {
			if err != nil {
				failed++
			}
		},
	}, func(error) { told++ })
	if looks != 6 || failed != 3 || told != 2 || strings.Join(gone, " ") != "a b" {
		t.Errorf("%d looks, %d times told, %q are gone", looks, told, gone)
	}
	ctx, cancel := context.WithCancel(t.Context())
	Pace{time.Millisecond, time.Millisecond}.Watch(ctx, func(context.Context) ([]worker.Exit, int, error) {
		cancel()
		return []worker.Exit{{Name: "c"}}, 0, nil
	}, &worker.StartOptions{OnExit: func(worker.Exit) { t.Error("told after its end") }},
		func(error) { t.Error("told after its end") })
}
