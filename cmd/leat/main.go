// Command leat runs functions over rasters and describes rasters.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/sys/unix"

	"leat/apply/outcome"
)

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

// seeError is a mistake that the text see explains, instead of the help of the command.
type seeError struct {
	err error
	see string
}

func (e seeError) Error() string { return e.err.Error() }
func (e seeError) Unwrap() error { return e.err }

func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

func main() {
	delayCollection()
	code, signal := run(os.Args[1:])
	if signal != 0 {
		dieBy(signal)
	}
	os.Exit(code)
}

// run runs the command that args name and returns the exit code, or the signal by which the process
// is to end.
func run(args []string) (int, unix.Signal) {
	ctx, stop := notifyContext(context.Background())
	defer stop()
	root := rootFor(args)
	root.SetArgs(args)
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error { return usageError{flagError(c, err, args)} })
	if len(args) > 0 && args[0] == cobra.ShellCompRequestCmd {
		describeForCompletion(root)
	}
	err := helpOfUnknown(root, args)
	if err == nil {
		err = root.ExecuteContext(ctx)
	}
	by := signalOf(ctx)
	var status exitStatus
	if errors.As(err, &status) {
		if by != 0 && int(status) == 128+int(by) { // it ended the program that was run, too
			return 0, by
		}
		return int(status), 0
	}
	if err == nil {
		return exitDone, by
	}
	if by != 0 && (errors.Is(err, context.Canceled) || errors.Is(err, context.Cause(ctx))) {
		printMessages(os.Stderr, errorPrefix, interrupted(err))
		return exitFailed, by
	}
	return fail(root, args, err), by
}

// fail writes the error to standard error and returns the exit code.
func fail(root *cobra.Command, args []string, err error) int {
	printError(os.Stderr, err)
	var usage usageError
	var job *outcome.JobError
	switch {
	case errors.As(err, &usage):
		see := commandOf(root, args) + " --help"
		if s := new(seeError); errors.As(err, s) {
			see = s.see
		}
		fmt.Fprintf(os.Stderr, "hint: see %s\n", see)
		return exitUsage
	case errors.As(err, &job):
		return exitUsage
	}
	return exitFailed
}

// commandOf is the command that args name, for the hint after a mistake.
func commandOf(root *cobra.Command, args []string) string {
	if c, _, err := root.Find(args); err == nil && c.Name() != "help" {
		return c.CommandPath()
	}
	return root.CommandPath()
}

// alone are the commands that run without the others. Making the options of all commands takes as
// long as reading a small raster.
var alone = map[string]func() *cobra.Command{"apply": applyCommand, "zonal": zonalCommand, "info": infoCommand,
	"worker": workerCommand}

// rootFor returns the root with the commands that args may need: none for the version.
func rootFor(args []string) *cobra.Command {
	if len(args) == 0 || alone[args[0]] == nil && !slices.Equal(args, []string{"--version"}) {
		return rootCommand()
	}
	root := newRoot()
	if command := alone[args[0]]; command != nil {
		root.AddCommand(command())
	}
	finishCommands(root)
	return root
}

// rootCommand returns the root with all commands and topics.
func rootCommand() *cobra.Command {
	root := newRoot()
	apply := applyCommand()
	root.AddCommand(apply, zonalCommand(), infoCommand(), demoCommand(), workerCommand(), cacheCommand(),
		stageCommand(), jobsCommand(), versionCommand(), configCommand(), manCommand())
	root.SetHelpCommand(helpCommand())
	addCompletion(root)
	addTopics(root, apply.Flags())
	finishCommands(root)
	return root
}

// newRoot returns the root without commands.
func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "leat",
		Short: "Run functions over every block of rasters of any size",
		Long: `leat runs band math over rasters of any size: it reads ahead, computes on all cores, encodes in the
workers, and writes GeoTIFFs that are the same byte for byte for any number of workers.`,
		Example: `  leat demo
  leat apply -i red=B4.tif -i nir=B5.tif -o ndvi=ndvi.tif -e '(nir - red) / (nir + red)'
  leat info ndvi.tif`,
		Version:       version,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return unknownCommand(cmd, args[0])
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.CompletionOptions.HiddenDefaultCmd = true
	root.PersistentPreRunE = configure
	return root
}

// finishCommands completes the commands below root.
func finishCommands(root *cobra.Command) {
	addProfile(root)
	keepOrder(root)
	root.SetGlobalNormalizationFunc(currentFlag)
	completeCommon(root)
	addHelp(root)
	setShortHelp(root)
}

// keepOrder shows the options of a command and of those below it in the order in which they were
// added, --help last.
func keepOrder(c *cobra.Command) {
	c.Flags().SortFlags = false
	for _, sub := range c.Commands() {
		keepOrder(sub)
	}
}

// earlierFlags maps the earlier names of flags, which still work, to the present ones.
var earlierFlags = map[string]string{"hist-aux": "aux-xml", "no-hist": "no-histogram", "tag": "metadata",
	"layers": "bands", "mixed": "allow-mixed-builds", "insecure-secret": "pbs-secret-in-env", "dry-run": "plan"}

// currentFlag returns the present name of a flag.
func currentFlag(_ *pflag.FlagSet, name string) pflag.NormalizedName {
	if current, ok := earlierFlags[name]; ok {
		name = current
	}
	return pflag.NormalizedName(name)
}

// addHelp gives a command and those below it their help.
func addHelp(c *cobra.Command) {
	c.SetUsageFunc(usageText)
	c.Flags().BoolP("help", "h", false, "this text")
	if c.Version != "" {
		c.Flags().Bool("version", false, "the version")
	}
	for _, sub := range c.Commands() {
		addHelp(sub)
	}
}
