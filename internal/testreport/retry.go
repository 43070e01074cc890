package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"slices"
)

// maxRetries is how many tests of a run may fail and still run again: more point to a defect, or to
// a machine on which no result counts.
const maxRetries = 3

// failure is a test that failed.
type failure struct {
	directory, pkg, test string
}

// retrier starts a test again and returns the events of go test -json, to be read until EOF.
type retrier func(failure) (io.ReadCloser, error)

// goTest returns a retrier that runs go test with the options.
func goTest(options []string) retrier {
	return func(f failure) (io.ReadCloser, error) {
		args := slices.Concat([]string{"test", "-json"}, options,
			[]string{"-count=1", "-run", "^" + regexp.QuoteMeta(f.test) + "$", f.pkg})
		cmd := exec.Command("go", args...)
		cmd.Dir, cmd.Stderr = f.directory, os.Stderr
		events, err := cmd.StdoutPipe()
		if err != nil {
			return nil, err
		}
		if err := cmd.Start(); err != nil {
			return nil, err
		}
		return commandOutput{events, cmd}, nil
	}
}

// commandOutput is the output of a command, and waits for it in Close.
type commandOutput struct {
	io.ReadCloser
	cmd *exec.Cmd
}

func (o commandOutput) Close() error { return o.cmd.Wait() }

// retry runs the tests that failed once more, if they may run again. It returns the closing lines
// about them and reports whether all passed.
func (s *summary) retry(w io.Writer, again retrier) (lines []string, ok bool) {
	switch {
	case s.strict != "":
		return []string{"no test runs again: " + s.strict}, false
	case len(s.failures) > maxRetries:
		return []string{fmt.Sprintf("no test runs again: %d failed, more than %d", len(s.failures), maxRetries)}, false
	}
	ok = true
	for _, f := range s.failures {
		name := f.pkg + " " + f.test
		fmt.Fprintf(w, "\nfailed, runs again alone: %s\n", name)
		if err := runAgain(f, w, again); err != nil {
			ok = false
			lines = append(lines, fmt.Sprintf("failed twice: %s: %v", name, err))
		} else {
			lines = append(lines, fmt.Sprintf("failed once, passed alone: %s (unstable)", name))
		}
	}
	return lines, ok
}

// runAgain returns nil only if the test ran and passed.
func runAgain(f failure, w io.Writer, again retrier) error {
	events, err := again(f)
	if err != nil {
		return err
	}
	s, err := readEvents(events, w)
	if exit := events.Close(); err == nil {
		err = exit
	}
	switch {
	case err != nil:
		return err
	case s.failed > 0 || !s.passed[f.pkg+" "+f.test]:
		return fmt.Errorf("passed %d of 1", len(s.passed))
	}
	return nil
}
