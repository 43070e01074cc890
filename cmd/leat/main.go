// Command leat runs functions over rasters and tells what rasters hold.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"
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
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, unix.SIGTERM)
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
	var usage usageError
	if errors.As(err, &usage) {
		fmt.Fprintf(os.Stderr, "leat: %v\n", err)
		fmt.Fprintf(os.Stderr, "leat: see: %s --help\n", commandOf(root, args))
		return exitUsage
	}
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		fmt.Fprintln(os.Stderr, "leat: interrupted: nothing was written, and files that were there are as they were")
		return exitFailed
	}
	fmt.Fprintf(os.Stderr, "leat: %v\n", err)
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
				return usagef("there is no command %q", args[0])
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.CompletionOptions.HiddenDefaultCmd = true
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usageError{err} })
	root.AddCommand(applyCommand(), infoCommand(), demoCommand())
	for _, c := range root.Commands() {
		if check := c.Args; check != nil {
			c.Args = func(cmd *cobra.Command, args []string) error {
				if err := check(cmd, args); err != nil {
					return usageError{errors.New(strings.TrimSuffix(err.Error(), "."))}
				}
				return nil
			}
		}
	}
	return root
}
