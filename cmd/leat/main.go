// Command leat runs functions over rasters and tells what rasters hold.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"leat/apply"
)

// version is set at build time by -ldflags "-X main.version=...".
var version = "dev"

// Exit codes.
const (
	exitDone   = 0
	exitFailed = 1
	exitUsage  = 2
)

// usageError is a mistake in the command line rather than in what it names.
type usageError struct{ err error }

func (e usageError) Error() string { return e.err.Error() }
func (e usageError) Unwrap() error { return e.err }

func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

func main() { os.Exit(run(os.Args[1:])) }

func run(args []string) int {
	ends := []os.Signal{os.Interrupt, unix.SIGTERM}
	if !signal.Ignored(unix.SIGHUP) { // nohup
		ends = append(ends, unix.SIGHUP)
	}
	ctx, stop := signal.NotifyContext(context.Background(), ends...)
	defer stop()
	go func() { // a second ^C ends the process at once
		<-ctx.Done()
		stop()
	}()
	root := rootCommand()
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return exitDone
	}
	var status exitStatus
	if errors.As(err, &status) {
		return int(status)
	}
	if ctx.Err() != nil && (errors.Is(err, context.Canceled) || errors.Is(err, context.Cause(ctx))) {
		fmt.Fprintln(os.Stderr, "leat:", interrupted(err))
		return exitFailed
	}
	for _, m := range messages(err) {
		fmt.Fprintln(os.Stderr, "leat:", m)
	}
	var usage usageError
	var job *apply.JobError
	switch {
	case errors.As(err, &usage):
		fmt.Fprintf(os.Stderr, "leat: see: %s --help\n", commandOf(root, args))
		return exitUsage
	case errors.As(err, &job):
		return exitUsage
	}
	return exitFailed
}

// commandOf is the command that args name, for the hint after a mistake.
func commandOf(root *cobra.Command, args []string) string {
	if c, _, err := root.Find(args); err == nil {
		return c.CommandPath()
	}
	return root.CommandPath()
}

func rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:   "leat",
		Short: "Run functions over every block of rasters of any size",
		Long: `leat runs band math over rasters of any size: it reads ahead, computes on all cores, encodes in the
workers, and writes GeoTIFFs that are the same byte for byte for any number of workers.`,
		Version:       version,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usagef("there is no command %q; there are apply, info, demo, worker, cache, stage and ns", args[0])
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.CompletionOptions.HiddenDefaultCmd = true
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usageError{flagError(err)} })
	root.AddCommand(applyCommand(), infoCommand(), demoCommand(), workerCommand(), cacheCommand(), stageCommand(), nsCommand())
	dress(root)
	return root
}

// dress gives a command and those below it their help.
func dress(c *cobra.Command) {
	c.SetUsageFunc(usageText)
	c.Flags().BoolP("help", "h", false, "this text")
	if c.Version != "" {
		c.Flags().Bool("version", false, "the version")
	}
	for _, sub := range c.Commands() {
		dress(sub)
	}
}
