package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"
)

func stagePinCommand() *cobra.Command {
	f := &stageFlags{}
	example := `  leat stage pin scenes.txt -- python3 train.py
  leat stage pin s3://bucket/val/ --max-bytes 200G`
	c := newStageCommand("pin LIST|URL|-... [-- COMMAND...]", "Stage objects and keep them while a program runs",
		`Pin stages objects, named as for prefetch, and keeps them from being evicted while COMMAND runs;
without COMMAND until a signal ends it. If an object can't be staged COMMAND is not run. The code is that of COMMAND.
However pin ends, a kill included, nothing stays pinned.`,
		example, nil,
		func(cmd *cobra.Command, args []string) error {
			var command []string
			if n := cmd.ArgsLenAtDash(); n >= 0 {
				args, command = args[:n], args[n:]
				if len(command) == 0 {
					return usagef("there is no COMMAND behind --")
				}
			}
			if err := listOrURLs("pin", example)(cmd, args); err != nil {
				return err
			}
			return pin(cmd, args, command, f)
		})
	c.Args = cobra.ArbitraryArgs
	c.Flags().BoolVar(&f.recursive, "recursive", false, "take every URL as that of a directory")
	f.addSource(c)
	f.addJSON(c, "one JSON object a line before COMMAND begins: of each object that failed, then the counts")
	return c
}

func pin(cmd *cobra.Command, args, command []string, f *stageFlags) (err error) {
	o, err := f.options()
	if err != nil {
		return err
	}
	var program string
	if len(command) > 0 {
		if program, err = exec.LookPath(command[0]); err != nil {
			return fmt.Errorf("%s can't be run: %w", command[0], pathCause(err))
		}
	}
	for _, arg := range args {
		if arg == "-" && len(command) > 0 {
			return usagef("standard input is COMMAND's: give the list as a file")
		}
	}
	urls, err := interruptible(cmd.Context(),
		func() ([]string, error) { return readTargets(args, cmd.InOrStdin(), f.recursive) })
	if err != nil {
		return err
	}
	s, err := f.open(cmd, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.end()) }()
	ctx := cmd.Context()
	fill := &filling{s: s, progress: newStageProgress(s.people, "staging")}
	fill.progress.waiting = &s.waiting
	if f.json {
		fill.data = cmd.OutOrStdout()
	}
	err = fill.progress.run(func() error { return fill.fill(ctx, urls, f.recursive, 1<<30, f.workers) })
	d := fill.doc()
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("interrupted before all was staged: COMMAND was not run")
	case err != nil:
		return err
	}
	if f.json {
		if err := writeJSON(cmd.OutOrStdout(), d); err != nil {
			return stdoutError(err)
		}
	}
	switch {
	case d.Failed > 0 && program != "":
		return fmt.Errorf("%w: COMMAND was not run", notStaged(d))
	case d.Failed > 0:
		return notStaged(d)
	}
	if !f.json {
		fmt.Fprintln(s.people, d.text()+"; all are pinned")
	}
	if program == "" {
		<-ctx.Done()
		fill.release()
		return nil
	}
	// While the program ends after an interruption everything stays pinned.
	s.stop()
	defer fill.release()
	return runPinned(ctx, program, command)
}

// How long a program may go on after an interruption: one at a terminal had the same signal from
// it, and may be at saving its work.
const (
	pinnedGrace = 5 * time.Second
	pinnedKill  = 5 * time.Second // after it was asked to end
)

// runPinned runs a program to its end.
func runPinned(ctx context.Context, program string, command []string) error {
	c := exec.Command(program)
	c.Args = command
	c.Stdin, c.Stdout, c.Stderr = os.Stdin, os.Stdout, os.Stderr
	if err := c.Start(); err != nil {
		return fmt.Errorf("%s can't be run: %w", command[0], pathCause(err))
	}
	ended := make(chan error, 1)
	go func() { ended <- c.Wait() }()
	var err error
	select {
	case err = <-ended:
	case <-ctx.Done():
		if term.IsTerminal(int(os.Stdin.Fd())) {
			select {
			case err = <-ended:
				return statusOf(c, err)
			case <-time.After(pinnedGrace):
			}
		}
		_ = c.Process.Signal(syscall.SIGTERM)
		select {
		case err = <-ended:
		case <-time.After(pinnedKill):
			_ = c.Process.Kill()
			err = <-ended
		}
	}
	return statusOf(c, err)
}

// statusOf returns a program's exit code as a shell shows it.
func statusOf(c *exec.Cmd, err error) error {
	if err == nil {
		return nil
	}
	if c.ProcessState == nil {
		return err
	}
	if w, ok := c.ProcessState.Sys().(syscall.WaitStatus); ok && w.Signaled() {
		return exitStatus(128 + int(w.Signal()))
	}
	if code := c.ProcessState.ExitCode(); code > 0 {
		return exitStatus(code)
	}
	return err
}

// pathCause is why a program can't be run, without its name.
func pathCause(err error) error {
	var e *exec.Error
	if errors.As(err, &e) {
		err = e.Err
	}
	if errors.Is(err, exec.ErrNotFound) {
		return errors.New("there is no such program in $PATH")
	}
	return cause(err)
}
